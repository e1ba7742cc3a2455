// Gradients: what a sensitivity of an operator's results is of its operands, as functions in the text form (src/ops/gradients/*.ir).
//
//     graph @Mul(%a, %b, %y, %dy) { return (call @sum_to(Mul(%dy, %b), %a), call @sum_to(Mul(%dy, %a), %b)) }
//
// The parameters are the operands, the results, and the sensitivities of the results: none for what is left out, and for a result that
// nothing depends on. The function gives the sensitivities of the operands; none where there is no derivative, or where it is zero
// everywhere. `$axis` is the operator's attribute. Of an operator with any number of operands, the function is for two of them: more are
// applied two by two. Any number of results is a tuple, and a tuple given for such an operand is its items.
//
// A function with one parameter more updates the sensitivity that its first operand has so far, which that parameter is: of an element that is
// read, so that reading all n one after the other takes time linear in n.
//
// A function with no more parameters than the operator has operands says what the operator means, and the gradient is that of the meaning;
// any number of operands is then one tuple.
#pragma once

#include <span>

#include "ir/library.h"

namespace anfora::ops {

std::span<const ir::Library::File> gradient_files();

}  // namespace anfora::ops
