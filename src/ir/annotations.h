// What a source says about parts of a module that means nothing to the compiler: documentation, and properties that
// tools leave behind (the line of Python that a node comes from). It is kept for export and for people to read.
//
// Few models have any, so that it lies beside the graph and costs nodes nothing. Passes need not know of it: it hangs
// on what they carry along anyway. A node's hangs on the location, so that a node that a rewrite makes brings that of
// its origin, or none; a value's on the place where it was computed and its name there, as long as it has that name; a
// graph's on the graph, and the cloner copies it.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "anfora/tensor.h"
#include "ir/context.h"
#include "ir/node.h"

namespace anfora::ir {

struct Annotation {
  std::string name;  // of a graph that is part of a node; a Graph's own name is unique in the module
  std::string doc;
  std::vector<std::pair<std::string, std::string>> properties;

  bool empty() const { return name.empty() && doc.empty() && properties.empty(); }
};

// ONNX's quantization_annotation: which tensors scale a value. The graph itself need not read them.
struct Quantization {
  struct Parameter {
    std::string role;  // "SCALE_TENSOR", "ZERO_POINT_TENSOR", …
    std::string name;
    Tensor tensor;  // undefined: a value of the graph that is no constant
  };
  std::string value;  // a name in main
  std::vector<Parameter> parameters;
};

class Annotations {
 public:
  // `context` keeps the keys.
  explicit Annotations(Context& context) : context_(&context) {}

  // Each holds for all nodes of an equal location.
  void set_node(const Location& location, Annotation annotation);
  // Null when there is none.
  const Annotation* of_node(const Node& node) const;

  // `place`: as in the locations of the nodes around it. An empty annotation says that the source declared the value.
  void set_value(std::string_view place, std::string_view name, Annotation annotation);
  const Annotation* of_value(std::string_view place, std::string_view name) const;
  const Annotation* of_value(const Node& node) const;
  bool has_values() const { return !values_.empty(); }  // whether of_value() can find any

  // Main's, by their names; an empty one is not kept.
  void set_input(std::string_view name, Annotation annotation);
  void set_output(std::string_view name, Annotation annotation);
  const Annotation* of_input(std::string_view name) const { return find(inputs_, {{}, name}); }
  const Annotation* of_output(std::string_view name) const { return find(outputs_, {{}, name}); }

  std::vector<Quantization>& quantizations() { return quantizations_; }
  const std::vector<Quantization>& quantizations() const { return quantizations_; }

  // What the source holds and the module does not, in words: whoever saves the module has to say so.
  std::vector<std::string>& left_out() { return left_out_; }
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  struct Key {
    std::string_view place, name;
    int32_t index = -1;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  using Table = boost::unordered_flat_map<Key, std::shared_ptr<const Annotation>, KeyHash>;

  void set(Table& table, Key key, Annotation annotation);
  static const Annotation* find(const Table& table, const Key& key);

  Context* context_;
  Table nodes_, values_, inputs_, outputs_;
  std::vector<Quantization> quantizations_;
  std::vector<std::string> left_out_;
};

}  // namespace anfora::ir
