// KV-cache fusion: rules/caches.rules, for what is stored.
#include "passes/pass.h"
#include "rewrite/rule_set.h"

namespace anfora::passes {

extern const Pass kCaches;

namespace {

size_t run_caches(PassContext& context) {
  static const auto rules = built_in_rules({"caches.rules"});
  return rewrite::apply_rules(*rules, context.rewriting(), context.inference, context.remarks, kCaches.name);
}

}  // namespace

const Pass kCaches{"caches", "KV-cache fusion", "keys and values appended inside their Attention", run_caches};

}  // namespace anfora::passes
