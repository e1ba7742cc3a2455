// Runs a model on ones: what goes in, what the optimizer did, what comes out.
//
//     example model.onnx
#include <anfora/model.h>

#include <algorithm>
#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: example MODEL.onnx\n");
    return 2;
  }
  try {
    anfora::Model model = anfora::Model::load(argv[1]);
    anfora::OptimizeReport report = model.optimize();
    std::printf("%zu operators, %zu after optimization\n", report.operators_before, report.operators_after);

    anfora::NamedTensors inputs;
    for (const anfora::ValueInfo& input : model.inputs()) {
      std::printf("input  %s: %s\n", input.name.c_str(), input.type.c_str());
      anfora::Shape shape = input.shape;
      std::replace(shape.begin(), shape.end(), anfora::kUnknownSize, int64_t{1});
      anfora::Tensor ones = anfora::Tensor::allocate(input.dtype, shape);
      std::ranges::fill(ones.data<float>(), 1.0f);
      inputs.emplace(input.name, ones);
    }

    anfora::Executable executable = std::move(model).compile({.threads = 1});
    for (const auto& [name, tensor] : executable.run(inputs)) {
      std::printf("output %s: %s[%s]", name.c_str(), std::string(anfora::name(tensor.dtype())).c_str(),
                  anfora::to_string(tensor.shape()).c_str());
      for (float element : tensor.data<float>().first(std::min<int64_t>(tensor.size(), 8))) std::printf(" %g", element);
      std::printf("\n");
    }
  } catch (const anfora::Error& error) {
    std::fprintf(stderr, "example: %s\n", error.what());
    return 1;
  }
}
