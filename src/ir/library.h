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
// A short meaning is said in the operator's declaration instead (`means`, ops/declare.h), which is read as a file of its own.
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
  // Of texts, which say the domain of their operators, and live as long. A function is read when it is asked for: then what is wrong with it
  // is an error, InvalidModel with the place.
  Library(Context& context, std::span<const File> files, Of of = Of::Meanings);

  // The function of an operator; null: there is none here.
  const Graph* find(const Operator& op) const;
  // The same where it is what the operator means; else null.
  const Graph* meaning(const Operator& op) const;
  // Another function, by its name; null: there is none.
  const Graph* find(std::string_view name) const;
  // The operators that have a function.
  std::vector<const Operator*> operators() const;
  // Reads all functions, for checks: modules with a function each, and what that calls.
  std::vector<Module*> read_all() const;
  // Whether the gradient adds to the sensitivity of its first operand, its last parameter.
  static bool is_update(const Operator& op, const Graph& gradient);

 private:
  // A function of a file, as it is written.
  struct Function {
    const File* file = nullptr;
    std::string_view name, text;
    size_t line = 0;                 // lines before it
    const Operator* op = nullptr;    // whose it is
    std::unique_ptr<Module> module;  // once it was asked for
    const Graph* graph = nullptr;
  };
  using Place = size_t;  // in functions_
  void index(const File& file, std::string_view domain);
  const Graph* read(Function& function) const;
  // The function of that name that one of the file means: its own, else a shared one.
  const Function* resolve(const File* from, std::string_view name) const;

  Context& context_;
  Of of_;
  const File* shared_ = nullptr;
  std::vector<File> declared_;  // what declarations say, by operators
  boost::unordered_flat_map<const File*, std::string_view> headers_;  // what stands before the functions
  mutable std::vector<Function> functions_;
  boost::unordered_flat_map<std::string_view, std::vector<Place>> by_name_;
  boost::unordered_flat_map<const Operator*, Place> by_operator_;
};

}  // namespace anfora::ir
