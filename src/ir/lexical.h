// Lexical rules of the text form, for the printer and the parser alike: what a name may look like without
// quotes, how strings are quoted, how numbers are written so that they read back bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "anfora/dtype.h"

namespace anfora::ir {

// The length of the longest label at the start of `text`; 0: there is none. A label is what follows % or @
// without quotes: letters, digits, "_ / . - $", "::", and ":" before a digit; it starts with a letter, "_" or "/".
size_t label_length(std::string_view text);
// The same for an identifier: letters, digits, "_ . -", started by a letter or "_".
size_t identifier_length(std::string_view text);

// Appends a name as a label or, where it is not one, in quotes.
void append_label(std::string& out, std::string_view name);
void append_identifier(std::string& out, std::string_view name);
// Appends a string literal. Quotes, backslashes, control characters and what is not UTF-8 are escaped:
// \" \\ \n \t \xHH.
void append_quoted(std::string& out, std::string_view bytes);
// Words that cannot be an operator's bare name or, without quotes, its domain: keywords and dtypes.
bool is_reserved(std::string_view word);

// The shortest decimal that reads back as the same value, with a point or an exponent; "inf", "-inf", "nan",
// and "nan(0x7fc00001)" for a NaN of other bits than the usual one.
void append_float(std::string& out, float value);
void append_float(std::string& out, double value);

// Element i of a tensor's memory.
void append_element(std::string& out, DType dtype, const void* data, int64_t i);

}  // namespace anfora::ir
