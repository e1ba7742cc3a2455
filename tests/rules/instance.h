// Random typed modules in which a rule's pattern is there.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "ir/module.h"
#include "rewrite/rule_set.h"
#include "rules/draw.h"

namespace anfora::rules {

struct Instance {
  std::unique_ptr<ir::Module> module;  // typed; main returns the root
  ir::Apply* root = nullptr;
  std::map<size_t, Bounds> bounds;       // of the elements of main's parameters, by their number
  std::map<std::string, int64_t> sizes;  // of symbolic dimensions
};

// What constants may be.
struct Constants {
  Values floats = Values::Normal, others = Values::Normal;
};

// Goes through the pattern from the root: an application draws its attributes and, by its operator, what operands give it the
// wished shape; variables become parameters of main, or constants where the guard asks for their values. Empty: what was drawn
// does not fit together. That the guard holds is not seen to, only made likely.
std::optional<Instance> make_instance(const rewrite::Equation& equation, ir::Context& context,
                                      const Constants& constants, Draw& draw);

// The same with symbols for some of the extents of main's parameters; empty: it cannot be typed like that.
std::optional<Instance> with_symbols(const Instance& instance, Draw& draw);

}  // namespace anfora::rules
