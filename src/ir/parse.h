// Reads the text form; docs/ir.md has its grammar. What a person writes may be shorter than what the printer writes:
// types of nodes may be missing, applications may nest, lines may break anywhere, labels may be used before they are
// defined.
//
//     auto module = parse(*context, R"(
//       graph @main(%x: f32[N, 4], %y: f32[4]) {
//         return Relu(Add(%x, %y))
//       })");
//
// Every error is one Error(InvalidModel) with the place "file:line:column", what was expected there and what was
// found, and a hint where there is one. Only the text is checked; the invariants are the verifier's (ir/verify.h).
#pragma once

#include <memory>
#include <string_view>

#include "ir/module.h"
#include "ir/sidecar.h"

namespace anfora::ir {

struct ParseOptions {
  std::string_view file = {};        // name of the text in messages and locations
  const Sidecar* sidecar = nullptr;  // the content of constants named by their hash
  // Nodes without a location get their line of the text as one: "switch.ir:12".
  bool locate = false;
};

std::unique_ptr<Module> parse(Context& context, std::string_view text, const ParseOptions& options = {});

// "f32[N, 128]", "seq(f32[?])", "func(i64[]) -> bool[]".
const Type* parse_type(Context& context, std::string_view text);
// "2*N+1", "floordiv(N, 2)", "?", "'any name'".
Dim parse_dim(Context& context, std::string_view text);

}  // namespace anfora::ir
