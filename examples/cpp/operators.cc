// An operator of the program's own: declared, computed, and used by a model.
//
//     operators examples/models/scaled_add.ir [scaled_add.anf]
//
// The second file is the compiled model, for a program like compiled.cc.
#include <anfora/model.h>
#include <anfora/operator.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: operators MODEL.ir [MODEL.anf]\n");
    return 2;
  }
  try {
    // What it is: the optimizer and inference know no more than this.
    anfora::register_operator({.name = "my::ScaledAdd",
                               .signature = "(x: T[...], y: T[...]) -> T[...]",
                               .attributes = {{"scale", 1.0f}},
                               .doc = "x + scale · y."});
    // How it is computed.
    anfora::register_kernel("my::ScaledAdd", [](anfora::KernelCall& call) {
      const std::span<const float> x = call.input(0).data<float>(), y = call.input(1).data<float>();
      const std::span<float> sum = call.output(0, anfora::DType::F32, call.input(0).shape()).data<float>();
      const float scale = call.number("scale");
      for (size_t i = 0; i < sum.size(); ++i) sum[i] = x[i] + scale * y[i];
    });

    anfora::Model model = anfora::Model::load(argv[1]);
    model.optimize();
    const anfora::Executable executable = std::move(model).compile();
    if (argc == 3) executable.save(argv[2]);
    const anfora::Tensor x = anfora::Tensor::from<float>(anfora::Shape{1, 4}, std::vector<float>{1, 2, 3, 4});
    const anfora::Tensor y = anfora::Tensor::from<float>(anfora::Shape{1, 4}, std::vector<float>{1, -1, 1, -1});
    for (const auto& [name, tensor] : executable.run({{"x", x}, {"y", y}})) {
      std::printf("output %s:", name.c_str());
      for (float element : tensor.data<float>()) std::printf(" %g", element);
      std::printf("\n");
    }
  } catch (const anfora::Error& error) {
    std::fprintf(stderr, "operators: %s\n", error.what());
    return 1;
  }
}
