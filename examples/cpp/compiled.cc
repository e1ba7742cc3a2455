// Runs a compiled model on ones, with the library that has no compiler.
//
//     anfora compile mlp.onnx -o mlp.anf
//     compiled mlp.anf
#include <anfora/executable.h>
#include <anfora/kernel.h>

#include <algorithm>
#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: compiled MODEL.anf\n");
    return 2;
  }
  try {
    // A model has no kernels of a program's own, but their names (operators.cc).
    anfora::register_kernel("my::ScaledAdd", [](anfora::KernelCall& call) {
      const std::span<const float> x = call.input(0).data<float>(), y = call.input(1).data<float>();
      const std::span<float> sum = call.output(0, anfora::DType::F32, call.input(0).shape()).data<float>();
      const float scale = call.number("scale");
      for (size_t i = 0; i < sum.size(); ++i) sum[i] = x[i] + scale * y[i];
    });

    const anfora::Executable executable = anfora::Executable::load(argv[1]);
    anfora::NamedTensors inputs;
    for (const anfora::ValueInfo& input : executable.inputs()) {
      anfora::Shape shape = input.shape;
      std::replace(shape.begin(), shape.end(), anfora::kUnknownSize, int64_t{1});
      anfora::Tensor ones = anfora::Tensor::allocate(input.dtype, shape);
      std::ranges::fill(ones.data<float>(), 1.0f);
      inputs.emplace(input.name, ones);
    }
    for (const auto& [name, tensor] : executable.run(inputs)) {
      std::printf("output %s: %s[%s]", name.c_str(), std::string(anfora::name(tensor.dtype())).c_str(),
                  anfora::to_string(tensor.shape()).c_str());
      for (float element : tensor.data<float>().first(std::min<int64_t>(tensor.size(), 8))) std::printf(" %g", element);
      std::printf("\n");
    }
  } catch (const anfora::Error& error) {
    std::fprintf(stderr, "compiled: %s\n", error.what());
    return 1;
  }
}
