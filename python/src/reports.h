// What optimizing did to a model, and what is different between two, as Python sees it.
#pragma once

#include <nanobind/nanobind.h>

namespace anfora::bindings {

// Classes `Difference` and `Explanation` with their parts, which are the driver's and print as the commands do; `human_bytes` and
// `human_flops`.
void bind_reports(nanobind::module_& module);

}  // namespace anfora::bindings
