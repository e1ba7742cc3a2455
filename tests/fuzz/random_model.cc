#include "fuzz/random_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "anfora/error.h"
#include "ir/order.h"
#include "ir/verify.h"
#include "ops/registry.h"
#include "passes/pass.h"
#include "pipeline/pipeline.h"
#include "rules/instance.h"
#include "rules/operands.h"

namespace anfora::fuzz {

using namespace ir;
using rules::Application;

namespace {

constexpr size_t kMostSteps = 14;
constexpr size_t kMostNodes = 90;
constexpr size_t kMostResults = 5;
constexpr int kDeepestNesting = 2;
constexpr int kDrafts = 6;
constexpr int kTriesOfRule = 40;

// What meets in models.
const std::vector<std::vector<std::string_view>> kThemes = {
    {"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Add", "Relu", "Identity", "Shape"},
    {"Slice", "Gather", "Concat", "Split", "Pad", "Transpose", "Reshape", "Mul", "Cast"},
    {"Expand", "Tile", "ConstantOfShape", "Where", "Add", "Mul", "Shape", "Gather", "Concat", "Range", "Slice", "Size"},
    {"Add", "Sub", "Mul", "Div", "Neg", "Reciprocal", "Sum", "Abs", "Sqrt"},
    {"Add", "Sub", "Mul", "Div", "Neg", "Max", "Min", "Mod", "Abs", "Sign", "Clip", "Relu"},
    {"Pow", "Exp", "Log", "Sqrt", "Mul", "Div", "Sigmoid", "Tanh", "Erf", "Softplus", "Add", "Gelu", "Mish", "Swish",
     "HardSwish", "HardSigmoid"},
    {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
     "ReduceLogSumExp", "ReduceLogSum", "Mul", "Add", "Sub", "Div", "Transpose", "Unsqueeze", "Reshape", "Abs", "Sqrt"},
    {"MatMul", "Gemm", "Transpose", "Add", "Mul", "Reshape", "Div", "Relu", "Concat", "Split", "Einsum"},
    {"MatMul", "Softmax", "Transpose", "Reshape", "Mul", "Div", "Add", "Where", "Attention", "Concat",
     "RotaryEmbedding"},
    {"Conv", "BatchNormalization", "Mul", "Add", "Relu", "Pad", "Concat", "Clip", "Sub", "Div"},
    {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "Transpose",
     "Pad", "Sigmoid", "Mul", "Flatten", "Gemm", "LpPool", "Resize"},
    {"Softmax",
     "LogSoftmax",
     "LayerNormalization",
     "RMSNormalization",
     "GroupNormalization",
     "InstanceNormalization",
     "MeanVarianceNormalization",
     "LpNormalization",
     "ReduceMean",
     "Sub",
     "Mul",
     "Div",
     "Sqrt",
     "Pow",
     "Add",
     "Reshape",
     "Transpose",
     "Exp",
     "ReduceSum",
     "Log"},
    {"Where", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Not", "Xor", "Cast", "IsNaN",
     "IsInf", "Clip", "Max", "Min", "Sign"},
    {"Cast", "CastLike", "Add", "Mul", "Where", "Clip", "Floor", "Ceil", "Round", "Neg", "Equal", "Max"},
    {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Cast", "MatMulInteger", "ConvInteger",
     "QLinearConv", "QLinearMatMul", "Add", "Relu", "Clip", "Transpose", "Reshape", "MatMul"},
    {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift", "Add", "Mul", "Mod", "Cast", "Max", "Min",
     "Div", "Sub"},
    {"ArgMax", "ArgMin", "TopK", "Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "OneHot",
     "CumSum", "Unique", "NonZero", "Compress", "Trilu", "Cast", "Transpose", "ReduceMax"},
    {"Floor", "Ceil", "Round", "Sign", "Abs", "Neg", "Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Celu",
     "ThresholdedRelu", "Clip", "Max", "Min", "Mul", "HardSigmoid"},
    {"DepthToSpace", "SpaceToDepth", "Transpose", "Reshape", "Conv", "Pad", "Slice", "Concat", "Resize"},
    {"LSTM", "GRU", "RNN", "Transpose", "Squeeze", "ReverseSequence", "Concat", "Slice", "Tanh", "Add"},
};

// An operator with everything but its operands.
struct Draft {
  Application application;
  std::map<std::string, DType, std::less<>> types;  // of its type variables
  double matched = 0;                               // share of the operands for which there is a value
};

class Generator {
 public:
  Generator(Context& context, const rewrite::RuleSet& rules, bool common_types, Draw& draw)
      : context_(context),
        rules_(rules),
        draw_(draw),
        operators_(operators_of_models(context)),
        values_(draw_values()),
        grower_(context, draw, values_, common_types) {}

  std::optional<RandomModel> run() {
    choose_theme();
    for (size_t count = draw_.between(1, 3); count > 0; --count) grower_.keep(first_input());
    grow(draw_.between(3, kMostSteps));
    return finish();
  }

 private:
  Values draw_values() {
    if (draw_.percent(80)) return Values::Normal;
    return draw_.percent(60) ? Values::Finite : Values::Special;
  }

  void choose_theme() {
    if (draw_.percent(40)) return;
    for (std::string_view name : draw_.of(kThemes)) theme_.push_back(&context_.get_operator(name));
  }

  Node* first_input() {
    static const std::vector<DType> kDTypes = {DType::F32, DType::F32, DType::F32,  DType::F32,
                                               DType::F64, DType::F16, DType::BF16, DType::I64,
                                               DType::I32, DType::U8,  DType::I8,   DType::Bool};
    Shape shape = rules::random_shape(draw_, static_cast<int>(draw_.between(0, 4)));
    if (draw_.percent(85)) std::ranges::replace(shape, 0, 2);
    DType dtype = draw_.of(kDTypes);
    return grower_.input(rules::random_tensor(grower_.takes(dtype) ? dtype : DType::F32, shape, values_, draw_),
                         nullptr);
  }

  void grow(int64_t steps) {
    for (int64_t i = 0; i < steps && grower_.size() < kMostNodes; ++i) step();
  }

  void step() {
    size_t choice = draw_.below(100);
    if (choice < 58) return add_operator();
    if (choice < 88) return add_instance();
    if (choice < 92) return repeat();
    if (choice < 94) return add_sequence();
    if (choice < 97) return branch();
    loop();
  }

  // Operators ------------------------------------------------------------------------------------------------------------
  void add_operator() {
    for (int attempt = 0; attempt < 4; ++attempt) {
      const Operator& op = !theme_.empty() && draw_.percent(85) ? *draw_.of(theme_) : *draw_.of(operators_);
      std::vector<Draft> drafts;
      size_t best = 0;
      for (int i = 0; i < kDrafts; ++i) {
        auto made = draft(op);
        if (!made) continue;
        drafts.push_back(std::move(*made));
        if (drafts.back().matched > drafts[best].matched) best = drafts.size() - 1;
      }
      if (drafts.empty() || (drafts[best].matched == 0 && draw_.percent(60))) continue;
      if (Node* node = build(drafts[best])) return grower_.keep_results(node);
    }
  }

  // The shape of a value that is there, or nearly.
  Shape shape_near(const Node* node) {
    Shape shape = node ? grower_.tensor(node).shape() : rules::random_shape(draw_, static_cast<int>(draw_.below(5)));
    size_t change = draw_.below(100);
    if (change < 65 || shape.empty()) return shape;
    if (change < 72) shape.erase(shape.begin());
    if (change >= 72 && change < 79) shape.insert(shape.begin(), rules::random_extent(draw_));
    if (change >= 79 && change < 88) shape[draw_.below(shape.size())] = rules::random_extent(draw_);
    if (change >= 88) {
      for (size_t i = shape.size(); i > 1; --i) std::swap(shape[i - 1], shape[draw_.below(i)]);
    }
    return shape;
  }

  static const TypeVariable* find_variable(const Operator& op, std::string_view name) {
    auto found = std::ranges::find(op.variables, name, &TypeVariable::name);
    return found == op.variables.end() ? nullptr : &*found;
  }

  // Of a formal's variable, decided now where it is not yet.
  DType dtype_of(const Operator& op, const std::string& type, DType near, Draft& draft) {
    if (auto fixed = dtype_from_name(type)) return *fixed;
    const TypeVariable* variable = find_variable(op, type);
    if (!variable) return DType::Undefined;  // a sequence
    auto [at, is_new] = draft.types.try_emplace(type, DType::Undefined);
    if (!is_new) return at->second;
    auto takes = [&](DType d) {
      return grower_.takes(d) && (variable->dtypes.empty() || std::ranges::count(variable->dtypes, d) > 0);
    };
    bool of_results_only = std::ranges::none_of(op.inputs, [&](const Formal& f) { return f.type == type; });
    if (takes(near) && near != DType::Undefined && draw_.percent(of_results_only ? 20 : 93)) return at->second = near;
    std::vector<DType> common;
    for (DType d : {DType::F32, DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::I32, DType::I8,
                    DType::U8, DType::Bool}) {
      if (takes(d)) common.push_back(d);
    }
    bool rare = common.empty() || draw_.percent(10);
    if (rare && !variable->dtypes.empty()) return at->second = draw_.of(variable->dtypes);
    return at->second = common.empty() ? DType::F32 : draw_.of(common);
  }

  std::optional<Draft> draft(const Operator& op) {
    Node* near = draw_.percent(85) ? grower_.pick_tensor() : nullptr;
    DType near_type = near ? grower_.tensor(near).dtype() : DType::Undefined;
    Draft made{Application{op, shape_near(near), DType::Undefined, 0, {}, {}, draw_}, {}};
    Application& a = made.application;
    for (const Formal& formal : op.inputs) {
      size_t count =
          formal.arity == Formal::Arity::Variadic ? static_cast<size_t>(formal.at_least) + draw_.below(3) : 1;
      bool present = formal.arity != Formal::Arity::Optional || draw_.percent(45);
      Want want;
      want.dtype = dtype_of(op, formal.type, near_type, made);
      if (want.dtype == DType::Undefined) return std::nullopt;
      want.absent = !present;
      for (size_t i = 0; i < count; ++i) a.operands.push_back(want);
    }
    while (!a.operands.empty() && a.operands.back().absent) a.operands.pop_back();
    a.dtype = op.outputs.empty() ? DType::Undefined : dtype_of(op, op.outputs[0].type, near_type, made);
    if (a.dtype == DType::Undefined) return std::nullopt;
    for (const AttributeDeclaration& declared : op.attributes) {
      if (!declared.required && draw_.percent(55)) continue;
      auto value = rules::choose_attribute(a, declared);
      if (value) a.attributes[declared.name] = std::move(*value);
      if (!value && declared.required) return std::nullopt;
    }
    if (!rules::choose_free_operands(a)) return std::nullopt;
    double found = 0;
    for (const Want& want : a.operands) found += !want.absent && grower_.has(want);
    made.matched = a.operands.empty() ? 0.01 : found / static_cast<double>(a.operands.size());
    return made;
  }

  Node* build(Draft& draft) {
    Application& a = draft.application;
    std::vector<Node*> operands;
    for (const Want& want : a.operands) {
      int64_t count = 1;
      for (int64_t extent : want.shape) count *= std::max<int64_t>(extent, 1);
      if (count > 2048) return nullptr;
      operands.push_back(grower_.operand(want));
      if (!operands.back()) return nullptr;
    }
    while (!operands.empty() && operands.back() == grower_.none()) operands.pop_back();
    return grower_.apply(a.op, operands, attributes_of(a), num_outputs(a));
  }

  static AttributeSet attributes_of(const Application& a) {
    std::vector<AttributeSet::Entry> entries;
    for (const auto& [name, value] : a.attributes) {
      const AttributeDeclaration* declared = a.op.find_attribute(name);
      bool is_default = declared && declared->otherwise && identical(*declared->otherwise, value);
      if (!is_default) entries.emplace_back(name, value);
    }
    return AttributeSet(std::move(entries));
  }

  size_t num_outputs(const Application& a) {
    if (a.op.qualified == "Split") {
      bool listed = a.operands.size() > 1 && a.operands[1].values;
      return listed ? a.operands[1].values->size() : static_cast<size_t>(a.get_int("num_outputs", 1));
    }
    size_t count = 0;
    for (const Formal& formal : a.op.outputs) {
      if (count > 0 && formal.arity == Formal::Arity::Optional && draw_.percent(70)) break;
      ++count;
    }
    return count;
  }

  // Instances of rules ---------------------------------------------------------------------------------------------------
  void add_instance() {
    for (int attempt = 0; attempt < kTriesOfRule; ++attempt) {
      const rewrite::Equation& equation = rules_.equations()[draw_.below(rules_.equations().size())];
      auto instance = rules::make_instance(equation, context_, {values_, values_}, draw_);
      if (instance && suits(*instance)) return embed(*instance);
    }
  }

  bool suits(const rules::Instance& instance) const {
    return std::ranges::all_of(instance.module->main()->parameters(),
                               [&](const Parameter* p) { return grower_.takes(p->type()->dtype()); });
  }

  void embed(const rules::Instance& instance) {
    boost::unordered_flat_map<const Node*, Node*> images;
    for (const Parameter* parameter : instance.module->main()->parameters()) {
      auto bounds = instance.bounds.find(parameter->index());
      Want want{.dtype = parameter->type()->dtype(), .shape = *parameter->type()->static_shape()};
      if (bounds != instance.bounds.end()) want.bounds = bounds->second;
      images[parameter] = grower_.variable(want);
    }
    bool shows_parts = draw_.percent(25);  // to others, which not every rule bears
    for (const Apply* node : topological_order(*instance.module->main())) {
      if (node->primitive() == Primitive::Return) break;
      std::vector<Node*> operands;
      for (const Use& use : node->operands()) {
        const Tensor* tensor = constant_tensor(use.node);
        Node* image = tensor ? grower_.constant(*tensor) : use.node->is_value() ? grower_.none() : images[use.node];
        if (!image || constant_function(use.node)) return;
        operands.push_back(image);
      }
      // Instances may leave out results that nobody asks for; in ONNX that is another Split.
      int64_t outputs = node->primitive() == Primitive::Operation ? node->attributes().get_int("num_outputs", 0) : 0;
      if (outputs > 0 && outputs != static_cast<int64_t>(node->num_outputs())) return;
      Node* made = nullptr;
      if (node->primitive() == Primitive::TupleGetItem) {
        made = item(operands[0], static_cast<size_t>(node->attributes().require_int("index")));
      } else if (node->primitive() == Primitive::Operation) {
        made = grower_.apply(node->op(), operands, node->attributes(), node->num_outputs());
      }
      if (!made) return;
      images[node] = made;
      if ((node == instance.root || shows_parts) && grower_.sample(made).is_tensor()) grower_.keep(made);
    }
  }

  Node* item(Node* tuple, size_t index) {
    Apply* made = grower_.module().tuple_item(grower_.graph(), tuple, index)->as_apply();
    const Datum& value = grower_.sample(tuple).items()[index];
    return made && !value.is_none() ? grower_.with_sample(made, value) : nullptr;
  }

  // The same application once more, for common subexpressions.
  void repeat() {
    std::vector<Apply*> found;
    for (Node* node : grower_.scope()) {
      Apply* apply = node->as_apply();
      if (apply && apply->primitive() == Primitive::Operation && apply->graph() == grower_.graph())
        found.push_back(apply);
    }
    if (found.empty()) return;
    const Apply& node = *draw_.of(found);
    std::vector<Node*> operands;
    for (const Use& use : node.operands()) operands.push_back(use.node);
    if (Node* made = grower_.apply(node.op(), operands, node.attributes(), node.num_outputs()))
      grower_.keep_results(made);
  }

  // Sequences ------------------------------------------------------------------------------------------------------------
  void add_sequence() {
    Node* sequence = grower_.pick([](const Datum& d) {
      return d.kind() == Datum::Kind::Sequence && !d.items().empty() && d.items()[0].is_tensor();
    });
    Node* x = grower_.pick([](const Datum& d) { return d.is_tensor() && d.tensor().rank() > 0; });
    if (!sequence) {
      if (!x) return;
      Want like{.dtype = grower_.tensor(x).dtype(), .shape = grower_.tensor(x).shape()};
      Node* made = draw_.percent(40) ? grower_.apply("SplitToSequence", {x}, {{"axis", int64_t{0}}})
                                     : grower_.apply("SequenceConstruct", {x, grower_.operand(like)});
      if (made) grower_.keep(made);
      return;
    }
    Tensor first = grower_.sample(sequence).items()[0].tensor();
    Want like{.dtype = first.dtype(), .shape = first.shape()};
    Node* made = nullptr;
    switch (draw_.below(5)) {
      case 0:
        made = grower_.apply("SequenceAt", {sequence, grower_.scalar(DType::I64, draw_.percent(50) ? 0 : -1)});
        break;
      case 1: made = grower_.apply("SequenceInsert", {sequence, grower_.operand(like)}); break;
      case 2: made = grower_.apply("SequenceLength", {sequence}); break;
      case 3: made = grower_.apply("SequenceErase", {sequence, grower_.scalar(DType::I64, 0)}); break;
      default:
        made =
            grower_.apply("ConcatFromSequence", {sequence}, {{"axis", int64_t{0}}, {"new_axis", draw_.between(0, 1)}});
    }
    if (made) grower_.keep(made);
  }

  // Control flow, in the form in which the importer writes it -----------------------------------------------------------
  Node* like(Node* node) {
    const Tensor& t = grower_.tensor(node);
    return grower_.operand({.dtype = t.dtype(), .shape = t.shape()});
  }
  bool may_nest() const { return nesting_ < kDeepestNesting && grower_.size() < kMostNodes / 2; }

  void branch() {
    if (!may_nest()) return;
    Node* test = grower_.condition();
    if (!test) return;
    ++nesting_;
    Node* results[2] = {};
    auto body = [&](Node*& result, Node* other) {
      return [&result, other, this]() -> Node* {
        grow(draw_.between(1, 4));
        return result = other ? like(other) : grower_.pick_tensor();
      };
    };
    Graph* yes = grower_.nested("then", body(results[0], nullptr));
    Graph* no = yes ? grower_.nested("else", body(results[1], results[0])) : nullptr;
    --nesting_;
    if (!no) return;
    Module& module = grower_.module();
    bool holds = grower_.tensor(test).data<bool>()[0];
    Datum value = grower_.sample(results[holds ? 0 : 1]);
    Apply* choice = module.make_switch(grower_.graph(), test, yes->value(), no->value());
    choice->set_type(context_.func_type({}, grower_.type_of(value)));
    grower_.keep(grower_.with_sample(module.call(grower_.graph(), choice, {}), value));
  }

  // Carries a value around, collects one of each round, and reads a slice of another each time where it is a Scan.
  void loop() {
    if (!may_nest()) return;
    Node* start = grower_.pick([](const Datum& d) { return d.is_tensor() && d.tensor().size() > 0; });
    Node* scanned = draw_.percent(40) ? grower_.pick([](const Datum& d) {
      return d.is_tensor() && d.tensor().rank() > 0 && d.tensor().size() > 0;
    })
                                      : nullptr;
    if (!start) return;
    ++nesting_;
    add_loop(start, scanned);
    --nesting_;
  }

  void add_loop(Node* start, Node* scanned) {
    Module& module = grower_.module();
    // At least one round: what is collected in none has a shape that ONNX cannot state where it depends on a symbol.
    Node* rounds = grower_.scalar(DType::I64, static_cast<double>(draw_.between(1, 3)));
    if (scanned) {
      rounds = grower_.apply("Gather", {grower_.apply("Shape", {scanned}), grower_.scalar(DType::I64, 0)},
                             {{"axis", int64_t{0}}});
    }
    Datum carried = grower_.sample(start);
    Shape shape = carried.tensor().shape();
    AttributeSet dtype{{"dtype", static_cast<int64_t>(carried.tensor().dtype())}};
    Node* empty = grower_.apply("SequenceEmpty", {}, dtype);
    if (!rounds || !empty) return;
    int64_t count = grower_.tensor(rounds).data<int64_t>()[0];
    Shape stacked_shape = shape;
    stacked_shape.insert(stacked_shape.begin(), count);
    Datum result = Datum::tuple({carried, Tensor::zeros(carried.tensor().dtype(), stacked_shape)});
    const Type* sequence_type = context_.sequence_type(context_.unranked_type(carried.tensor().dtype()));
    Apply* call = nullptr;
    Graph* self = grower_.graph();
    Graph* made = grower_.nested("loop", [&]() -> Node* {
      self = grower_.graph();
      Node* i =
          grower_.parameter(context_.tensor_type(DType::I64, std::span<const int64_t>()), Tensor::scalar<int64_t>(0));
      Node* go_on =
          grower_.parameter(context_.tensor_type(DType::Bool, std::span<const int64_t>()), Tensor::scalar(true));
      Node* last = grower_.parameter(grower_.type_of(carried), carried);
      Node* all = grower_.parameter(sequence_type, Datum::sequence({}));
      grower_.keep(last);
      Node* less = grower_.apply("Less", {i, rounds});
      Node* test = scanned || !less ? less : grower_.apply("And", {less, go_on});
      if (!test) return nullptr;
      Graph* body = grower_.nested("body", [&]() -> Node* {
        if (scanned) {
          Node* slice = grower_.apply("Gather", {scanned, i}, {{"axis", int64_t{0}}});
          if (!slice) return nullptr;
          grower_.keep(slice);
        }
        grow(draw_.between(1, 4));
        Node* next = like(last);
        Node* collected = draw_.percent(50) ? next : like(last);
        bool counts = scanned || draw_.percent(50);
        Node* again = counts ? grower_.scalar(DType::Bool, 1) : grower_.condition();
        may_stop_early_ = may_stop_early_ || !counts;
        if (!next || !collected || !again) return nullptr;
        Node* following = grower_.apply("Add", {i, grower_.scalar(DType::I64, 1)});
        Node* longer = grower_.apply("SequenceInsert", {all, collected});
        if (!following || !longer) return nullptr;
        return grower_.with_sample(
            module.call(grower_.graph(), self->value(), std::array{following, again, next, longer}), result);
      });
      Graph* done = grower_.nested("done", [&]() -> Node* {
        Apply* stack = module.apply(grower_.graph(), context_.get_operator("StackSequence"), {all},
                                    {{"axis", int64_t{0}},
                                     {"dtype", static_cast<int64_t>(carried.tensor().dtype())},
                                     {"shape", std::vector<int64_t>(shape.begin(), shape.end())}});
        Node* stacked = grower_.with_sample(stack, result.items()[1]);
        return grower_.with_sample(module.make_tuple(grower_.graph(), std::array{last, stacked}), result);
      });
      if (!body || !done) return nullptr;
      Apply* choice = module.make_switch(grower_.graph(), test, body->value(), done->value());
      choice->set_type(context_.func_type({}, grower_.type_of(result)));
      return grower_.with_sample(module.call(grower_.graph(), choice, {}), result);
    });
    if (!made) return;
    has_loops_ = true;
    call = module.call(grower_.graph(), made->value(),
                       std::array{grower_.scalar(DType::I64, 0), grower_.scalar(DType::Bool, 1), start, empty});
    grower_.keep_results(grower_.with_sample(call, result));
  }

  // The whole ------------------------------------------------------------------------------------------------------------
  std::optional<RandomModel> finish() {
    Module& module = grower_.module();
    RandomModel made;
    made.complaint = grower_.complaint();
    std::vector<Node*> sinks, others, results;
    for (Node* node : grower_.scope()) {
      if (!node->is_apply() || std::ranges::count(sinks, node) > 0 || std::ranges::count(others, node) > 0) continue;
      (node->has_uses() ? others : sinks).push_back(node);
    }
    for (size_t i = sinks.size(); i-- > 0 && results.size() < kMostResults;) results.push_back(sinks[i]);
    if (!others.empty() && draw_.percent(40)) results.push_back(draw_.of(others));
    if (results.empty()) return std::nullopt;
    for (size_t i = 0; i < results.size(); ++i) module.output_names().push_back(fmt::format("y{}", i));
    module.set_result(module.main(), results.size() == 1 ? results[0] : module.make_tuple(module.main(), results));
    static const std::vector<int64_t> kOpsets = {15, 17, 18, 19, 20, 21, 22, 22, 22};
    module.metadata().opsets[""] = draw_.of(kOpsets);
    module.metadata().ir_version = 10;
    try {
      drop_unused(module);
      make_symbolic(module, made);
      if (may_stop_early_ || !made.sizes.empty()) forget_collected_shapes(module);
      analysis::infer_types(module);
      verify_or_throw(module);
    } catch (const Error& error) {
      made.complaint = error.what();
    }
    for (Graph* graph : module.graphs()) {
      for (Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
        if (node->primitive() == Primitive::Operation) made.operators.insert(node->op().qualified);
      }
    }
    for (const auto& [index, bounds] : grower_.bounds()) {
      if (auto place = places_.find(index); place != places_.end()) made.bounds[place->second] = bounds;
    }
    made.values = values_;
    made.least_size = has_loops_ ? 1 : 0;
    made.module = grower_.take_module();
    return made;
  }

  void drop_unused(Module& module) {
    analysis::infer_types(module);
    pipeline::run_pass("dce", module);
    size_t place = 0, index = 0;
    std::vector<Parameter*> unused;
    for (Parameter* parameter : module.main()->parameters()) {
      if (parameter->has_uses()) places_[index] = place++;
      if (!parameter->has_uses()) unused.push_back(parameter);
      ++index;
    }
    for (size_t i = unused.size(); i-- > 0;) module.remove_parameter(unused[i]);
  }

  // Extents of inputs become symbols: one for all that are equal, or one for each place.
  void make_symbolic(Module& module, RandomModel& made) {
    if (draw_.percent(45)) return;
    bool by_place = draw_.percent(30);
    std::vector<const Type*> before;
    std::array<bool, 8> chosen{};
    for (bool& c : chosen) c = draw_.percent(40);
    for (Parameter* parameter : module.main()->parameters()) {
      before.push_back(parameter->type());
      std::vector<Dim> dims;
      for (Dim dim : parameter->type()->dims()) {
        int64_t extent = dim.constant();
        bool symbolic = by_place ? draw_.percent(35) : extent < 8 && chosen[static_cast<size_t>(extent)];
        std::string name = by_place ? fmt::format("{}_{}", parameter->name(), dims.size()) : fmt::format("N{}", extent);
        if (symbolic) made.sizes[name] = extent;
        dims.push_back(symbolic ? context_.dims().symbol(name) : dim);
      }
      parameter->set_type(context_.tensor_type(parameter->type()->dtype(), dims));
    }
    try {
      analysis::infer_types(module);
      require_collected_ranks(module);
    } catch (const Error&) {  // a shape that only these sizes have
      for (size_t i = 0; i < before.size(); ++i) module.main()->parameter(i)->set_type(before[i]);
      made.sizes.clear();
    }
  }

  // Throws where the rank of what a loop collects depends on a symbol (Squeeze of what may have size 1): there is no type for the
  // result of no iterations.
  static void require_collected_ranks(const Module& module) {
    for (const Graph* graph : module.graphs()) {
      for (const Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
        if (!node->is("StackSequence")) continue;
        const Type* collected = node->input(0)->type();
        if (collected && collected->kind() == TypeKind::Sequence && !collected->element()->has_rank())
          throw Error(ErrorCode::Unsupported, "the rank of what a loop collects depends on a symbol");
      }
    }
  }

  // What a loop collects has the shape that was seen only as long as no symbol has another size, and loops before it run as
  // often as they were taken to.
  static void forget_collected_shapes(Module& module) {
    for (Graph* graph : module.graphs()) {
      for (Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
        if (!node->is("StackSequence") || !node->attributes().has("shape")) continue;  // of a rule's pattern
        std::vector<int64_t> unknown(node->attributes().get_ints("shape").size(), -1);
        module.set_attributes(node, node->attributes().with("shape", std::move(unknown)));
      }
    }
  }

  Context& context_;
  const rewrite::RuleSet& rules_;
  Draw& draw_;
  std::vector<const Operator*> operators_;
  Values values_;
  Grower grower_;
  std::vector<const Operator*> theme_;
  std::map<size_t, size_t> places_;  // of parameters, before and after unused ones are gone
  int nesting_ = 0;
  bool has_loops_ = false;
  bool may_stop_early_ = false;  // some loop, by a condition of its own
};

}  // namespace

std::vector<const Operator*> operators_of_models(const Context& context) {
  std::vector<const Operator*> list;
  for (const Operator* op : context.operators()) {
    bool usable = op->primitive == Primitive::Operation && op->effect == Effect::Pure && op->known &&
                  !op->outputs.empty() && (op->domain.empty() || op->domain == "ai.onnx.ml");
    if (usable && ops::reference_kernel(*op)) list.push_back(op);
  }
  return list;
}

std::optional<RandomModel> random_model(Context& context, const rewrite::RuleSet& rules, bool common_types,
                                        Draw& draw) {
  return Generator(context, rules, common_types, draw).run();
}

std::vector<Datum> random_inputs(const RandomModel& model, const std::map<std::string, int64_t>& sizes, Draw& draw) {
  std::vector<Datum> inputs;
  for (const Parameter* parameter : model.module->main()->parameters()) {
    Shape shape;
    for (Dim dim : parameter->type()->dims()) {
      shape.push_back(dim.is_symbol() ? sizes.at(std::string(dim.symbol_name())) : dim.constant());
    }
    auto bounds = model.bounds.find(parameter->index());
    bool bounded = bounds != model.bounds.end();
    inputs.emplace_back(rules::random_tensor(parameter->type()->dtype(), shape, bounded ? Values::Normal : model.values,
                                             draw, bounded ? &bounds->second : nullptr));
  }
  return inputs;
}

}  // namespace anfora::fuzz
