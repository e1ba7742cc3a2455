// What the optimizer did: one remark a rewrite, by pass and rule, with the place and the saving.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/module.h"

namespace anfora::analysis {
class Inference;
}

namespace anfora::rewrite {

// What applications take in one run, as far as their types tell; symbolic dimensions are taken for analysis::kAssumedDim.
struct Work {
  int nodes = 0;
  double flops = 0;
  double bytes = 0;  // of their results
  Work& operator+=(const Work& other);
};
Work work_of(analysis::Inference& inference, const ir::Apply& node);

struct Remark {
  std::string_view pass;
  std::string_view rule;
  std::string node;      // what was rewritten, as describe() calls it
  std::string location;  // may be empty
  std::string message;   // what became of it, or why a rewrite that one would expect was refused
  enum class Outcome : uint8_t {
    Applied,
    Refused,  // the rewrite is right, but does not pay or cannot be done
    Guarded,  // the pattern of an equation is there, but its guard does not hold
  };
  Outcome outcome = Outcome::Applied;
  // Of the applications that went, and of those that came; nothing where the pass does not count them.
  Work before = {}, after = {};
};
std::string_view to_string(Remark::Outcome outcome);

// Counts a rule: how often it was tried at a node of its operator, how often it fired, and how long both took; the time is only
// taken where remarks are kept.
struct RuleStatistics {
  int64_t tried = 0, fired = 0;
  double seconds = 0;
  double added_flops = 0;  // where its rewrites took more than what they replaced; see Work
};

class Remarks {
 public:
  // Each remark costs a few strings; off, only the statistics are kept.
  explicit Remarks(bool keep = false) : keep_(keep) {}

  // Returns the remark, to say more of it until the next one is made; null where they are not kept.
  Remark* applied(std::string_view pass, std::string_view rule, const ir::Node& node, std::string message = {});
  void refused(std::string_view pass, std::string_view rule, const ir::Node& node, std::string message);
  void guarded(std::string_view pass, std::string_view rule, const ir::Node& node, std::string message);
  void tried(std::string_view rule) { ++statistics_[rule].tried; }
  // Of a rule, to be counted in; stays where it is.
  RuleStatistics& counts(std::string_view rule) { return statistics_[rule]; }

  // A rewrite by the rule came to more operations than it replaced.
  void added_flops(std::string_view rule, double flops) { statistics_[rule].added_flops += flops; }

  bool keeps() const { return keep_; }
  const std::vector<Remark>& all() const { return remarks_; }
  // By the rules' names.
  std::map<std::string_view, RuleStatistics> statistics() const { return {statistics_.begin(), statistics_.end()}; }

 private:
  void add(std::string_view pass, std::string_view rule, const ir::Node& node, std::string message,
           Remark::Outcome outcome);
  bool keep_;
  std::vector<Remark> remarks_;
  std::unordered_map<std::string_view, RuleStatistics> statistics_;
};

}  // namespace anfora::rewrite
