// Operators that write updates into a copy of their first input.
#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {

void declare_scatter(Declarations& declare) {
  declare.op("ScatterElements", 18)
      .doc(
          "Each update replaces, or is combined with, the element at its own coordinates but the index along the axis.")
      .input("data", "T")
      .input("indices", "Tind")
      .input("updates", "T")
      .output("output", "T")
      .type("T", kPlainDTypes)
      .type("Tind", {DType::I32, DType::I64})
      .attribute("axis", 0)
      .attribute("reduction", "none")
      .infer(infer_same_type)
      .in_place()
      .axis();
  declare.op("ScatterND", 18)
      .doc("Each slice of the updates replaces, or is combined with, the slice at its coordinates.")
      .input("data", "T")
      .input("indices", "i64")
      .input("updates", "T")
      .output("output", "T")
      .type("T", kPlainDTypes)
      .attribute("reduction", "none")
      .infer(infer_same_type)
      .in_place();
  declare.op("TensorScatter", 24)
      .doc("Writes the update into a cache, for each entry of the batch at an index of its own.")
      .input("past_cache", "T")
      .input("update", "T")
      .optional_input("write_indices", "i64")
      .output("present_cache", "T")
      .type("T", kAllDTypes)
      .attribute("axis", -2)
      .attribute("mode", "linear")
      .infer(infer_same_type)
      .in_place();
}

}  // namespace anfora::ops
