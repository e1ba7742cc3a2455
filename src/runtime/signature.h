// What a program takes and gives: names, types and shapes, against which the caller's data are checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/size_expression.h"
#include "support/datum.h"

namespace anfora::runtime {

// What a value is made of; sizes apart.
struct Structure {
  enum class Kind : uint8_t { Any, Tensor, Sequence, Optional, Map };
  Kind kind = Kind::Any;
  DType dtype = DType::Undefined;            // of a tensor, or of a map's keys; Undefined: any
  std::shared_ptr<const Structure> element;  // of a sequence, an optional or a map
};

// One input or output.
struct ValueSpec {
  std::string name;
  std::string type;                // as people write it: "f32[N, 128]"
  std::vector<std::string> sizes;  // of a tensor with a rank, the names of its sizes: "N", or empty
  bool is_tensor = true;           // false: a sequence, map or optional
  Structure structure;             // of that
  DType dtype = DType::Undefined;  // Undefined: any
  std::optional<std::vector<SizeExpression>> dims;  // over the main function's symbols; empty: any rank
  std::optional<Datum> otherwise;                   // of an input that may be left out
  bool is_donated = false;                          // of an input: a run may overwrite it
};

struct Signature {
  std::vector<ValueSpec> inputs, outputs;
  // Where the symbols of the inputs' dimensions are read: size = scale · symbol + offset.
  struct Symbol {
    std::string name;
    size_t input;
    size_t axis;
    int64_t scale = 1, offset = 0;
  };
  std::vector<Symbol> symbols;
};

using NamedData = std::vector<std::pair<std::string, Datum>>;

// The data in the order of the inputs. Throws InvalidArgument when a name is unknown or given twice; what is not given
// is None.
std::vector<Datum> in_order(const Signature& signature, NamedData data);

// The main function's arguments. What is not `data` is scratch memory.
struct Arguments {
  std::vector<const Datum*> data;
  std::vector<int64_t> symbols;
  struct Extent {
    const std::byte *begin, *end;
    size_t input;
  };
  std::vector<Extent> extents;
};
// Points the arguments at the inputs, and at the defaults of those that are left out. Throws InvalidArgument, naming the input,
// when one is missing or there are too many, when an element type, a rank or a dimension is wrong, or when one that is donated shares memory
// with another.
void bind(const Signature& signature, std::span<const Datum> inputs, Arguments& arguments);

}  // namespace anfora::runtime
