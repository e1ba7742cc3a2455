// See outline.cc.
#pragma once

#include <map>
#include <set>
#include <string>

#include "ir/module.h"
#include "rewrite/remarks.h"

namespace anfora::passes {

// The functions of a module before they are inlined, by where their applications come from (Location::file): what each is called, and
// the places of it and of those that it calls, directly or not.
struct FunctionOrigin {
  std::string name;
  std::set<std::string, std::less<>> places;
};
using FunctionOrigins = std::map<std::string, FunctionOrigin, std::less<>>;
FunctionOrigins origins_of_functions(const ir::Module& module);

// Applications of main that stand there several times become functions where that is smaller: those that came from one function, or
// `everywhere`. Returns how many functions were made.
size_t outline(ir::Module& module, const FunctionOrigins& origins, bool everywhere, rewrite::Remarks& remarks);

}  // namespace anfora::passes
