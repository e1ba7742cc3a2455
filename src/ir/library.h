// A library: what operators mean, as functions in the text form.
//
//     module { domain = "com.microsoft" }
//
//     graph @QuickGelu(%x) { return Swish(%x){alpha=$alpha} }
//
// The parameters of a function are the operator's inputs, none where one is left out (`OptionalHasElement` tells), and a tuple of any
// number of them; its result is the operator's, a tuple of all where there are several. `$alpha` is the value of the operator's attribute,
// none where it is neither given nor has a default. An attribute may be any operand that is known where the function is
// inserted: `Transpose(%x){perm=%perm}`. Of sensitivities of any type, sequences among them, `SumOf` and `ZerosOf` are the sum and zeros. `Holds(%x){fact="finite"}` asks a function of the rule language. Choices are a Switch, `if %condition { … } else { … }`; what is not supported is
// `unreachable "the reason"`. They are decided where the function is inserted, but for `if AtRun(%condition)`, which stays one; a
// function that begins so and calls itself is a loop of the module. Graphs of other names are for those of the file to call; those of `shared.ir` are in all.
//
// `rewrite::Instance` inserts a function in the place of an application.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace anfora::ir {

// Operators that only libraries have, see src/ops/library.cc.
inline constexpr std::string_view kAttributeOf = "Attribute", kWithAttributes = "WithAttributes", kIsKnown = "IsKnown",
                                  kHolds = "Holds", kUnreachable = "Unreachable", kAtRun = "AtRun", kSumOf = "SumOf",
                                  kZerosOf = "ZerosOf";

class Library {
 public:
  struct File {
    std::string_view name, text;
  };
  // Whether the functions are what operators mean, or gradients of operators (ops/gradients.h).
  enum class Of : uint8_t { Meanings, Gradients };
  // Reads the texts, which say the domain of their operators. Throws InvalidModel with the place of an error.
  Library(Context& context, std::span<const File> files, Of of = Of::Meanings);

  // The function of an operator; null: there is none here.
  const Graph* find(const Operator& op) const;
  // The same where it is what the operator means; else null.
  const Graph* meaning(const Operator& op) const;
  // Another function, by its name; null: there is none.
  const Graph* find(std::string_view name) const;
  // Whether the gradient adds to the sensitivity of its first operand, its last parameter.
  static bool is_update(const Operator& op, const Graph& gradient);
  std::span<const std::unique_ptr<Module>> modules() const { return modules_; }

 private:
  std::vector<std::unique_ptr<Module>> modules_;
  boost::unordered_flat_map<const Operator*, const Graph*> functions_;
};

}  // namespace anfora::ir
