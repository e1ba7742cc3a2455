// From the loop IR to LLVM's: each vector of a tile becomes a value of a vector type. LLVM assigns registers and selects instructions;
// the order of operations is ours. Elements are emitted when something needs them (loop_ir.h), row by row: so the elements of a
// column that is multiplied by a row take one register, one after the other.
#include "codegen/lower_to_llvm.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <map>

#include "anfora/error.h"

namespace anfora::codegen {
namespace {

class Lowering {
 public:
  Lowering(const Function& function, const IsaDescription& isa, llvm::Module& module)
      : function_(function), isa_(isa), b_(module.getContext()) {
    llvm::LLVMContext& context = module.getContext();
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy()}, false);
    target_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, function.name, module);
    target_->addFnAttr(llvm::Attribute::NoUnwind);
    if (isa.lanes == 16) {  // else vectors of 512 bits would be split on some processors
      target_->addFnAttr("min-legal-vector-width", "512");
      target_->addFnAttr("prefer-vector-width", "512");
    }
    b_.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", target_));
    scopes_.emplace_back();
  }

  void run() {
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      llvm::Value* slot = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), target_->getArg(0), i);
      const bool is_pointer = function_.parameters[i].element == Element::Pointer;
      arguments_.push_back(b_.CreateLoad(is_pointer ? static_cast<llvm::Type*>(b_.getPtrTy()) : b_.getInt64Ty(), slot));
    }
    block(0);
    b_.CreateRetVoid();
  }

 private:
  struct Place {
    Value value;
    int row, vector;
    auto operator<=>(const Place&) const = default;
  };
  using Scope = std::map<Place, llvm::Value*>;  // elements that are there in the current block of code

  const Node& node(Value value) const { return function_.node(value); }

  llvm::Type* element_type(const Type& type) {
    llvm::Type* single = nullptr;
    switch (type.element) {
      case Element::Index: single = b_.getInt64Ty(); break;
      case Element::Pointer: single = b_.getPtrTy(); break;
      case Element::F32: single = b_.getFloatTy(); break;
      case Element::I32: single = b_.getInt32Ty(); break;
      case Element::I64: single = b_.getInt64Ty(); break;
      case Element::Mask: single = b_.getInt1Ty(); break;
    }
    return type.lanes == 1 ? single : llvm::FixedVectorType::get(single, static_cast<unsigned>(type.lanes));
  }

  void set(Value value, int row, int vector, llvm::Value* element) { scopes_.back()[{value, row, vector}] = element; }

  llvm::Value* single(Value value) { return element(value, 0, 0, 1); }

  // The vector at that place of a tile, or the one that is repeated there, as so many lanes.
  llvm::Value* element(Value value, int row, int vector, int lanes) {
    const Type& type = node(value).type;
    const Place place{value, type.rows == 1 ? 0 : row, type.vectors == 1 ? 0 : vector};
    Scope* scope = scope_of(place);
    if (!scope) {
      llvm::Value* made = make(value, place.row, place.vector);
      scope = &scopes_.back();
      (*scope)[place] = made;
    }
    llvm::Value* const found = (*scope)[place];
    if (type.lanes == lanes || lanes == 1) return found;
    llvm::Value*& splat = (*scope)[{-2 - value, place.row, place.vector}];
    if (splat) return splat;
    // Where the element is made: LLVM leaves it in the loops that it is used in.
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    auto* made_by = llvm::dyn_cast<llvm::Instruction>(found);
    if (scope != &scopes_.back() && made_by) b_.SetInsertPoint(made_by->getParent(), *made_by->getInsertionPointAfterDef());
    return splat = b_.CreateVectorSplat(static_cast<unsigned>(lanes), found);
  }
  // The innermost that has it, or none.
  Scope* scope_of(const Place& place) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (scope->contains(place)) return &*scope;
    }
    return nullptr;
  }

  // Of a row from the first, in elements.
  llvm::Value* distance(Value stride, int row) {
    constexpr int kTimes = -1;  // in the place of a vector
    const Place place{stride, row, kTimes};
    if (Scope* scope = scope_of(place)) return (*scope)[place];
    llvm::Value* made = b_.CreateMul(b_.getInt64(static_cast<uint64_t>(row)), single(stride));
    return scopes_.back()[place] = made;
  }

  llvm::Value* address(const Node& memory, int row, int vector) {
    llvm::Type* in_memory = b_.getIntNTy(static_cast<unsigned>(8 * bytes_in_memory(memory)));
    llvm::Value* base = single(memory.operands[0]);
    if (row > 0) base = b_.CreateGEP(in_memory, base, distance(memory.operands[1], row));
    return vector == 0 ? base
                       : b_.CreateConstGEP1_64(in_memory, base, static_cast<uint64_t>(vector * memory.type.lanes));
  }

  llvm::Value* make(Value value, int row, int vector) {
    const Node& n = node(value);
    const int lanes = n.type.lanes;
    auto operand = [&](size_t i) { return element(n.operands[i], row, vector, lanes); };
    switch (n.op) {
      case Op::Parameter: return arguments_[static_cast<size_t>(n.number)];
      case Op::Integer: return b_.getInt64(static_cast<uint64_t>(n.number));
      case Op::Bits:
        return n.type.element == Element::I64 ? b_.getInt64(static_cast<uint64_t>(n.number)) : b_.getInt32(static_cast<uint32_t>(n.number));
      case Op::Float: return llvm::ConstantFP::get(b_.getFloatTy(), static_cast<double>(n.scalar));
      case Op::Offset:
        return b_.CreateGEP(b_.getIntNTy(static_cast<unsigned>(8 * n.number)), single(n.operands[0]), single(n.operands[1]));
      case Op::Load: {
        llvm::Value* from = address(n, row, vector);
        if (bytes_in_memory(n) == 1) return load_bytes(n, from, vector);
        if (bytes_in_memory(n) == 2) return load_narrow(n, from);
        if (n.operands.size() == 2) return b_.CreateAlignedLoad(element_type(n.type), from, llvm::Align(4));
        return b_.CreateMaskedLoad(element_type(n.type), from, llvm::Align(4), element(n.operands[2], 0, vector, lanes),
                                   llvm::Constant::getNullValue(element_type(n.type)));
      }
      case Op::Columns: return columns(n, vector);
      case Op::Select: return b_.CreateSelect(operand(0), operand(1), operand(2));
      case Op::Fma:
        return b_.CreateIntrinsic(llvm::Intrinsic::fma, {element_type(n.type)}, {operand(0), operand(1), operand(2)});
      case Op::SquareRoot: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, operand(0));
      case Op::Transpose: return transpose(value, row);
      case Op::SumOfLanes:
      case Op::LargestOfLanes:
      case Op::SmallestOfLanes:
        if (node(n.operands[0]).type.rows > 1) return of_rows(n.op, n.operands[0]);
        return of_lanes(n.op, element(n.operands[0], 0, 0, node(n.operands[0]).type.lanes));
      case Op::AnyOfLanes: {
        const auto lanes_of = static_cast<unsigned>(node(n.operands[0]).type.lanes);
        llvm::Value* mask = element(n.operands[0], 0, 0, node(n.operands[0]).type.lanes);
        return b_.CreateIsNotNull(b_.CreateBitCast(mask, b_.getIntNTy(lanes_of)));
      }
      case Op::DotBytes: return dot_bytes(lanes, operand(0), operand(1), operand(2));
      case Op::DotHalves: return b_.CreateAdd(operand(2), sum_of_halves(lanes, operand(0), operand(1)));
      case Op::ToFloat: return b_.CreateSIToFP(operand(0), element_type(n.type));
      case Op::ToNearest: return to_nearest(lanes, operand(0));
      case Op::ToInteger: return to_integer(node(n.operands[0]).type.element, n.type, operand(0));
      case Op::AsBits:
      case Op::AsFloat: return b_.CreateBitCast(operand(0), element_type(n.type));
      case Op::And: return b_.CreateAnd(operand(0), operand(1));
      case Op::Or: return b_.CreateOr(operand(0), operand(1));
      case Op::Xor: return b_.CreateXor(operand(0), operand(1));
      case Op::ShiftLeft: return b_.CreateShl(operand(0), operand(1));
      case Op::ShiftRight: return b_.CreateAShr(operand(0), operand(1));
      default: return arithmetic(n.op, node(n.operands[0]).type.element == Element::F32, operand(0), operand(1));
    }
  }

  // What does not fit is replaced before the instruction, whose result for it LLVM leaves open.
  llvm::Value* to_integer(Element from, const Type& to, llvm::Value* x) {
    llvm::Type* type = element_type(to);
    if (from != Element::F32) return b_.CreateSExtOrTrunc(x, type);
    const bool is_long = to.element == Element::I64;
    const double bound = is_long ? 0x1p63 : 0x1p31;
    auto constant = [&](double value) { return llvm::ConstantFP::get(x->getType(), value); };
    llvm::Value* fits = b_.CreateAnd(b_.CreateFCmpOGE(x, constant(-bound)), b_.CreateFCmpOLT(x, constant(bound)));
    llvm::Value* truncated = b_.CreateFPToSI(b_.CreateSelect(fits, x, constant(0)), type);
    const int64_t least = is_long ? INT64_MIN : int64_t{INT32_MIN};
    return b_.CreateSelect(fits, truncated, llvm::ConstantInt::get(type, static_cast<uint64_t>(least), true));
  }

  llvm::Value* to_nearest(int lanes, llvm::Value* x) {
    if (lanes == 1) return b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_cvtss2si, {}, {b_.CreateInsertElement(llvm::FixedVectorType::get(b_.getFloatTy(), 4), x, uint64_t{0})});
    if (lanes == 16) {
      constexpr uint32_t kCurrentDirection = 4;  // of rounding: to the nearest
      auto* result = llvm::FixedVectorType::get(b_.getInt32Ty(), 16);
      return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_cvtps2dq_512, {}, {x, llvm::Constant::getNullValue(result), b_.getInt16(0xFFFF), b_.getInt32(kCurrentDirection)});
    }
    return b_.CreateIntrinsic(lanes == 8 ? llvm::Intrinsic::x86_avx_cvt_ps2dq_256 : llvm::Intrinsic::x86_sse2_cvtps2dq, {}, {x});
  }

  llvm::Value* dot_bytes(int lanes, llvm::Value* a, llvm::Value* b, llvm::Value* c) {
    target_->addFnAttr("target-features", lanes == 16 ? "+avx512vnni" : "+avxvnni");
    const auto instruction = lanes == 16  ? llvm::Intrinsic::x86_avx512_vpdpbusd_512
                             : lanes == 8 ? llvm::Intrinsic::x86_avx512_vpdpbusd_256
                                          : llvm::Intrinsic::x86_avx512_vpdpbusd_128;
    return b_.CreateIntrinsic(instruction, {}, {c, a, b});
  }

  llvm::Value* sum_of_halves(int lanes, llvm::Value* a, llvm::Value* b) {
    auto* halves = llvm::FixedVectorType::get(b_.getInt16Ty(), static_cast<unsigned>(2 * lanes));
    const auto instruction = lanes == 16  ? llvm::Intrinsic::x86_avx512_pmaddw_d_512
                             : lanes == 8 ? llvm::Intrinsic::x86_avx2_pmadd_wd
                                          : llvm::Intrinsic::x86_sse2_pmadd_wd;
    return b_.CreateIntrinsic(instruction, {}, {b_.CreateBitCast(a, halves), b_.CreateBitCast(b, halves)});
  }

  llvm::Type* bytes_of(const Type& type) {
    return type.lanes == 1 ? static_cast<llvm::Type*>(b_.getInt8Ty())
                           : llvm::FixedVectorType::get(b_.getInt8Ty(), static_cast<unsigned>(type.lanes));
  }
  // A mask: on where the byte is not 0.
  llvm::Value* load_bytes(const Node& n, llvm::Value* from, int vector) {
    llvm::Type* type = bytes_of(n.type);
    llvm::Value* zeros = llvm::Constant::getNullValue(type);
    llvm::Value* loaded =
        n.operands.size() == 2
            ? static_cast<llvm::Value*>(b_.CreateAlignedLoad(type, from, llvm::Align(1)))
            : b_.CreateMaskedLoad(type, from, llvm::Align(1), element(n.operands[2], 0, vector, n.type.lanes), zeros);
    if (n.type.element == Element::Mask) return b_.CreateICmpNE(loaded, zeros);
    const bool is_signed = n.number == static_cast<int64_t>(InMemory::SignedByte);
    return is_signed ? b_.CreateSExt(loaded, element_type(n.type)) : b_.CreateZExt(loaded, element_type(n.type));
  }

  // f16 or bf16, whose bits are the upper half of those of f32.
  llvm::Value* load_narrow(const Node& n, llvm::Value* from) {
    auto lanes_of = [&](llvm::Type* one) {
      return n.type.lanes == 1 ? one : llvm::FixedVectorType::get(one, static_cast<unsigned>(n.type.lanes));
    };
    const bool is_half = n.number == static_cast<int64_t>(InMemory::Half);
    llvm::Value* loaded = b_.CreateAlignedLoad(lanes_of(is_half ? b_.getHalfTy() : b_.getInt16Ty()), from, llvm::Align(2));
    if (is_half) return b_.CreateFPExt(loaded, element_type(n.type));
    constexpr uint64_t kBits = 16;
    return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(loaded, lanes_of(b_.getInt32Ty())), kBits), element_type(n.type));
  }

  llvm::Value* arithmetic(Op op, bool is_float, llvm::Value* a, llvm::Value* b) {
    switch (op) {
      case Op::Add: return is_float ? b_.CreateFAdd(a, b) : b_.CreateAdd(a, b);
      case Op::Subtract: return is_float ? b_.CreateFSub(a, b) : b_.CreateSub(a, b);
      case Op::Multiply: return is_float ? b_.CreateFMul(a, b) : b_.CreateMul(a, b);
      case Op::Divide: return is_float ? b_.CreateFDiv(a, b) : b_.CreateSDiv(a, b);
      case Op::Less: return is_float ? b_.CreateFCmpOLT(a, b) : b_.CreateICmpSLT(a, b);
      case Op::LessOrEqual: return is_float ? b_.CreateFCmpOLE(a, b) : b_.CreateICmpSLE(a, b);
      case Op::Equal: return is_float ? b_.CreateFCmpOEQ(a, b) : b_.CreateICmpEQ(a, b);
      case Op::Minimum: return b_.CreateSelect(arithmetic(Op::Less, is_float, a, b), a, b);
      case Op::Maximum: return b_.CreateSelect(is_float ? b_.CreateFCmpOGT(a, b) : b_.CreateICmpSGT(a, b), a, b);
      default: throw Error(ErrorCode::Internal, "loop IR: no code for " + std::string(name(op)));
    }
  }

  // Of two vectors, the lanes whose number lacks a bit of the first, and those that have it likewise of the second, side by side:
  // `distance` is the bit, 0 or itself is added to the numbers.
  llvm::Value* interleave(llvm::Value* a, llvm::Value* b, int lanes, int distance, int added) {
    llvm::SmallVector<int, 16> chosen;
    for (int i = 0; i < lanes; ++i) chosen.push_back((i & distance) == 0 ? i + added : lanes + i - distance + added);
    return b_.CreateShuffleVector(a, b, chosen);
  }
  std::vector<llvm::Value*> rows_of(Value tile) {
    const Type& type = node(tile).type;
    std::vector<llvm::Value*> rows;
    for (int row = 0; row < type.rows; ++row) rows.push_back(element(tile, row, 0, type.lanes));
    return rows;
  }

  // Quarters of the square change places, then quarters of these.
  llvm::Value* transpose(Value value, int row) {
    const int lanes = node(value).type.lanes;
    std::vector<llvm::Value*> rows = rows_of(node(value).operands[0]);
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      for (int i = 0; i < lanes; ++i) {
        if ((i & distance) != 0) continue;
        llvm::Value *&a = rows[static_cast<size_t>(i)], *&b = rows[static_cast<size_t>(i + distance)];
        llvm::Value* first = interleave(a, b, lanes, distance, 0);
        b = interleave(a, b, lanes, distance, distance);
        a = first;
      }
    }
    for (int i = 0; i < lanes; ++i) set(value, i, 0, rows[static_cast<size_t>(i)]);
    return rows[static_cast<size_t>(row)];
  }

  // The same, where the two that change places are combined.
  llvm::Value* of_rows(Op op, Value tile) {
    const int lanes = node(tile).type.lanes;
    std::vector<llvm::Value*> rows = rows_of(tile);
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      for (int i = 0; i < distance; ++i) {
        llvm::Value *&a = rows[static_cast<size_t>(i)], *b = rows[static_cast<size_t>(i + distance)];
        a = combined(op, interleave(a, b, lanes, distance, 0), interleave(a, b, lanes, distance, distance));
      }
    }
    return rows[0];
  }

  llvm::Value* combined(Op op, llvm::Value* a, llvm::Value* b) {
    if (op == Op::SumOfLanes) return b_.CreateFAdd(a, b);
    llvm::Value* is_first = op == Op::LargestOfLanes ? b_.CreateFCmpOGT(a, b) : b_.CreateFCmpOLT(a, b);
    return b_.CreateSelect(b_.CreateOr(is_first, b_.CreateFCmpUNO(a, a)), a, b);
  }

  // The halves of the vector are combined until one lane is left.
  llvm::Value* of_lanes(Op op, llvm::Value* vector) {
    auto count = llvm::cast<llvm::FixedVectorType>(vector->getType())->getNumElements();
    for (; count > 1; count /= 2) {
      llvm::SmallVector<int, 8> low, high;
      for (unsigned i = 0; i < count / 2; ++i) {
        low.push_back(static_cast<int>(i));
        high.push_back(static_cast<int>(i + count / 2));
      }
      llvm::Value *a = b_.CreateShuffleVector(vector, low), *b = b_.CreateShuffleVector(vector, high);
      vector = combined(op, a, b);
    }
    return b_.CreateExtractElement(vector, uint64_t{0});
  }

  // Lane i of the vector is on where its column comes before the count.
  llvm::Value* columns(const Node& n, int vector) {
    std::vector<llvm::Constant*> numbers;
    for (int lane = 0; lane < n.type.lanes; ++lane)
      numbers.push_back(b_.getInt32(static_cast<uint32_t>(vector * n.type.lanes + lane)));
    llvm::Value* count = b_.CreateTrunc(single(n.operands[0]), b_.getInt32Ty());
    return b_.CreateICmpSLT(llvm::ConstantVector::get(numbers),
                            b_.CreateVectorSplat(static_cast<unsigned>(n.type.lanes), count));
  }

  template <class F>
  void for_each_element(const Type& type, const F& f) {
    for (int row = 0; row < type.rows; ++row) {
      for (int vector = 0; vector < type.vectors; ++vector) f(row, vector);
    }
  }

  void block(int number) {
    const std::vector<Value>& nodes = function_.block(number).nodes;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Node& n = node(nodes[i]);
      const Value value = nodes[i];
      switch (n.op) {
        case Op::Store: {
          compute_yields(number, value);
          std::vector<const Node*> stores{&n};
          while (i + 1 < nodes.size() && node(nodes[i + 1]).op == Op::Store) stores.push_back(&node(nodes[++i]));
          store(stores);
          break;
        }
        case Op::Prefetch: prefetch(n); break;
        case Op::For: loop(value, n); break;
        case Op::If: choose(value, n); break;
        default: break;  // emitted when it is needed
      }
    }
  }

  // What a block yields is computed before something is stored that comes behind it: it may be stored where that reads.
  void compute_yields(int number, Value store) {
    for (Value yielded : function_.block(number).yields) {
      const Type& type = node(yielded).type;
      if (yielded < store && node(yielded).op != Op::Result)
        for_each_element(type, [&](int row, int vector) { element(yielded, row, vector, type.lanes); });
    }
  }

  // What stores in a row write is computed before the first of them: it may lie where another of them reads.
  void store(const std::vector<const Node*>& stores) {
    if (stores.size() > 1) {
      for (const Node* n : stores) {
        for_each_element(n->type, [&](int row, int vector) { element(n->operands[2], row, vector, n->type.lanes); });
      }
    }
    for (const Node* n : stores) store(*n);
  }

  void store(const Node& n) {
    for_each_element(n.type, [&](int row, int vector) {
      llvm::Value* what = element(n.operands[2], row, vector, n.type.lanes);
      llvm::Value* to = address(n, row, vector);
      const bool has_bytes = bytes_in_memory(n) == 1;
      if (has_bytes) what = b_.CreateZExtOrTrunc(what, bytes_of(n.type));
      const llvm::Align alignment(has_bytes ? 1 : 4);
      if (n.operands.size() == 3) {
        b_.CreateAlignedStore(what, to, alignment);
      } else {
        b_.CreateMaskedStore(what, to, alignment, element(n.operands[3], 0, vector, n.type.lanes));
      }
    });
  }

  void prefetch(const Node& n) {
    const auto fetch = static_cast<Fetch>(n.number);
    const uint32_t is_write = fetch == Fetch::Write, locality = fetch == Fetch::Later ? 2 : 3, is_data = 1;
    // Processors that have no such instruction take it for none.
    if (fetch == Fetch::Write && isa_.has_fma) target_->addFnAttr("target-features", "+prfchw");
    for_each_element(n.type, [&](int row, int vector) {
      if (vector * n.type.lanes * bytes_in_memory(n) % kCacheLineBytes != 0) return;
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()}, {address(n, row, vector), b_.getInt32(is_write), b_.getInt32(locality), b_.getInt32(is_data)});
    });
  }

  void add_defined(int number, std::vector<bool>& is_inside) const {
    const Block& block = function_.block(number);
    for (Value item : block.items) is_inside[static_cast<size_t>(item)] = true;
    for (Value value : block.nodes) {
      is_inside[static_cast<size_t>(value)] = true;
      for (int inner : node(value).blocks) {
        if (inner >= 0) add_defined(inner, is_inside);
      }
    }
  }

  // Of what a block reads of before it, that which is single is computed now: once, where the block is a loop's. So are the distances of rows that innermost loops walk.
  void compute_singles(int number, const std::vector<bool>& is_inside, bool is_innermost) {
    const Block& block = function_.block(number);
    auto read = [&](Value value) {
      if (!is_inside[static_cast<size_t>(value)] && node(value).type.is_single()) single(value);
    };
    for (Value value : block.nodes) {
      const Node& n = node(value);
      if (n.op == Op::Result) continue;
      std::ranges::for_each(n.operands, read);
      const bool has_distances = is_innermost && (n.op == Op::Load || n.op == Op::Store) && !is_inside[static_cast<size_t>(n.operands[1])];
      for (int row = 1; has_distances && row < n.type.rows; ++row) distance(n.operands[1], row);
      for (int inner : n.blocks) {
        if (inner >= 0) compute_singles(inner, is_inside, n.op == Op::For ? height(n) == 1 : is_innermost);
      }
    }
    std::ranges::for_each(block.yields, read);
  }

  llvm::BasicBlock* new_block(const char* name) { return llvm::BasicBlock::Create(b_.getContext(), name, target_); }

  void choose(Value value, const Node& n) {
    llvm::BasicBlock *then = new_block("then"), *otherwise = new_block("else"), *behind = new_block("behind");
    b_.CreateCondBr(single(n.operands[0]), then, otherwise);
    const std::vector<Value> results = results_of(value);
    std::vector<llvm::PHINode*> merged;
    for (auto [place, number] : {std::pair(then, n.blocks[0]), std::pair(otherwise, n.blocks[1])}) {
      b_.SetInsertPoint(place);
      scopes_.emplace_back();
      block(number);
      Carried yielded;
      for (Value result : results) {
        const Type& type = node(result).type;
        const Value from = function_.block(number).yields[static_cast<size_t>(node(result).number)];
        for_each_element(type, [&](int row, int vector) { yielded.push_back(element(from, row, vector, type.lanes)); });
      }
      scopes_.pop_back();
      llvm::BasicBlock* last = b_.GetInsertBlock();
      b_.CreateBr(behind);
      b_.SetInsertPoint(behind);
      for (size_t i = 0; i < yielded.size(); ++i) {
        if (place == then) merged.push_back(b_.CreatePHI(yielded[i]->getType(), 2));
        merged[i]->addIncoming(yielded[i], last);
      }
    }
    size_t next = 0;
    for (Value result : results) {
      for_each_element(node(result).type, [&](int row, int vector) { set(result, row, vector, merged[next++]); });
    }
  }

  // The results behind a loop or a choice are nodes of their own.
  std::vector<Value> results_of(Value value) const {
    std::vector<Value> results;
    for (Value result = value + 1; result < std::ssize(function_.nodes); ++result) {
      if (node(result).op == Op::Result && node(result).operands[0] == value) results.push_back(result);
    }
    return results;
  }

  // What a loop carries, tile by tile and row by row.
  using Carried = std::vector<llvm::Value*>;

  template <class F>
  void for_each_carried(const Block& body, const F& f) {
    for (size_t i = 1; i < body.items.size(); ++i) {
      for_each_element(node(body.items[i]).type, [&](int row, int vector) { f(i, row, vector); });
    }
  }

  // An address that grows by the same in each iteration of a loop.
  struct Walk {
    Value offset;
    llvm::Value* step;  // bytes
    llvm::Value* at;    // in the first of the iterations that are one of the machine code
  };

  // Where it is after so many iterations.
  llvm::Value* after(const Walk& walk, llvm::Value* iterations) { return b_.CreateGEP(b_.getInt8Ty(), walk.at, b_.CreateMul(walk.step, iterations)); }

  static bool is_zero(llvm::Value* number) {
    const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(number);
    return constant && constant->isZero();
  }

  // By how much a number grows with the counter of a loop, or an address, in bytes; null where that is not the same each time. Counters of loops inside stand where they begin.
  llvm::Value* growth(Value value, Value counter, const std::vector<bool>& is_inside) {
    if (value == counter) return b_.getInt64(1);
    const Node& n = node(value);
    const bool is_other_counter = n.op == Op::Item && n.number == 0 && begins_at_number(node(n.operands[0]));
    if (!is_inside[static_cast<size_t>(value)] || n.op == Op::Integer || is_other_counter) return b_.getInt64(0);
    if (n.op != Op::Add && n.op != Op::Subtract && n.op != Op::Multiply && n.op != Op::Offset) return nullptr;
    llvm::Value *a = growth(n.operands[0], counter, is_inside), *b = growth(n.operands[1], counter, is_inside);
    if (!a || !b) return nullptr;
    switch (n.op) {
      case Op::Add: return b_.CreateAdd(a, b);
      case Op::Subtract: return b_.CreateSub(a, b);
      case Op::Offset: return b_.CreateAdd(a, b_.CreateMul(b, b_.getInt64(static_cast<uint64_t>(n.number))));
      default: break;
    }
    if (is_zero(a) && is_zero(b)) return a;
    if (is_zero(b)) return b_.CreateMul(a, single(n.operands[1]));
    return is_zero(a) ? b_.CreateMul(single(n.operands[0]), b) : nullptr;
  }

  // Loops inside each other, with this one.
  int height(const Node& loop) const {
    int inside = 0;
    for (Value value : function_.block(loop.blocks[0]).nodes) {
      if (node(value).op == Op::For) inside = std::max(inside, height(node(value)));
    }
    return inside + 1;
  }

  bool begins_at_number(const Node& loop) const { return node(loop.operands[0]).op == Op::Integer; }

  // Strength reduction: the addresses where the counter of a loop begins; also of loops inside it, where theirs begin. LLVM's own pass for this takes a quarter of the time
  // of all its passes. Loops around two others have too little to gain, and addresses would not stay in registers.
  std::vector<Walk> walks_of(const Node& n, llvm::Value* begin, const std::vector<bool>& is_inside) {
    constexpr int kMostHeight = 2;
    std::vector<Walk> walks;
    if (height(n) > kMostHeight) return walks;
    scopes_.emplace_back();
    const Value counter = function_.block(n.blocks[0]).items[0];
    set(counter, 0, 0, begin);
    add_walks(n, counter, is_inside, walks);
    scopes_.pop_back();
    return walks;
  }

  // Those of this loop or of one inside.
  void add_walks(const Node& loop, Value counter, const std::vector<bool>& is_inside, std::vector<Walk>& walks) {
    const Block& body = function_.block(loop.blocks[0]);
    const bool is_inner = body.items[0] != counter;
    std::vector<bool> is_inside_of_inner;
    if (is_inner) {
      is_inside_of_inner.resize(function_.nodes.size());
      add_defined(loop.blocks[0], is_inside_of_inner);
    }
    for (Value value : body.nodes) {
      const Node& n = node(value);
      if (n.op == Op::For && begins_at_number(n)) {
        set(function_.block(n.blocks[0]).items[0], 0, 0, single(n.operands[0]));
        add_walks(n, counter, is_inside, walks);
      }
      if (n.op != Op::Offset || (is_inner && !growth(value, body.items[0], is_inside_of_inner))) continue;
      // What moves with another address is computed from it, unless a loop outside has it where this one begins.
      const auto is_base = [&](const Walk& walk) { return walk.offset == n.operands[0]; };
      llvm::Value *step = growth(value, counter, is_inside), *of_index = growth(n.operands[1], counter, is_inside);
      const bool walks_outside = scope_of({value, 0, 0}) != nullptr;
      const bool follows = !walks_outside && std::ranges::any_of(walks, is_base) && of_index && is_zero(of_index);
      if (step && !is_zero(step) && !follows) walks.push_back({value, step, single(value)});
    }
  }

  // The body once, at that value of the counter, which is the `number`th of an iteration.
  Carried iterate(const Node& n, llvm::Value* counter, std::span<const Walk> walks, int64_t number, const Carried& carried) {
    const Block& body = function_.block(n.blocks[0]);
    scopes_.emplace_back();
    set(body.items[0], 0, 0, counter);
    for (const Walk& walk : walks) {
      set(walk.offset, 0, 0, number == 0 ? walk.at : after(walk, b_.getInt64(static_cast<uint64_t>(number))));
    }
    size_t next = 0;
    for_each_carried(body, [&](size_t i, int row, int vector) { set(body.items[i], row, vector, carried[next++]); });
    block(n.blocks[0]);
    Carried result = interleaved(body);
    scopes_.pop_back();
    return result;
  }

  // So many times.
  Carried iterate(const Node& n, llvm::Value* first, int64_t times, std::span<const Walk> walks, Carried carried) {
    for (int64_t i = 0; i < times; ++i) {
      carried = iterate(n, i == 0 ? first : b_.CreateAdd(first, b_.getInt64(static_cast<uint64_t>(i))), walks, i, carried);
    }
    return carried;
  }

  // The yields: where several tiles share what they are made of, row by row of all.
  Carried interleaved(const Block& body) {
    std::map<Place, llvm::Value*> made;
    int rows = 0;
    for (Value yielded : body.yields) rows = std::max(rows, node(yielded).type.rows);
    for (int row = 0; row < rows; ++row) {
      for (size_t i = 0; i < body.yields.size(); ++i) {
        const Type& type = node(body.yields[i]).type;
        for (int vector = 0; row < type.rows && vector < type.vectors; ++vector) {
          made[{static_cast<Value>(i), row, vector}] = element(body.yields[i], row, vector, type.lanes);
        }
      }
    }
    Carried result;
    for_each_carried(body, [&](size_t i, int row, int vector) {
      result.push_back(made.at({static_cast<Value>(i - 1), row, vector}));
    });
    return result;
  }

  void loop(Value value, const Node& n) {
    const Block& body = function_.block(n.blocks[0]);
    std::vector<bool> is_inside(function_.nodes.size());
    add_defined(n.blocks[0], is_inside);
    compute_singles(n.blocks[0], is_inside, height(n) == 1);
    Carried carried;
    for_each_carried(body, [&](size_t i, int row, int vector) {
      carried.push_back(element(n.operands[i + 1], row, vector, node(body.items[i]).type.lanes));
    });
    llvm::Value* begin = single(n.operands[0]);
    llvm::Value* end = single(n.operands[1]);
    llvm::Value* middle = begin;
    std::vector<Walk> walks = walks_of(n, begin, is_inside);
    if (n.unroll > 1) {
      llvm::Value* unroll = b_.getInt64(static_cast<uint64_t>(n.unroll));
      llvm::Value* whole = b_.CreateMul(b_.CreateSDiv(b_.CreateSub(end, begin), unroll), unroll);
      middle = b_.CreateAdd(begin, whole);
      carried = loop(n, begin, middle, n.unroll, walks, std::move(carried));
      for (Walk& walk : walks) walk.at = after(walk, whole);
    }
    const auto* rest = n.unroll > 1 ? llvm::dyn_cast<llvm::ConstantInt>(b_.CreateSub(end, middle)) : nullptr;
    if (!rest) {
      carried = loop(n, middle, end, 1, walks, std::move(carried));
    } else {
      carried = iterate(n, middle, rest->getSExtValue(), walks, std::move(carried));
    }
    const std::vector<Value> results = results_of(value);
    size_t next = 0;
    for_each_carried(body, [&](size_t i, int row, int vector) { set(results[i - 1], row, vector, carried[next++]); });
  }

  // From begin to end by steps of `times`, in the body so many times.
  Carried loop(const Node& n, llvm::Value* begin, llvm::Value* end, int times, std::vector<Walk> walks, Carried carried) {
    llvm::Value* is_entered = b_.CreateICmpSLT(begin, end);
    const auto* known = llvm::dyn_cast<llvm::ConstantInt>(is_entered);
    if (known && known->isZero()) return carried;
    llvm::BasicBlock *before = b_.GetInsertBlock(), *inside = new_block("loop"), *behind = new_block("behind");
    if (known) {
      b_.CreateBr(inside);
    } else {
      b_.CreateCondBr(is_entered, inside, behind);
    }
    b_.SetInsertPoint(inside);
    llvm::PHINode* counter = b_.CreatePHI(b_.getInt64Ty(), 2);
    counter->addIncoming(begin, before);
    std::vector<llvm::PHINode*> merged;
    Carried current;
    for (llvm::Value* initial : carried) {
      merged.push_back(b_.CreatePHI(initial->getType(), 2));
      merged.back()->addIncoming(initial, before);
      current.push_back(merged.back());
    }
    for (Walk& walk : walks) {
      llvm::PHINode* at = b_.CreatePHI(b_.getPtrTy(), 2);
      at->addIncoming(walk.at, before);
      walk.at = at;
    }
    current = iterate(n, counter, times, walks, std::move(current));
    llvm::Value* const advance = b_.getInt64(static_cast<uint64_t>(times));
    llvm::Value* next = b_.CreateAdd(counter, advance);
    llvm::BasicBlock* last = b_.GetInsertBlock();
    for (const Walk& walk : walks) llvm::cast<llvm::PHINode>(walk.at)->addIncoming(after(walk, advance), last);
    counter->addIncoming(next, last);
    for (size_t i = 0; i < merged.size(); ++i) merged[i]->addIncoming(current[i], last);
    b_.CreateCondBr(b_.CreateICmpSLT(next, end), inside, behind);

    b_.SetInsertPoint(behind);
    if (known) return current;
    Carried result;
    for (size_t i = 0; i < merged.size(); ++i) {
      llvm::PHINode* out = b_.CreatePHI(carried[i]->getType(), 2);
      out->addIncoming(carried[i], before);
      out->addIncoming(current[i], last);
      result.push_back(out);
    }
    return result;
  }

  const Function& function_;
  const IsaDescription& isa_;
  llvm::IRBuilder<> b_;
  llvm::Function* target_ = nullptr;
  std::vector<llvm::Value*> arguments_;
  std::vector<Scope> scopes_;
};

}  // namespace

void lower_to_llvm(const Function& function, const IsaDescription& isa, llvm::Module& module) {
  Lowering(function, isa, module).run();
}

}  // namespace anfora::codegen
