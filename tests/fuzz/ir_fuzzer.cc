// Any bytes as a module in text form: the parser either throws an Error or makes a module whose text reads back, and
// prints again, to the same bytes (where no node depends on itself). The verifier takes all of them; inference, those that are valid.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "analysis/infer.h"
#include "anfora/error.h"
#include "ir/order.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "ops/registry.h"

namespace {

using namespace anfora;

void expect_round_trip(ir::Context& context, const ir::Module& module) {
  ir::Sidecar constants;
  std::string text = ir::print(module, {.sidecar = &constants});
  std::string again;
  bool parsed = false;
  try {
    again = ir::print(*ir::parse(context, text, {.sidecar = &constants}));
    parsed = true;
  } catch (const Error& error) {
    again = error.what();
  }
  // The order of nodes that depend on each other is that of their creation.
  bool is_cyclic = !ir::topological_order(module, ir::Coverage::All).back_edges.empty();
  if (again == text || (parsed && is_cyclic)) return;
  std::fprintf(stderr, "printed:\n%s\nread back:\n%s\n", text.c_str(), again.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Making a context takes longer than most inputs. It interns what texts bring, and so it is renewed from time to time.
  constexpr int kInputsPerContext = 1000;
  static std::unique_ptr<ir::Context> context;
  static int inputs = 0;
  if (!context || ++inputs % kInputsPerContext == 0) context = ops::make_context();
  std::unique_ptr<ir::Module> module;
  try {
    module = ir::parse(*context, std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const Error&) {
    return 0;
  }
  expect_round_trip(*context, *module);
  if (!ir::verify(*module).empty()) return 0;
  try {
    analysis::infer_types(*module);
  } catch (const Error&) {
    return 0;
  }
  expect_round_trip(*context, *module);
  return 0;
}
