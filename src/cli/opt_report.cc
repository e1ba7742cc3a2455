#include "cli/opt_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/output.h"
#include "cli/text.h"

namespace anfora::cli {
namespace {

int64_t difference(size_t a, size_t b) { return static_cast<int64_t>(a) - static_cast<int64_t>(b); }

std::string shown_name(const std::string& path) {
  return path == kStandardOutput ? "(standard output)" : std::filesystem::path(path).filename().string();
}

}  // namespace

std::vector<pipeline::PassReport> steps_of(const OptResult& result) {
  const pipeline::OptimizeReport& report = result.report;
  std::vector<pipeline::PassReport> steps;
  auto add = [&](const pipeline::PassReport& step) {
    if (step.changes > 0 || step.nodes_removed != 0) steps.push_back(step);
  };
  add({"read", "reading", "Constant nodes become values, control flow becomes functions",
       difference(result.before.nodes, report.nodes_before)});
  for (const pipeline::PassReport& pass : report.passes) add(pass);
  add({"write", "writing", "control flow and functions as ONNX has them",
       difference(report.nodes_after, result.after.nodes)});
  return steps;
}

void print_table(std::FILE* to, const OptResult& result) {
  const std::string from = shown_name(result.before.path), into = shown_name(result.after.path);
  const size_t width = std::max({display_width(from), display_width(into), size_t{32}});
  const bool assumed = result.before.summary.has_unknown_sizes, assumed_after = result.after.summary.has_unknown_sizes;
  auto line = [&](const std::string& name, const OptSide& side) {
    return fmt::format("{}{}{} {:>8} {:>7} {:>10} {:>12}", bold(), left_aligned(name, width), plain(), "", side.nodes,
                       human_bytes(side.bytes), human_flops(side.summary.flops));
  };
  fmt::print(to, "{}{} {:>8} {:>7} {:>10} {:>12} {:>8}{}\n", dim(), std::string(width, ' '), "rewrites", "nodes",
             "size", "compute", "time", plain());
  fmt::print(to, "{}\n", line(from, result.before));
  for (const pipeline::PassReport& step : steps_of(result)) {
    const std::string change = step.nodes_removed == 0 ? "" : signed_count(-step.nodes_removed);
    const std::string rewrites = step.changes == 0 ? "" : fmt::format("{}", step.changes);
    fmt::print(to, "  {} {:>8} {}   {}{}{}\n", left_aligned(std::string(step.doc), width - 2), rewrites,
               right_aligned(change, 7), dim(), step.note, plain());
  }
  fmt::print(to, "{} {:>6.2f} s   {}{}{}\n", line(into, result.after), result.seconds, result.color, result.verdict,
             plain());
  if (!result.reason.empty()) fmt::print(to, "  {}\n", result.reason);
  if (assumed || assumed_after) {
    const std::string of = assumed == assumed_after ? "" : fmt::format(" of {}", assumed ? from : into);
    fmt::print(to, "  {}compute{}: with every unknown size 1{}\n", dim(), of, plain());
  }
  if (!result.note.empty()) fmt::print(to, "  {}\n", result.note);
}

nlohmann::ordered_json to_json(const OptResult& result) {
  const pipeline::OptimizeReport& report = result.report;
  nlohmann::ordered_json json = {{"input", result.before.path},
                                 {"output", result.after.path},
                                 {"nodes_before", result.before.nodes},
                                 {"nodes_after", result.after.nodes},
                                 {"bytes_before", result.before.bytes},
                                 {"bytes_after", result.after.bytes},
                                 {"flops_before", result.before.summary.flops},
                                 {"flops_after", result.after.summary.flops},
                                 {"seconds", result.seconds},
                                 {"verdict", result.verdict},
                                 {"verified", result.is_verified},
                                 {"reason", result.reason},
                                 {"rounds", report.rounds},
                                 {"note", result.note},
                                 {"passes", nlohmann::ordered_json::object()},
                                 {"rules", nlohmann::ordered_json::object()}};
  for (const pipeline::PassReport& step : steps_of(result)) {
    json["passes"][std::string(step.name)] = {
        {"nodes_removed", step.nodes_removed}, {"changes", step.changes}, {"seconds", step.seconds}};
  }
  json["rules"] = rules_json(report.remarks.statistics(), report.remarks.keeps());
  return json;
}

nlohmann::ordered_json rules_json(const std::map<std::string_view, rewrite::RuleStatistics>& rules, bool with_seconds) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [rule, statistics] : rules) {
    if (statistics.tried == 0 && statistics.fired == 0) continue;
    nlohmann::ordered_json& entry = json[std::string(rule)];
    if (statistics.tried > 0) entry["tried"] = statistics.tried;  // a pass that is no rule counts what it does only
    entry["fired"] = statistics.fired;
    if (with_seconds) entry["seconds"] = statistics.seconds;
  }
  return json;
}

}  // namespace anfora::cli
