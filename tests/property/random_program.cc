// The generator knows of each node a sample: a value of the dtype and shape that it has in every run. It gets the sample
// of an application by evaluating it, so that nothing about shapes is said here a second time. What it tracks itself
// is a bound on the magnitude of elements, to keep arithmetic exact.
//
// A graph is grown by steps. A step picks from the values in scope and adds a value; values that nothing picks later are
// dead code. Nested graphs see the scope of the graph around them.
#include "property/random_program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "analysis/evaluate.h"
#include "support/element_types.h"

namespace anfora::property {
namespace {

using namespace ir;

struct Variable {
  Node* node;
  Datum sample;
  double bound;  // no element is larger in magnitude

  bool is_tensor() const { return sample.is_tensor(); }
  DType dtype() const { return sample.tensor().dtype(); }
  const Shape& shape() const { return sample.tensor().shape(); }
  int rank() const { return sample.tensor().rank(); }
};

struct Function {
  Graph* graph;
  std::vector<Variable> parameters;  // what arguments must be like; a bound of theirs holds for arguments too
  Variable result;
};

constexpr DType kDTypes[] = {DType::F32, DType::I64, DType::Bool, DType::F64,
                             DType::I32, DType::F16, DType::BF16, DType::I8};
constexpr size_t kMostNodes = 80;
constexpr int kDeepestNesting = 3;
constexpr int kHighestRank = 3;
constexpr int64_t kMostElements = 64;
// Values that functions are written for, and that inputs have.
constexpr double kSmall = 4;

// Integers up to this magnitude are exact, and so are sums of a few of them.
double limit_of(DType dtype) {
  switch (dtype) {
    case DType::F32: return 1 << 20;
    case DType::F64:
    case DType::I64: return 1e12;
    case DType::I32: return 1 << 28;
    case DType::F16: return 1 << 10;
    case DType::BF16:
    case DType::I8: return 100;
    default: return 1;
  }
}

bool same_form(const Datum& a, const Datum& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_tensor()) return a.tensor().dtype() == b.tensor().dtype() && a.tensor().shape() == b.tensor().shape();
  return std::ranges::equal(a.items(), b.items(), same_form);
}

class Generator {
 public:
  Generator(Context& context, Choices& choices, Arithmetic arithmetic)
      : context_(context), choices_(choices), arithmetic_(arithmetic), module_(std::make_unique<Module>(context)) {}

  RandomProgram run() {
    RandomProgram program;
    graph_ = module_->make_graph("main");
    module_->set_main(graph_);
    for (int64_t count = choices_.between(1, 3); count > 0; --count) {
      Tensor value = random_tensor(choices_.of(kDTypes), random_shape());
      Parameter* parameter = module_->add_parameter(graph_, symbolic_type(value), "x");
      scope_.push_back({parameter, value, kSmall});
      program.inputs.emplace_back(value);
    }
    grow(choices_.below(40));
    std::vector<Node*> results;
    for (int64_t count = choices_.between(1, 3); count > 0; --count) {
      results.push_back(pick([](const Variable& v) { return v.sample.kind() != Datum::Kind::Tuple; }).node);
      module_->output_names().push_back("y" + std::to_string(count));
    }
    module_->set_result(graph_, results.size() == 1 ? results[0] : module_->make_tuple(graph_, results));
    program.module = std::move(module_);
    return program;
  }

 private:
  // Constants and shapes -----------------------------------------------------------------------------

  Shape random_shape() {
    Shape shape;
    for (size_t rank = choices_.below(kHighestRank + 1); rank > 0; --rank) shape.push_back(choices_.between(1, 3));
    return shape;
  }

  Tensor random_tensor(DType dtype, const Shape& shape) {
    std::vector<double> values(static_cast<size_t>(element_count(shape)));
    for (double& v : values) v = static_cast<double>(choices_.below(9)) - kSmall;
    return tensor(dtype, shape, values);
  }

  static Tensor tensor(DType dtype, const Shape& shape, std::span<const double> values) {
    Tensor t = Tensor::allocate(dtype, shape);
    dispatch<Join<Numbers, TypeList<bool>>>(dtype, [&]<class T>() {
      auto elements = t.data<T>();
      for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<T>(static_cast<ComputeType<T>>(values[i]));
    });
    return t;
  }

  // Dimensions of one size may go by a symbol, which stands for that size everywhere.
  const Type* symbolic_type(const Tensor& t) {
    static constexpr std::string_view kSymbols[] = {"one", "N", "seq len"};  // for sizes 1, 2, 3
    std::vector<Dim> dims;
    for (int64_t size : t.shape()) {
      dims.push_back(choices_.once_in(2) ? context_.dims().symbol(kSymbols[size - 1]) : context_.dims().constant(size));
    }
    return context_.tensor_type(t.dtype(), std::span<const Dim>(dims));
  }

  Variable constant(Tensor value) {
    double bound = 0;
    dispatch<Join<Numbers, TypeList<bool>>>(value.dtype(), [&]<class T>() {
      for (T x : value.data<T>())
        bound = std::max(bound, std::fabs(static_cast<double>(static_cast<ComputeType<T>>(x))));
    });
    return {module_->constant(value), value, bound};
  }
  Variable constant(DType dtype, double value) { return constant(tensor(dtype, {}, std::span(&value, 1))); }
  Variable integers(std::vector<int64_t> values) {
    return constant(Tensor::vector<int64_t>(std::span<const int64_t>(values)));
  }

  // A constant like a sample.
  Variable constant_like(const Datum& sample) {
    if (sample.is_tensor()) return constant(random_tensor(sample.tensor().dtype(), sample.tensor().shape()));
    std::vector<Variable> items;
    for (const Datum& item : sample.items()) items.push_back(constant_like(item));
    return sample.kind() == Datum::Kind::Tuple ? tuple(items) : apply("SequenceConstruct", items);
  }

  // Values in scope ----------------------------------------------------------------------------------

  template <class Accepts>
  std::vector<const Variable*> find(Accepts&& accepts) {
    std::vector<const Variable*> found;
    for (const Variable& v : scope_) {
      if (accepts(v)) found.push_back(&v);
    }
    return found;
  }
  // The simplest choice is the latest value.
  template <class Accepts>
  Variable pick(Accepts&& accepts) {
    auto found = find(accepts);
    if (found.empty()) return constant(random_tensor(DType::F32, {2}));
    return *found[found.size() - 1 - choices_.below(found.size())];
  }
  Variable pick_tensor(std::string_view op = "Identity") {
    return pick([&](const Variable& v) { return v.is_tensor() && takes(op, v.dtype()); });
  }
  // A value of a sample's form with a bound, made where there is none.
  Variable pick_like(const Variable& wanted) {
    auto found = find([&](const Variable& v) { return same_form(v.sample, wanted.sample); });
    if (found.empty() || choices_.once_in(4)) return bounded(constant_like(wanted.sample), wanted.bound);
    return bounded(*found[found.size() - 1 - choices_.below(found.size())], wanted.bound);
  }

  bool takes(std::string_view op_name, DType dtype) const {
    const Operator& op = context_.get_operator(op_name);
    const std::string& type = op.inputs[0].type;
    if (auto only = dtype_from_name(type)) return dtype == *only;
    auto variable = std::ranges::find(op.variables, type, &TypeVariable::name);
    return variable == op.variables.end() || variable->dtypes.empty() ||
           std::ranges::count(variable->dtypes, dtype) > 0;
  }

  Variable bounded(Variable v, double bound) {
    bound = std::floor(bound);
    if (v.bound <= bound || !v.is_tensor() || v.dtype() == DType::Bool) return v;
    Variable clipped = apply("Clip", {v, constant(v.dtype(), -bound), constant(v.dtype(), bound)});
    clipped.bound = bound;
    return clipped;
  }

  // Applications -------------------------------------------------------------------------------------

  // Evaluates and adds an application; the bound is the largest of the operands' unless the caller knows better.
  Variable apply(std::string_view name, const std::vector<Variable>& inputs, const AttributeSet& attributes = {},
                 size_t num_outputs = 1) {
    const Operator& op = context_.get_operator(name);
    std::vector<Datum> samples;
    std::vector<Node*> nodes;
    double bound = 0;
    for (const Variable& v : inputs) {
      samples.push_back(v.sample);
      nodes.push_back(v.node);
      bound = std::max(bound, v.bound);
    }
    std::vector<Datum> results = analysis::evaluate_operator(op, attributes, samples, num_outputs);
    Datum sample = num_outputs == 1 ? results[0] : Datum::tuple(std::move(results));
    ++nodes_;
    return {module_->apply(graph_, op, std::span<Node* const>(nodes), attributes, num_outputs), std::move(sample),
            bound};
  }

  Variable tuple(const std::vector<Variable>& items) {
    std::vector<Node*> nodes;
    std::vector<Datum> samples;
    double bound = 0;
    for (const Variable& v : items) {
      nodes.push_back(v.node);
      samples.push_back(v.sample);
      bound = std::max(bound, v.bound);
    }
    ++nodes_;
    return {module_->make_tuple(graph_, nodes), Datum::tuple(std::move(samples)), bound};
  }

  Variable item(const Variable& v, size_t index) {
    ++nodes_;
    Node* node = module_->apply(graph_, context_.primitive(Primitive::TupleGetItem), {v.node},
                                {{"index", static_cast<int64_t>(index)}});
    return {node, v.sample.items()[index], v.bound};
  }

  Variable call(Node* callee, const std::vector<Variable>& arguments, const Variable& result) {
    std::vector<Node*> nodes;
    for (const Variable& v : arguments) nodes.push_back(v.node);
    ++nodes_;
    return {module_->call(graph_, callee, nodes), result.sample, result.bound};
  }

  // Keeps a new value, unless its elements may have become too large to be exact.
  void keep(Variable v) {
    if (v.is_tensor() && v.bound > limit_of(v.dtype()) && !may_round(v.dtype())) {
      v = bounded(v, kSmall);
    }
    scope_.push_back(std::move(v));
  }
  bool may_round(DType dtype) const { return arithmetic_ == Arithmetic::Rounding && is_float(dtype); }

  // Growth -------------------------------------------------------------------------------------------

  using Step = void (Generator::*)();

  void grow(size_t steps) {
    static constexpr Step kSteps[] = {
        &Generator::unary,    &Generator::binary,    &Generator::neutral,       &Generator::compare,
        &Generator::choose,   &Generator::cast,      &Generator::reshape,       &Generator::transpose,
        &Generator::join,     &Generator::split,     &Generator::slice,         &Generator::reduce,
        &Generator::multiply, &Generator::shape_of,  &Generator::make_constant, &Generator::make_tuple,
        &Generator::sequence, &Generator::repeat,    &Generator::branch,        &Generator::call_function,
        &Generator::loop,     &Generator::recursion, &Generator::higher_order};
    for (size_t i = 0; i < steps && nodes_ < kMostNodes && !choices_.exhausted(); ++i) (this->*choices_.of(kSteps))();
  }

  void unary() {
    static constexpr std::string_view kExact[] = {"Neg", "Identity", "Abs", "Relu", "Sign", "Not"};
    static constexpr std::string_view kRounding[] = {"Neg",   "Tanh",       "Sigmoid", "Exp", "Sqrt",
                                                     "Floor", "Reciprocal", "Log",     "Erf", "Softmax"};
    std::string_view name = arithmetic_ == Arithmetic::Exact ? choices_.of(kExact) : choices_.of(kRounding);
    Variable x = pick_tensor(name);
    if (!takes(name, x.dtype()) || (name == "Softmax" && x.rank() == 0)) return;
    Variable y = apply(name, {x});
    if (arithmetic_ == Arithmetic::Rounding && name != "Neg") y.bound = INFINITY;
    keep(std::move(y));
  }

  // Whether the shapes broadcast to one of bearable size.
  static bool broadcast(const Variable& a, const Variable& b) {
    int64_t count = 1;
    for (int i = 1; i <= std::max(a.rank(), b.rank()); ++i) {
      int64_t m = i <= a.rank() ? a.shape()[a.rank() - i] : 1, n = i <= b.rank() ? b.shape()[b.rank() - i] : 1;
      if (m != n && m != 1 && n != 1) return false;
      count *= std::max(m, n);
    }
    return count <= kMostElements;
  }

  Variable pick_partner(const Variable& a) {
    auto found = find([&](const Variable& v) { return v.is_tensor() && v.dtype() == a.dtype() && broadcast(a, v); });
    if (found.empty() || choices_.once_in(4)) return constant(a.dtype(), static_cast<double>(choices_.below(5)) - 2);
    return *found[found.size() - 1 - choices_.below(found.size())];
  }

  void binary() {
    static constexpr std::string_view kOperators[] = {"Add", "Mul", "Sub", "Min", "Max"};
    std::string_view name = choices_.of(kOperators);
    Variable a = pick_tensor(name);
    if (!takes(name, a.dtype())) return;
    Variable b = pick_partner(a);
    if (choices_.once_in(2)) std::swap(a, b);
    double bound = name == "Mul"                    ? a.bound * b.bound
                   : name == "Add" || name == "Sub" ? a.bound + b.bound
                                                    : std::max(a.bound, b.bound);
    if (bound > limit_of(a.dtype()) && !may_round(a.dtype())) {
      a = bounded(a, kSmall);
      b = bounded(b, kSmall);
      bound = kSmall * kSmall;
    }
    Variable y = apply(name, {a, b});
    y.bound = bound;
    keep(std::move(y));
  }

  // What simplification removes.
  void neutral() {
    Variable x = pick([](const Variable& v) { return v.is_tensor() && v.dtype() != DType::Bool; });
    if (x.dtype() == DType::Bool) return;
    switch (choices_.below(6)) {
      case 0: return keep(apply("Mul", {x, constant(x.dtype(), 1)}));
      case 1: return keep(apply("Add", {constant(x.dtype(), 0), x}));
      case 2: return keep(apply("Sub", {x, constant(x.dtype(), 0)}));
      case 3: return keep(apply("Div", {x, constant(x.dtype(), 1)}));
      case 4:
        return keep(
            apply("Concat", {x.rank() > 0 ? x : constant(random_tensor(x.dtype(), {2}))}, {{"axis", int64_t{0}}}));
      default: return keep(apply("Cast", {x}, {{"to", static_cast<int64_t>(x.dtype())}}));
    }
  }

  void compare() {
    static constexpr std::string_view kOperators[] = {"Less", "Equal", "GreaterOrEqual", "And", "Xor"};
    std::string_view name = choices_.of(kOperators);
    Variable a = pick_tensor(name);
    if (!takes(name, a.dtype())) return;
    Variable y = apply(name, {a, pick_partner(a)});
    y.bound = 1;
    keep(std::move(y));
  }

  Variable condition() {
    auto found = find([](const Variable& v) { return v.is_tensor() && v.dtype() == DType::Bool && v.rank() == 0; });
    if (!found.empty() && !choices_.once_in(3)) return *found[found.size() - 1 - choices_.below(found.size())];
    Variable x = pick([](const Variable& v) { return v.is_tensor() && v.dtype() != DType::Bool; });
    if (x.dtype() == DType::Bool || choices_.once_in(5))
      return constant(DType::Bool, static_cast<double>(choices_.below(2)));
    Variable first =
        apply("Gather", {apply("Reshape", {x, integers({-1})}), constant(DType::I64, 0)}, {{"axis", int64_t{0}}});
    Variable y = apply("Less", {first, constant(x.dtype(), 0)});
    y.bound = 1;
    return y;
  }

  void choose() {
    Variable a = pick_tensor();
    keep(apply("Where", {condition(), a, pick_partner(a)}));
  }

  void cast() {
    DType to = choices_.of(kDTypes);
    Variable x = pick_tensor();
    bool whole = arithmetic_ == Arithmetic::Exact || !is_float(x.dtype()) || is_float(to);
    if (!whole) return;  // a NaN has no integer
    if (to != DType::Bool) x = may_round(to) ? x : bounded(x, std::min(limit_of(x.dtype()), limit_of(to)));
    Variable y = apply("Cast", {x}, {{"to", static_cast<int64_t>(to)}});
    if (to == DType::Bool) y.bound = 1;
    keep(std::move(y));
  }

  void reshape() {
    Variable x = pick_tensor();
    int64_t count = x.sample.tensor().size();
    switch (choices_.below(5)) {
      case 0: return keep(apply("Reshape", {x, integers({-1})}));
      case 1:
        return keep(apply(
            "Reshape", {x, integers(count % 2 == 0 ? std::vector<int64_t>{2, -1} : std::vector<int64_t>{1, count})}));
      case 2:
        if (x.rank() < kHighestRank) keep(apply("Unsqueeze", {x, integers({choices_.between(0, x.rank())})}));
        return;
      case 3:
        for (int axis = 0; axis < x.rank(); ++axis) {
          if (x.shape()[axis] == 1) return keep(apply("Squeeze", {x, integers({axis})}));
        }
        return;
      default:
        if (x.rank() > 0) keep(apply("Flatten", {x}, {{"axis", choices_.between(0, x.rank())}}));
    }
  }

  void transpose() {
    Variable x = pick_tensor();
    std::vector<int64_t> perm;
    for (int axis = 0; axis < x.rank(); ++axis) perm.insert(perm.begin() + choices_.between(0, axis), axis);
    keep(apply("Transpose", {x}, {{"perm", perm}}));
  }

  void join() {
    Variable a = pick([](const Variable& v) {
      return v.is_tensor() && v.rank() > 0 && v.sample.tensor().size() * 3 <= kMostElements;
    });
    if (a.rank() == 0) return;
    std::vector<Variable> parts{a};
    while (parts.size() < 3 && choices_.once_in(2)) {
      Variable b = pick_like(a);
      parts.push_back(b);
    }
    keep(apply("Concat", parts, {{"axis", choices_.between(-a.rank(), a.rank() - 1)}}));
  }

  void split() {
    Variable x = pick([](const Variable& v) { return v.is_tensor() && v.rank() > 0 && v.shape()[0] > 1; });
    if (x.rank() == 0 || x.shape()[0] < 2) return;
    Variable parts = apply("Split", {x, integers({1, x.shape()[0] - 1})}, {{"axis", int64_t{0}}}, 2);
    keep(item(parts, choices_.below(2)));
    if (choices_.once_in(2)) keep(item(parts, 0));
  }

  void slice() {
    Variable x = pick([](const Variable& v) { return v.is_tensor() && v.rank() > 0; });
    if (x.rank() == 0) return;
    int64_t axis = choices_.between(0, x.rank() - 1), size = x.shape()[axis];
    switch (choices_.below(3)) {
      case 0: {
        int64_t start = choices_.between(0, size - 1);
        return keep(apply("Slice",
                          {x, integers({start}), integers({choices_.between(start + 1, size + 1)}), integers({axis})}));
      }
      case 1: return keep(apply("Slice", {x, integers({-1}), integers({-size - 1}), integers({axis}), integers({-1})}));
      default: return keep(apply("Gather", {x, integers({choices_.between(-size, size - 1)})}, {{"axis", axis}}));
    }
  }

  void reduce() {
    static constexpr std::string_view kOperators[] = {"ReduceSum", "ReduceMax", "ReduceMin"};
    std::string_view name = choices_.of(kOperators);
    Variable x = pick_tensor(name);
    if (!takes(name, x.dtype())) return;
    double count = static_cast<double>(x.sample.tensor().size());
    if (name == "ReduceSum" && !may_round(x.dtype())) x = bounded(x, limit_of(x.dtype()) / kMostElements);
    std::vector<Variable> inputs{x};
    if (x.rank() > 0 && choices_.once_in(2)) inputs.push_back(integers({choices_.between(0, x.rank() - 1)}));
    Variable y = apply(name, inputs, {{"keepdims", choices_.between(0, 1)}});
    if (name == "ReduceSum") y.bound = x.bound * count;
    keep(std::move(y));
  }

  void multiply() {
    Variable a = pick([&](const Variable& v) { return v.is_tensor() && v.rank() == 2 && takes("MatMul", v.dtype()); });
    if (a.rank() != 2 || !takes("MatMul", a.dtype())) return;
    Variable b = pick_like({nullptr, Tensor::zeros(a.dtype(), Shape{a.shape()[1], choices_.between(1, 3)}), kSmall});
    if (!may_round(a.dtype())) a = bounded(a, limit_of(a.dtype()) / (kSmall * static_cast<double>(kMostElements)));
    Variable y = apply("MatMul", {a, b});
    y.bound = a.bound * b.bound * static_cast<double>(a.shape()[1]);
    keep(std::move(y));
  }

  // Shape → Gather → Concat → Reshape or Expand, as exporters write it.
  void shape_of() {
    Variable x = pick([](const Variable& v) { return v.is_tensor() && v.rank() > 0; });
    if (x.rank() == 0) return;
    Variable shape = apply("Shape", {x});
    shape.bound = static_cast<double>(kMostElements);
    if (choices_.once_in(4)) return keep(shape);
    Variable size = apply("Gather", {shape, integers({choices_.between(0, x.rank() - 1)})}, {{"axis", int64_t{0}}});
    if (choices_.once_in(2))
      return keep(apply("Reshape", {x, apply("Concat", {size, integers({-1})}, {{"axis", int64_t{0}}})}));
    keep(apply("Expand", {constant(x.dtype(), 1), apply("Concat", {integers({2}), size}, {{"axis", int64_t{0}}})}));
  }

  void make_constant() { keep(constant(random_tensor(choices_.of(kDTypes), random_shape()))); }

  void make_tuple() {
    auto any = [](const Variable&) { return true; };
    Variable made = tuple({pick(any), pick(any)});
    keep(made);
    keep(item(made, choices_.below(2)));
  }

  void sequence() {
    auto found = find([](const Variable& v) { return v.sample.kind() == Datum::Kind::Sequence; });
    if (found.empty()) {
      Variable element = pick_tensor();
      return keep(apply("SequenceConstruct", {element, pick_like(element)}));
    }
    Variable s = *found[choices_.below(found.size())];
    Variable first{nullptr, s.sample.items()[0], s.bound};
    switch (choices_.below(4)) {
      case 0: return keep(apply("SequenceAt", {s, constant(DType::I64, static_cast<double>(choices_.below(2)) - 1)}));
      case 1: return keep(apply("SequenceInsert", {s, pick_like(first), constant(DType::I64, 0)}));
      case 2: {
        Variable length = apply("SequenceLength", {s});
        length.bound = kSmall * 4;
        return keep(length);
      }
      default:
        if (first.rank() < kHighestRank)
          keep(apply("ConcatFromSequence", {s}, {{"axis", int64_t{0}}, {"new_axis", int64_t{1}}}));
    }
  }

  // The same application once more, for common subexpressions.
  void repeat() {
    auto found = find([&](const Variable& v) { return v.node->is_apply() && v.node->graph() == graph_; });
    if (found.empty()) return;
    Variable v = *found[choices_.below(found.size())];
    const Apply& node = *v.node->as_apply();
    std::vector<Node*> operands;
    for (const Use& use : node.operands()) operands.push_back(use.node);
    v.node = module_->apply(graph_, node.op(), std::span<Node* const>(operands), node.attributes(), node.num_outputs());
    ++nodes_;
    keep(v);
  }

  // Control flow -------------------------------------------------------------------------------------

  bool may_nest() const { return nesting_ < kDeepestNesting && nodes_ < kMostNodes; }

  // Grows a graph: `body(scope)` gives its result. Parameters are in scope; of a nested graph, the outer scope too.
  template <class Body>
  Function function(std::string_view name, Graph* parent, const std::vector<Variable>& parameters, Body&& body) {
    Function made{module_->make_graph(name, parent), {}, {}};
    Graph* outer = std::exchange(graph_, made.graph);
    std::vector<Variable> outer_scope = scope_;
    if (!parent) scope_.clear();
    ++nesting_;
    for (Variable p : parameters) {
      p.node = module_->add_parameter(graph_, nullptr);
      made.parameters.push_back(p);
      scope_.push_back(p);
    }
    made.result = body(made);
    module_->set_result(graph_, made.result.node);
    --nesting_;
    scope_ = std::move(outer_scope);
    graph_ = outer;
    return made;
  }

  // A few steps, then one of the values.
  Variable grow_and_pick() {
    grow(choices_.below(6));
    return pick([](const Variable&) { return true; });
  }
  Variable grow_like(const Variable& wanted) {
    grow(choices_.below(6));
    return pick_like(wanted);
  }

  void branch() {
    if (!may_nest()) return;
    Variable test = condition();
    Function yes = function("yes", graph_, {}, [&](Function&) { return grow_and_pick(); });
    Function no = function("no", graph_, {}, [&](Function&) { return grow_like(yes.result); });
    Variable result = yes.result;
    result.bound = std::max(yes.result.bound, no.result.bound);
    ++nodes_;
    keep(call(module_->make_switch(graph_, test.node, yes.graph->value(), no.graph->value()), {}, result));
  }

  void call_function() {
    if (functions_.empty() || choices_.once_in(3)) {
      if (!may_nest()) return;
      std::vector<Variable> parameters;
      for (size_t count = choices_.below(3); count > 0; --count) {
        Variable like = pick([](const Variable&) { return true; });
        parameters.push_back({nullptr, like.sample, kSmall});
      }
      functions_.push_back(function("f", nullptr, parameters, [&](Function&) { return grow_and_pick(); }));
    }
    const Function f = choices_.of(functions_);
    std::vector<Variable> arguments;
    for (const Variable& p : f.parameters) arguments.push_back(argument_like(p));
    keep(call(f.graph->value(), arguments, f.result));
  }

  // Tuples and sequences cannot be clipped, so that one whose elements may be larger than the function expects is made
  // anew.
  Variable argument_like(const Variable& p) {
    Variable v = pick_like(p);
    return v.bound <= p.bound ? v : constant_like(p.sample);
  }

  // Counts up to a constant, as ONNX's Loop is imported; collects a value of each round.
  void loop() {
    if (!may_nest()) return;
    Variable start = bounded(pick_tensor(), kSmall);
    if (start.bound > kSmall) return;
    int64_t rounds = choices_.between(1, 3);
    DType collected = start.dtype();
    Shape shape = start.shape();
    if (start.rank() == kHighestRank) return;
    Variable empty{nullptr, Datum::sequence({}), kSmall};
    Variable zero = constant(DType::I64, 0);
    AttributeSet dtype{{"dtype", static_cast<int64_t>(collected)}};
    Node* none = module_->apply(graph_, context_.get_operator("SequenceEmpty"), std::span<Node* const>(), dtype);
    AttributeSet stack{{"axis", int64_t{0}},
                       {"dtype", static_cast<int64_t>(collected)},
                       {"shape", std::vector<int64_t>(shape.begin(), shape.end())}};
    Datum stacked = Tensor::zeros(collected, [&] {
      Shape with_rounds = shape;
      with_rounds.insert(with_rounds.begin(), rounds);
      return with_rounds;
    }());
    Variable last{nullptr, start.sample, kSmall}, all{nullptr, stacked, kSmall};
    Variable result{nullptr, Datum::tuple({start.sample, stacked}), kSmall};
    Function loop = function("loop", graph_, {{nullptr, zero.sample, kSmall}, last, empty}, [&](Function& self) {
      Variable& i = self.parameters[0];
      Variable value = self.parameters[1], sequence = self.parameters[2];
      scope_.pop_back();  // the sequence is empty at first: no step may look into it
      Variable go = apply("Less", {i, constant(DType::I64, static_cast<double>(rounds))});
      Function body = function("loop.body", graph_, {}, [&](Function&) {
        Variable next = argument_like(grow_like(last));
        Variable following = apply("Add", {i, constant(DType::I64, 1)});
        Apply* longer = module_->apply(graph_, context_.get_operator("SequenceInsert"), {sequence.node, next.node});
        return call(self.graph->value(), {following, next, {longer, empty.sample, kSmall}}, result);
      });
      Function done = function("loop.done", graph_, {}, [&](Function&) {
        all.node = module_->apply(graph_, context_.get_operator("StackSequence"), {sequence.node}, stack);
        return tuple({value, all});
      });
      ++nodes_;
      return call(module_->make_switch(graph_, go.node, body.graph->value(), done.graph->value()), {}, result);
    });
    Variable end = call(loop.graph->value(), {zero, start, {none, empty.sample, kSmall}}, loop.result);
    keep(item(end, 0));
    keep(item(end, 1));
  }

  // f(n, x) = n < 1 ? x : body(f(n − 1, x)), not a tail call.
  void recursion() {
    if (!may_nest()) return;
    Variable start = bounded(pick_tensor(), kSmall);
    if (start.bound > kSmall) return;
    Variable count = constant(DType::I64, static_cast<double>(choices_.below(4))), like{nullptr, start.sample, kSmall};
    Function f = function("recurse", nullptr, {count, like}, [&](Function& self) {
      Variable n = self.parameters[0], x = self.parameters[1];
      Variable end = apply("Less", {n, constant(DType::I64, 1)});
      Function base = function("base", graph_, {}, [&](Function&) { return x; });
      Function step = function("step", graph_, {}, [&](Function&) {
        Variable below = call(self.graph->value(), {apply("Sub", {n, constant(DType::I64, 1)}), x}, like);
        scope_.push_back(below);
        return argument_like(grow_like(like));
      });
      ++nodes_;
      return call(module_->make_switch(graph_, end.node, base.graph->value(), step.graph->value()), {}, like);
    });
    keep(call(f.graph->value(), {count, start}, like));
  }

  // twice(f, x) = f(f(x)), with a closure.
  void higher_order() {
    if (!may_nest()) return;
    Variable start = bounded(pick_tensor(), kSmall);
    if (start.bound > kSmall) return;
    Variable like{nullptr, start.sample, kSmall};
    Function f = function("step", graph_, {like}, [&](Function&) { return argument_like(grow_like(like)); });
    Graph* twice = module_->make_graph("twice");
    Parameter* g = module_->add_parameter(twice, nullptr);
    Node* x = module_->add_parameter(twice, nullptr);
    for (int i = 0; i < 2; ++i) x = module_->call(twice, g, std::array{x});
    module_->set_result(twice, x);
    ++nodes_;
    keep({module_->call(graph_, twice->value(), std::array<Node*, 2>{f.graph->value(), start.node}), start.sample,
          kSmall});
  }

  Context& context_;
  Choices& choices_;
  const Arithmetic arithmetic_;
  std::unique_ptr<Module> module_;
  Graph* graph_ = nullptr;  // that grows
  std::vector<Variable> scope_;
  std::vector<Function> functions_;  // at the top level, complete
  size_t nodes_ = 0;
  int nesting_ = 0;
};

}  // namespace

RandomProgram random_program(Context& context, Choices& choices, Arithmetic arithmetic) {
  return Generator(context, choices, arithmetic).run();
}

}  // namespace anfora::property
