// Puts what an operator means, a function of a library (ir/library.h), in the place of its applications.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ir/library.h"
#include "passes/pass.h"

namespace anfora::passes {

class FunctionInserter {
 public:
  // `pass` is for remarks.
  FunctionInserter(PassContext& context, std::string_view pass, std::span<const ir::Library::File> files)
      : context_(context),
        pass_(pass),
        library_(context.module.context(), files),
        rewriter_(context.module, context.inference) {}

  bool has_function(const ir::Operator& op) const { return library_.find(op); }
  // The function, with these attributes for those of the application; `rule` is for remarks. False, with the reason as a remark: it
  // does not support the application, or the operator set to be written (null: any) lacks an operator of it.
  bool insert(ir::Apply& node, std::string_view rule, const AttributeSet& attributes,
              const rewrite::HasOperator& has_operator = nullptr);

 private:
  void replace(ir::Apply& node, std::span<ir::Node* const> results);

  PassContext& context_;
  const std::string_view pass_;
  const ir::Library library_;
  rewrite::Rewriter rewriter_;
};

}  // namespace anfora::passes
