#include "rewrite/remarks.h"

namespace anfora::rewrite {

void Remarks::add(std::string_view pass, std::string_view rule, const ir::Node& node, std::string message,
                  bool applied) {
  if (!keep_) return;
  remarks_.push_back({pass, rule, ir::describe(node), node.location() ? ir::to_string(*node.location()) : "",
                      std::move(message), applied});
}

void Remarks::applied(std::string_view pass, std::string_view rule, const ir::Node& node, std::string message) {
  ++statistics_[rule].fired;
  add(pass, rule, node, std::move(message), true);
}

void Remarks::refused(std::string_view pass, std::string_view rule, const ir::Node& node, std::string message) {
  add(pass, rule, node, std::move(message), false);
}

}  // namespace anfora::rewrite
