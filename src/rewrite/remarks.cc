#include "rewrite/remarks.h"

#include "analysis/cost.h"

namespace anfora::rewrite {

Work& Work::operator+=(const Work& other) {
  nodes += other.nodes;
  flops += other.flops;
  bytes += other.bytes;
  return *this;
}

Work work_of(analysis::Inference& inference, const ir::Apply& node) {
  if (node.primitive() != ir::Primitive::Operation) return {};
  return {1, analysis::estimate_flops(inference, node), node.op().fusion == ir::FusionKind::View ? 0 : analysis::bytes_of(node.type())};
}

std::string_view to_string(Remark::Outcome outcome) {
  switch (outcome) {
    case Remark::Outcome::Applied: return "applied";
    case Remark::Outcome::Refused: return "refused";
    case Remark::Outcome::Guarded: return "guarded";
  }
  return "";
}

void Remarks::add(std::string_view pass, std::string_view rule, const ir::Node& node, std::string message,
                  Remark::Outcome outcome) {
  if (!keep_) return;
  remarks_.push_back({pass, rule, ir::describe(node), node.location() ? ir::to_string(*node.location()) : "",
                      std::move(message), outcome});
}

Remark* Remarks::applied(std::string_view pass, std::string_view rule, const ir::Node& node, std::string message) {
  ++statistics_[rule].fired;
  add(pass, rule, node, std::move(message), Remark::Outcome::Applied);
  return keep_ ? &remarks_.back() : nullptr;
}

void Remarks::refused(std::string_view pass, std::string_view rule, const ir::Node& node, std::string message) {
  add(pass, rule, node, std::move(message), Remark::Outcome::Refused);
}

void Remarks::guarded(std::string_view pass, std::string_view rule, const ir::Node& node, std::string message) {
  add(pass, rule, node, std::move(message), Remark::Outcome::Guarded);
}

}  // namespace anfora::rewrite
