# cmake -P embed_texts.cmake OUTPUT HEADER FUNCTION TYPE FOLDER FILE…: writes a C++ source with a function that gives the texts of
# the files, in the order of their names. FUNCTION and TYPE are qualified from the namespace anfora on.
set(output ${CMAKE_ARGV3})
set(header ${CMAKE_ARGV4})
set(function ${CMAKE_ARGV5})
set(type ${CMAKE_ARGV6})
set(folder ${CMAKE_ARGV7})
set(entries "")
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE 8 ${last})
  file(READ ${CMAKE_ARGV${i}} text)
  get_filename_component(name ${CMAKE_ARGV${i}} NAME)
  # With their lengths: compilers limit how far they count.
  string(APPEND entries "    {\"${name}\", R\"text(${text})text\"sv},\n")
endforeach()
file(WRITE ${output} "// Generated from ${folder} by cmake/embed_texts.cmake.
#include \"${header}\"

namespace anfora {
namespace {
using namespace std::string_view_literals;
constexpr ${type} kFiles[] = {
${entries}};
}  // namespace

std::span<const ${type}> ${function}() { return kFiles; }

}  // namespace anfora
")
