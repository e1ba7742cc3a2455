// Einsum as products of two operands at a time.
#pragma once

#include "rewrite/rule.h"

namespace anfora::passes {

// Null where the ranks of the operands are not known.
ir::Node* contraction(rewrite::Rewriter& rewriter, ir::Apply& root);
// Of two operands at most, where no axes have to be merged; else null, or refused.
ir::Node* plain_contraction(rewrite::Rewriter& rewriter, ir::Apply& root);

}  // namespace anfora::passes
