// `try`, `with`, and what leaves them, as statements of their own kinds that the control flow graph knows:
//
//     Region 1: …        Leave 1 in it, or its end, goes on behind it
//     Guarded: …         the body of a try with handlers: what of it may raise they would catch
//     ContextEnter(m)    m.__enter__();  ContextExit(m): m.__exit__(None, None, None)
//
// A `raise` in the body of a try goes to the handler that names its class, by Leave. A `finally` stands in a copy on each way out, before
// the `return`, `break`, `continue` or `raise` that takes it:
//
//     try:                       Region 1:
//         if n < 0:                  Region 2:
//             raise ValueError           Guarded: if n < 0: Leave 2
//         y = f(n)                       …          y = f(n)
//     except ValueError:                 Leave 1
//         return 0                   .returned = 0; print("end"); return .returned
//     finally:                   print("end")
//         print("end")
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "frontend/python/tree.h"

namespace anfora::python {

// Rewrites the body of a function in place, but for functions inside. Throws Unsupported where it cannot be told which handler takes an
// exception, and for a yield in what has a way out to guard.
void expand_exits(Source& source, const Tree& function);

enum class Catches : uint8_t { No, Yes, Unknown };
// Whether `except TYPE` takes an exception of a class by name. `type`: null takes all. Of classes of a program only the name is known, and
// that they derive from Exception. "": any class.
Catches catches(const Tree* type, const std::string& exception);
// Of an exception of Python, by name, the class that it derives from; "": none. Empty: there is no such exception.
std::optional<std::string> base_of_exception(std::string_view name);
// The class that a statement raises; "": not known.
std::string raised_class(const Tree& raise);

}  // namespace anfora::python
