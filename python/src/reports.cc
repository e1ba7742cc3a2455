#include "reports.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "driver/diff.h"
#include "driver/explain.h"
#include "driver/why_not.h"

namespace anfora::bindings {

namespace nb = nanobind;

void bind_reports(nb::module_& module) {
  using driver::Difference, driver::ChangedNode, driver::Explanation, driver::ExplainedRule, driver::WhyNot,
      rewrite::Remark;
  module.def("human_bytes", driver::human_bytes, nb::arg("bytes"));
  module.def("human_flops", driver::human_flops, nb::arg("flops"));

  nb::class_<ChangedNode>(module, "ChangedNode", "A node that is another in another model.")
      .def_ro("before", &ChangedNode::before, "\"Gemm 'fc'\"")
      .def_ro("after", &ChangedNode::after)
      .def_ro("changes", &ChangedNode::changes, "\"attributes {axis=1} → {axis=2}\"")
      .def("__repr__", [](const ChangedNode& node) { return fmt::format("<{} → {}>", node.before, node.after); });

  nb::class_<Difference>(module, "Difference", "What is different between two models; prints as `anfora diff` does.")
      .def_prop_ro(
          "operators",
          [](const Difference& difference) {
            nb::dict counts;
            for (const auto& [op, count] : difference.operators) {
              counts[op.c_str()] = nb::make_tuple(count.before, count.after);
            }
            return counts;
          },
          "How often each operator is applied, before and after.")
      .def_ro("same", &Difference::same, "How many nodes are as they were.")
      .def_ro("changed", &Difference::changed, "Nodes of one name that are different.")
      .def_ro("gone", &Difference::gone, "Nodes that only the first model has.")
      .def_ro("new", &Difference::made, "Nodes that only the second one has.")
      .def_ro("interface", &Difference::interface_changes, "Changes of inputs and outputs.")
      .def("__bool__", [](const Difference& difference) { return !difference.empty(); })
      .def("__str__", [](const Difference& difference) { return driver::to_text(difference); });

  nb::class_<Remark>(module, "Remark", "One rewrite, or one that was not made; prints as `anfora explain --node` does.")
      .def_prop_ro(
          "pass_", [](const Remark& remark) { return std::string(remark.pass); }, "The pass, by name.")
      .def_prop_ro("rule", [](const Remark& remark) { return std::string(remark.rule); })
      .def_prop_ro(
          "outcome", [](const Remark& remark) { return std::string(to_string(remark.outcome)); },
          "'applied', 'refused' (right, but it does not pay) or 'guarded' (a condition does not hold).")
      .def_ro("node", &Remark::node, "\"Conv 'c1'\"")
      .def_ro("location", &Remark::location, "Its place in the source; may be empty.")
      .def_ro("message", &Remark::message, "What became of it, or why not; may be empty.")
      .def_prop_ro(
          "nodes", [](const Remark& remark) { return nb::make_tuple(remark.before.nodes, remark.after.nodes); },
          "Applications that went, and that came.")
      .def("__str__", [](const Remark& remark) { return driver::to_text(remark); });

  nb::class_<ExplainedRule>(module, "ExplainedRule", "What a rule did to a model.")
      .def_ro("name", &ExplainedRule::name)
      .def_ro("doc", &ExplainedRule::doc, "Its equation; empty for what is none.")
      .def_ro("theme", &ExplainedRule::theme)
      .def_prop_ro("fired", [](const ExplainedRule& rule) { return rule.statistics.fired; })
      .def_prop_ro("tried", [](const ExplainedRule& rule) { return rule.statistics.tried; })
      .def_prop_ro("seconds", [](const ExplainedRule& rule) { return rule.statistics.seconds; })
      .def_prop_ro(
          "nodes", [](const ExplainedRule& rule) { return nb::make_tuple(rule.before.nodes, rule.after.nodes); },
          "Applications that went, and that came.")
      .def_ro("examples", &ExplainedRule::examples, "Where; the first few.")
      .def("__repr__",
           [](const ExplainedRule& rule) { return fmt::format("<{}: {}>", rule.name, rule.statistics.fired); });

  nb::class_<Explanation>(module, "Explanation", "What optimizing does to a model; prints as `anfora explain` does.")
      .def_ro("nodes_before", &Explanation::nodes_before)
      .def_ro("nodes_after", &Explanation::nodes_after)
      .def_ro("rounds", &Explanation::rounds)
      .def_ro("rules", &Explanation::rules, "Those that fired, by theme.")
      .def_ro("remarks", &Explanation::remarks, "In the order of time.")
      .def(
          "about",
          [](const Explanation& explanation, const std::string& node) { return about_node(explanation, node); },
          nb::arg("node"), nb::rv_policy::reference_internal, "Remarks on nodes with this in their name or location.")
      .def("__str__", [](const Explanation& explanation) { return driver::to_text(explanation, "model"); });

  nb::class_<WhyNot::Nodes>(module, "Unchanged", "Nodes that a rule left as they are, for one reason.")
      .def_ro("reason", &WhyNot::Nodes::reason, "What its guard lacked; or the rule that took them first.")
      .def_ro("nodes", &WhyNot::Nodes::places)
      .def("__repr__",
           [](const WhyNot::Nodes& nodes) { return fmt::format("<{}: {}>", nodes.reason, nodes.places.size()); });

  nb::class_<WhyNot>(module, "WhyNot", "Why a rule did not fire; prints as `anfora explain --why-not` does.")
      .def_ro("rule", &WhyNot::rule)
      .def_ro("text", &WhyNot::text, "Its equation; empty for what is none.")
      .def_prop_ro("fired", [](const WhyNot& answer) { return answer.statistics.fired; })
      .def_prop_ro("tried", [](const WhyNot& answer) { return answer.statistics.tried; })
      .def_ro("reasons", &WhyNot::reasons, "What its guard lacked.")
      .def_ro("taken_first", &WhyNot::taken, "The rules that took its nodes.")
      .def_ro("remedies", &WhyNot::remedies, "Options with which it fires more often: '--opset 20'.")
      .def("__str__", [](const WhyNot& answer) { return driver::to_text(answer); });
}

}  // namespace anfora::bindings
