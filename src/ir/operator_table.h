// The table of declared operators, by name. The standard one (ops::operators()) is made once and shared by all contexts: an
// operator is the same object in every module of a process.
#pragma once

#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ir/operator.h"

namespace anfora::ir {

class OperatorTable {
 public:
  OperatorTable();  // holds the primitives
  OperatorTable(const OperatorTable&) = delete;

  // Throws Internal when the operator exists. Others may look for operators meanwhile.
  const Operator* declare(Operator op);
  // Null when not declared.
  const Operator* find(std::string_view qualified) const;
  const Operator& primitive(Primitive primitive) const { return *primitives_[static_cast<size_t>(primitive)]; }
  std::vector<const Operator*> all() const;  // sorted by qualified name

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, std::unique_ptr<Operator>, std::less<>> operators_;
  const Operator* primitives_[static_cast<size_t>(Primitive::TupleGetItem) + 1] = {};
};

// "Conv" for the main domain, "domain::Name" elsewhere.
std::string qualified_name(std::string_view domain, std::string_view name);

}  // namespace anfora::ir
