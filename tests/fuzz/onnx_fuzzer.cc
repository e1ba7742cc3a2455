// Any bytes as an ONNX model: the reader and inference either accept them or throw an Error, nothing else.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "analysis/infer.h"
#include "anfora/error.h"
#include "frontend/onnx/import.h"
#include "ops/registry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace anfora;
  // Making a context declares all operators, which takes longer than most inputs. It interns what models bring, and
  // so it is renewed from time to time.
  constexpr int kInputsPerContext = 1000;
  static std::unique_ptr<ir::Context> context;
  static int inputs = 0;
  if (!context || ++inputs % kInputsPerContext == 0) context = ops::make_context();
  try {
    auto module = onnx::import_onnx(*context, std::as_bytes(std::span(data, size)), nullptr);
    analysis::Inference(*module).run();
  } catch (const Error&) {
  }
  return 0;
}
