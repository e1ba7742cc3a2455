// The language of operator declarations: one chain of calls an operator, in `src/ops/<family>.cc`.
//
//     void declare_activation(Declarations& declare) {
//       declare.op("LeakyRelu", 16)
//           .doc("x where x ≥ 0, else alpha · x.")
//           .input("X", "T").output("Y", "T")
//           .type("T", kFloats)
//           .attribute("alpha", 0.01f)
//           .infer(infer_same)
//           .fusion(FusionKind::Elementwise).in_place().flops(flops_per_element<2>);
//     }
//
// What is not said has a default: pure, opaque, no in-place, the reference kernel of the operator's own name. The facts are explained
// in ir/operator.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/operator_table.h"
#include "ops/inference.h"
#include "ops/ranges.h"

namespace anfora::ops {

using ir::Effect;
using ir::Fails;
using ir::FusionKind;
using ir::Movement;
using ir::PiecewiseOp;
using ir::Reduces;
using ir::Whole;
using AttributeKind = ir::AttributeDeclaration::Kind;

// Sets of dtypes, named as ONNX's documents group them.
extern const std::vector<DType> kFloats;            // f16 f32 f64 bf16
extern const std::vector<DType> kFloat8s;           // the four fp8 kinds
extern const std::vector<DType> kSignedIntegers;    // i8 … i64
extern const std::vector<DType> kUnsignedIntegers;  // u8 … u64
extern const std::vector<DType> kIntegers;          // both
extern const std::vector<DType> kNumbers;           // kFloats and kIntegers
extern const std::vector<DType> kSignedNumbers;     // kFloats and kSignedIntegers
extern const std::vector<DType> kComplexes;
extern const std::vector<DType> kPlainDTypes;  // kNumbers, kComplexes, bool, string
extern const std::vector<DType> kAllDTypes;    // everything
extern const std::vector<DType> kAnyType;      // empty: also sequences and optionals
std::vector<DType> operator|(const std::vector<DType>& a, const std::vector<DType>& b);

class Declaration {
 public:
  explicit Declaration(ir::Operator& op) : op_(op) {}

  Declaration& doc(std::string text);
  Declaration& input(std::string name, std::string type);
  Declaration& optional_input(std::string name, std::string type);
  Declaration& variadic_input(std::string name, std::string type, int at_least = 1);
  Declaration& output(std::string name, std::string type);
  Declaration& optional_output(std::string name, std::string type);
  Declaration& variadic_output(std::string name, std::string type, int at_least = 1);
  Declaration& type(std::string variable, std::vector<DType> dtypes);

  Declaration& attribute(std::string name, int64_t otherwise);
  Declaration& attribute(std::string name, int otherwise) { return attribute(std::move(name), int64_t{otherwise}); }
  Declaration& attribute(std::string name, float otherwise);
  Declaration& attribute(std::string name, const char* otherwise);
  Declaration& attribute(std::string name, std::vector<int64_t> otherwise);
  Declaration& attribute(std::string name, std::vector<float> otherwise);
  Declaration& optional_attribute(std::string name, AttributeKind kind);  // absent means something by itself
  Declaration& required_attribute(std::string name, AttributeKind kind);

  Declaration& infer(void (*function)(InferenceContext&));
  Declaration& flops(double (*function)(const InferenceContext&));
  Declaration& range(ValueRange (*function)(RangeContext&));
  // Says for most kinds also whether it widens, fails, takes elements, and is total; what is said behind it says it otherwise.
  Declaration& fusion(FusionKind kind);
  Declaration& broadcasts_to_first();
  Declaration& effect(Effect effect);
  Declaration& in_place(std::vector<int> inputs = {0});
  Declaration& commutative();
  Declaration& associative();
  Declaration& axis();
  Declaration& takes_elements();
  Declaration& calls();
  Declaration& sums();
  Declaration& widens(bool does = true);
  Declaration& total();
  Declaration& rising();
  Declaration& in_file();
  Declaration& at_least_operand();
  Declaration& at_most_operand();
  Declaration& keeps_sign();
  Declaration& scales();
  Declaration& mirror(std::string other);
  Declaration& odd();  // its own mirror
  Declaration& keeps_nan();
  Declaration& piecewise(PiecewiseOp function);
  Declaration& movement(Movement kind);
  Declaration& reduces(Reduces what);
  Declaration& whole(Whole when);
  Declaration& fails(Fails on);
  Declaration& layout(bool (*function)(ChannelsLast&));
  Declaration& kernel(std::string name);  // of another name than the operator's
  Declaration& no_kernel();               // there is none: running it is an error
  Declaration& means(std::string_view functions);  // of other operators, in the text form; the text stays where it is

 private:
  ir::Operator& op_;
};

// Collects the declarations of one family; each is entered into the table at the end of the family.
class Declarations {
 public:
  explicit Declarations(ir::OperatorTable& table) : table_(table) {}
  ~Declarations() noexcept(false);
  Declarations(const Declarations&) = delete;

  // `since`: the opset version that last changed the operator.
  Declaration op(std::string name, int since, std::string domain = "");

 private:
  ir::OperatorTable& table_;
  std::vector<std::unique_ptr<ir::Operator>> pending_;
};

}  // namespace anfora::ops
