#include "kernels/generated/scalar_forms.h"

#include <boost/unordered/unordered_flat_map.hpp>

namespace anfora::kernels::generated {
namespace {

constexpr ScalarForm kForms[] = {
    {.op = "Add", .expression = "A + B", .over = Over::Numbers},
    {.op = "Sub", .expression = "A - B", .over = Over::Numbers},
    {.op = "Mul", .expression = "A * B", .over = Over::Numbers},
    {"Div", "A / B"},
    {.op = "Max", .expression = "larger(data_0, data_1)", .over = Over::Numbers},
    {.op = "Min", .expression = "smaller(data_0, data_1)", .over = Over::Numbers},
    {.op = "Less", .expression = "A < B", .is_predicate = true, .over = Over::Numbers},
    {.op = "LessOrEqual", .expression = "A <= B", .is_predicate = true, .over = Over::Numbers},
    {.op = "Greater", .expression = "A > B", .is_predicate = true, .over = Over::Numbers},
    {.op = "GreaterOrEqual", .expression = "A >= B", .is_predicate = true, .over = Over::Numbers},
    {.op = "Equal", .expression = "A == B", .is_predicate = true, .over = Over::Values},
    {"IsNaN", "is_nan(X)", Along::Elements, 0, true},
    {"And", "A && B", Along::Elements, 0b11, true},
    {"Or", "A || B", Along::Elements, 0b11, true},
    {"Xor", "!(A == B)", Along::Elements, 0b11, true},
    {"Not", "!X", Along::Elements, 0b1, true},
    {.op = "Where", .expression = "condition ? X : Y", .bools = 0b001, .over = Over::Values},
    {.op = "Cast",
     .expression = "result_type == 'f32' ? f32(input) : result_type == 'i32' ? i32(input) : result_type == 'i64' ? i64(input) : bool(input)",
     .over = Over::Each},
    {.op = "Neg", .expression = "-X", .over = Over::Numbers},
    {.op = "Abs", .expression = "abs(X)", .over = Over::Numbers},
    {"Sign", "X < 0 ? -1 : X > 0 ? 1 : X == 0 ? 0 : X"},
    {"Floor", "floor(X)"},
    {"Ceil", "ceil(X)"},
    {"Round", "nearest(X)"},
    {"Reciprocal", "1 / X"},
    {"Sqrt", "sqrt(X)"},
    {"Exp", "exp(X)"},
    {"Log", "log(X)"},
    {"Sin", "sin(X)"},
    {"Cos", "cos(X)"},
    {"Asin", "asin(X)"},
    {"Acos", "acos(X)"},
    {"Atan", "atan(X)"},
    {"Pow", "pow(X, Y)"},
    {"Tanh", "tanh(X)"},
    {"Erf", "erf(X)"},
    {"Sigmoid", "sigmoid(X)"},
    {"Softplus", "softplus(X)"},
    {"Relu", "X < 0 ? 0 : X"},
    {"LeakyRelu", "X < 0 ? alpha * X : X"},
    {"PRelu", "X < 0 ? slope * X : X"},
    {"Elu", "X < 0 ? alpha * expm1_of_negative(X) : X"},
    {"Selu", "X < 0 ? gamma * alpha * expm1_of_negative(X) : gamma * X"},
    {"HardSigmoid", "r = fma(alpha, X, beta); l = r < 0 ? 0 : r; l > 1 ? 1 : l"},
    {"HardSwish", "r = fma(X, 1 / 6, 0.5); l = r < 0 ? 0 : r; X * (l > 1 ? 1 : l)"},
    {"Softsign", "X / (1 + abs(X))"},
    {"ThresholdedRelu", "X > alpha ? X : 0"},
    {"Gelu", "approximate == 'tanh' ? gelu_tanh(X) : gelu(X)"},
    {"Mish", "e = exp(X < 20 ? X : 20); s = e * (e + 2); X * (s / (s + 2))"},
    {"Swish", "X * sigmoid(alpha * X)"},
    {"SwiGLU", "A * sigmoid(alpha * A) * B"},
    {"Clip", "l = input < (min ?? -infinity) ? (min ?? 0) : input; l > (max ?? infinity) ? (max ?? 0) : l"},
    {"DequantizeLinear", "(x - (x_zero_point ?? 0)) * x_scale", Along::Elements, 0, false, 0b101},
    {"QuantizeLinear",
     "z = y_zero_point ?? 0; l = lowest - z; h = highest - z; q = x / y_scale; c = l < q ? q : l; round(c < h ? c : h) + z",
     Along::Elements, 0, false, 0b100, true},
    {"Softmax", "e = exp_of_negative(input - row_max_number(input)); e * (1 / row_sum(e))", Along::Axis},
    {"LogSoftmax", "d = input - row_max_number(input); d - log(row_sum(exp_of_negative(d)))", Along::Axis},
    {"LayerNormalization", "d = X - row_mean(X); d * (1 / sqrt(row_mean(d * d) + epsilon)) * Scale + (B ?? 0)",
     Along::Axis},
    {"RMSNormalization", "X * (1 / sqrt(row_mean(X * X) + epsilon)) * scale", Along::Axis},
    {"ReduceSum", "row_sum(data)", Along::Axes},
    {"ReduceMean", "row_mean(data)", Along::Axes},
    {"ReduceMax", "row_max(data)", Along::Axes},
    {"ReduceMin", "row_min(data)", Along::Axes},
    {"ReduceSumSquare", "row_sum(data * data)", Along::Axes},
    {"ReduceL2", "sqrt(row_sum(data * data))", Along::Axes},
};

bool is_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9'); }

}  // namespace

const ScalarForm* scalar_form(std::string_view op) {
  static const auto& by_name = *[] {
    auto* all = new boost::unordered_flat_map<std::string_view, const ScalarForm*>;
    for (const ScalarForm& form : kForms) all->emplace(form.op, &form);
    return all;
  }();
  auto found = by_name.find(op);
  return found == by_name.end() ? nullptr : found->second;
}

std::string substituted(std::string_view expression, const std::function<std::string(std::string_view)>& text_of) {
  std::string text;
  for (size_t at = 0; at < expression.size();) {
    if (expression[at] == '\'') {
      const size_t end = expression.find('\'', at + 1) + 1;
      text += expression.substr(at, end - at);
      at = end;
      continue;
    }
    size_t end = at;
    while (end < expression.size() && is_name(expression[end])) ++end;
    if (end == at) {
      text += expression[at++];
      continue;
    }
    const std::string_view name = expression.substr(at, end - at);
    const bool is_function = end < expression.size() && expression[end] == '(';
    const bool is_number = name[0] >= '0' && name[0] <= '9';
    const std::string value = is_function || is_number ? std::string() : text_of(name);
    text += value.empty() ? name : std::string_view(value);
    at = end;
  }
  return text;
}

}  // namespace anfora::kernels::generated
