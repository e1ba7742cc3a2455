#include "frontend/onnx/contents.h"

#include <vector>

#include "frontend/onnx/message.h"
#include "frontend/onnx/wire.h"
#include "ir/context.h"
#include "support/mapped_file.h"

namespace anfora::onnx {
namespace {

class Reader {
 public:
  Contents read(std::string_view model) {
    for (Message m(model); m.next();) {
      switch (m.field()) {
        case wire::ModelProto::graph: pending_.push_back({m.bytes(), true}); break;
        case wire::ModelProto::functions: pending_.push_back({m.bytes(), false}); break;
        default: m.skip();
      }
    }
    while (!pending_.empty()) {
      const Owner owner = pending_.back();
      pending_.pop_back();
      if (owner.is_graph) {
        read_graph(owner.bytes);
      } else {
        read_function(owner.bytes);
      }
    }
    return std::move(contents_);
  }

 private:
  void read_graph(std::string_view bytes) {
    for (Message m(bytes); m.next();) {
      switch (m.field()) {
        case wire::GraphProto::node: read_node(m.bytes()); break;
        case wire::GraphProto::initializer: read_tensor(m.bytes()); break;
        default: m.skip();
      }
    }
  }

  void read_function(std::string_view bytes) {
    for (Message m(bytes); m.next();) {
      if (m.field() == wire::FunctionProto::node) {
        read_node(m.bytes());
      } else {
        m.skip();
      }
    }
  }

  void read_node(std::string_view bytes) {
    std::string_view type, domain;
    for (Message m(bytes); m.next();) {
      switch (m.field()) {
        case wire::NodeProto::op_type: type = m.bytes(); break;
        case wire::NodeProto::domain: domain = m.bytes(); break;
        case wire::NodeProto::attribute: read_attribute(m.bytes()); break;
        default: m.skip();
      }
    }
    ++contents_.nodes[ir::qualified_name(domain == "ai.onnx" ? "" : domain, type)];
  }

  void read_attribute(std::string_view bytes) {
    for (Message m(bytes); m.next();) {
      switch (m.field()) {
        case wire::AttributeProto::g:
        case wire::AttributeProto::graphs: pending_.push_back({m.bytes(), true}); break;
        case wire::AttributeProto::t:
        case wire::AttributeProto::tensors: read_tensor(m.bytes()); break;
        default: m.skip();
      }
    }
  }

  void read_tensor(std::string_view bytes) {
    for (Message m(bytes); m.next();) {
      if (m.field() != wire::TensorProto::external_data) {
        m.skip();
      } else if (auto [key, value] = read_entry(m.bytes());
                 key == "location" && !contents_.data_files.contains(value)) {
        contents_.data_files.emplace(value);
      }
    }
  }

  struct Owner {
    std::string_view bytes;
    bool is_graph;  // else a function
  };
  std::vector<Owner> pending_;  // graphs nest: no recursion over what a file says
  Contents contents_;
};

}  // namespace

Contents read_contents(std::string_view bytes) { return Reader().read(bytes); }

Contents read_contents(const std::filesystem::path& path) { return read_contents(MappedFile::open(path)->text()); }

}  // namespace anfora::onnx
