// KV-cache fusion: rules/caches.rules, for what is stored.
#include "passes/pass.h"

namespace anfora::passes {

extern const Pass kCaches;

namespace {

size_t run_caches(PassContext& context) { return apply_rule_file(context, "caches.rules", kCaches.name); }

}  // namespace

const Pass kCaches{"caches", "KV-cache fusion", "keys and values appended inside their Attention", run_caches};

}  // namespace anfora::passes
