#include <boost/unordered/unordered_flat_set.hpp>
#include <string>

#include "ops/gradients.h"
#include "ops/registry.h"
#include "passes/differentiate/leaves.h"
#include "passes/pass.h"

namespace anfora::passes {

using namespace ir;

namespace {

// By qualified name: operators belong to a context.
boost::unordered_flat_set<std::string> operators_with_gradient() {
  const auto context = ops::make_context();
  const Library library(*context, ops::gradient_files(), Library::Of::Gradients);
  boost::unordered_flat_set<std::string> names;
  for (const Operator* op : library.operators()) names.insert(op->qualified);
  return names;
}

}  // namespace

bool lacks_gradient(const Apply& node) {
  static const boost::unordered_flat_set<std::string> kWith = operators_with_gradient();
  return std::ranges::any_of(leaf_types(node.type()), is_float_tensor) && !kWith.contains(node.op().qualified);
}

}  // namespace anfora::passes
