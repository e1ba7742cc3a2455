#include "rewrite/remarks.h"

namespace anfora::rewrite {

void Remarks::add(std::string_view pass, std::string_view rule, const ir::Node& node, std::string message,
                  Remark::Outcome outcome) {
  if (!keep_) return;
  remarks_.push_back({pass, rule, ir::describe(node), node.location() ? ir::to_string(*node.location()) : "",
                      std::move(message), outcome});
}

void Remarks::applied(std::string_view pass, std::string_view rule, const ir::Node& node, std::string message) {
  ++statistics_[rule].fired;
  add(pass, rule, node, std::move(message), Remark::Outcome::Applied);
}

void Remarks::refused(std::string_view pass, std::string_view rule, const ir::Node& node, std::string message) {
  add(pass, rule, node, std::move(message), Remark::Outcome::Refused);
}

void Remarks::guarded(std::string_view pass, std::string_view rule, const ir::Node& node, std::string message) {
  add(pass, rule, node, std::move(message), Remark::Outcome::Guarded);
}

}  // namespace anfora::rewrite
