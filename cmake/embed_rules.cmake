# cmake -P embed_rules.cmake OUTPUT FILE…: writes a C++ source with the texts of rule files, in the order of their names.
set(output ${CMAKE_ARGV3})
set(entries "")
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE 4 ${last})
  file(READ ${CMAKE_ARGV${i}} text)
  get_filename_component(name ${CMAKE_ARGV${i}} NAME)
  # A string literal may have 65,536 characters; a file of rules is far below that.
  string(APPEND entries "    {\"${name}\", R\"rules(${text})rules\"},\n")
endforeach()
file(WRITE ${output} "// Generated from rules/ by cmake/embed_rules.cmake.
#include \"rewrite/rule_set.h\"

namespace anfora::rewrite {
namespace {
constexpr RuleFile kFiles[] = {
${entries}};
}  // namespace

std::span<const RuleFile> rule_files() { return kFiles; }

}  // namespace anfora::rewrite
")
