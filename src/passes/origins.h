// What a module was before it was optimized, as far as passes want to give it back (einsum.cc, generate.cc, outline.cc).
#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "ir/module.h"

namespace anfora::passes {

// The function of the source that a node was written in, by the file of its location; empty where that is unknown, as of a
// line of a text, which may hold several.
std::string_view place_of(const ir::Node& node);

// A function before it was inlined: what it is called, and the places of its applications, with those of the functions
// that it calls, directly or not.
struct FunctionOrigin {
  std::string name;
  std::set<std::string, std::less<>> places;
};
// By where the function's own applications come from.
using FunctionOrigins = std::map<std::string, FunctionOrigin, std::less<>>;

struct Origins {
  uint32_t first_id = 0;  // of what was made since
  boost::unordered_flat_set<const ir::Location*> einsums;  // where there were any: what becomes of one lies in the same place
  FunctionOrigins functions;
};

Origins origins_of(const ir::Module& module);

}  // namespace anfora::passes
