// Effects and the tokens that order them; at run time a token is nothing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "kernels/reference/arguments.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/families.h"

namespace anfora::kernels {
namespace {

constexpr int64_t kMostPrinted = 64;

// "f32[2] 1 -0.5"
std::string text_of(const Datum& value) {
  if (!value.is_tensor()) return "a value that is no tensor";
  const Tensor& t = value.tensor();
  std::string text = fmt::format("{}[{}]", name(t.dtype()), fmt::join(t.shape(), ", "));
  if (t.size() > kMostPrinted) return text;
  const Tensor words = cast_tensor(t, DType::String);
  for (const auto& word : words.data<std::string>()) text += fmt::format(" {}", word);
  return text;
}

void no_token(KernelContext& context) { context.set_output(0, Datum()); }

void print(KernelContext& context) {
  const std::string_view message = context.attributes().string("message", "");
  fmt::print(stderr, "{}{}{}\n", message, message.empty() ? "" : ": ", text_of(context.input_datum(1)));
  context.set_output(0, Datum());
}

void assert_all(KernelContext& context) {
  if (!std::ranges::all_of(context.input(1).data<bool>(), std::identity())) {
    refuse("{}", context.attributes().get_string("message", "an assertion does not hold"));
  }
  context.set_output(0, Datum());
}

void never(KernelContext&) { refuse("behind an error"); }

void depend(KernelContext& context) { context.set_output(0, context.take_input(0)); }

}  // namespace

void register_effects(KernelRegistry& registry) {
  registry.add("InitialState", no_token);
  registry.add("Print", print);
  registry.add("Assert", assert_all);
  registry.add("Never", never);
  registry.add("Depend", depend);
}

}  // namespace anfora::kernels
