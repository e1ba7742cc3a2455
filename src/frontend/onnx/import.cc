#include "frontend/onnx/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/message.h"
#include "frontend/onnx/type_proto.h"
#include "frontend/onnx/wire.h"

namespace anfora::onnx {
namespace {

// The first version of the format in which an initializer need not be an input, so that being one means something.
constexpr int64_t kInitializersMayBeOverridden = 4;

std::unique_ptr<ir::Module> import_bytes(ir::Context& context, std::string_view bytes, std::shared_ptr<void> owner,
                                         ExternalData* external, const ImportOptions& options,
                                         const std::string& name) {
  ExpansionBudget budget(bytes.size());
  auto module = std::make_unique<ir::Module>(context);
  try {
    if (bytes.empty()) throw Error(ErrorCode::InvalidModel, "the file is empty");
    if (bytes.size() > kLargestRead) {
      throw Error(ErrorCode::Unsupported,
                  fmt::format("the file has {} bytes, more than a protobuf can have", bytes.size()))
          .with_hint("store the weights as external data");
    }
    Importer(*module, {std::move(owner), external, &budget}, name).import_model(bytes, options);
  } catch (Error& e) {
    e.at_location(name);
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::ResourceExhausted, "there is not enough memory to read the model").at_location(name);
  }
  return module;
}

}  // namespace

Opsets::value_type read_opset(std::string_view bytes) {
  Opsets::value_type opset{"", 0};
  for (Message m(bytes); m.next();) {
    switch (m.field()) {
      case wire::OperatorSetIdProto::domain: opset.first = m.bytes(); break;
      case wire::OperatorSetIdProto::version: opset.second = m.integer(); break;
      default: m.skip();
    }
  }
  if (opset.first == "ai.onnx") opset.first = "";
  return opset;
}

int64_t version_in(const Opsets& opsets, std::string_view domain) {
  int64_t found = 0;
  for (const auto& [known, version] : opsets) {
    if (known == domain) found = std::max(found, version);  // of several entries for one domain, the newest
  }
  return found;
}

void GraphFields::read(std::string_view bytes) {
  using Field = wire::GraphProto;
  for (Message m(bytes); m.next();) {
    switch (m.field()) {
      case Field::node: nodes.push_back(m.bytes()); break;
      case Field::name: name = m.bytes(); break;
      case Field::doc_string: doc = m.bytes(); break;
      case Field::initializer: initializers.push_back(m.bytes()); break;
      case Field::sparse_initializer: sparse_initializers.push_back(m.bytes()); break;
      case Field::input: inputs.push_back(m.bytes()); break;
      case Field::output: outputs.push_back(m.bytes()); break;
      case Field::value_info: value_infos.push_back(m.bytes()); break;
      case Field::metadata_props: properties.push_back(m.bytes()); break;
      case Field::quantization_annotation: quantizations.push_back(m.bytes()); break;
      default: m.skip();
    }
  }
}

void Importer::import_model(std::string_view bytes, const ImportOptions& options) {
  using Field = wire::ModelProto;
  ir::Metadata& meta = module_.metadata();
  apart_ = options.apart;
  std::string_view graph;
  bool has_graph = false, has_training = false, has_devices = false;
  for (Message m(bytes); m.next();) {
    switch (m.field()) {
      case Field::ir_version: meta.ir_version = m.integer(); break;
      case Field::producer_name: meta.producer = m.bytes(); break;
      case Field::producer_version: meta.producer_version = m.bytes(); break;
      case Field::domain: meta.domain = m.bytes(); break;
      case Field::model_version: meta.model_version = m.integer(); break;
      case Field::doc_string: meta.doc = m.bytes(); break;
      case Field::graph: graph = m.bytes(), has_graph = true; break;
      case Field::opset_import: opsets_.push_back(read_opset(m.bytes())); break;
      case Field::metadata_props: meta.properties.emplace_back(read_entry(m.bytes())); break;
      case Field::training_info: has_training = true, m.skip(); break;
      case Field::configuration: has_devices = true, m.skip(); break;
      case Field::functions: functions_.emplace_back().read(m.bytes()); break;
      default: m.skip();
    }
  }
  // It says how initializers change, which are constants here: folded, and merged where they are equal.
  if (has_training) module_.annotations().left_out().emplace_back("training_info");
  // It says which nodes run on which device, and how their operands are split; rewrites know nothing of that.
  if (has_devices) module_.annotations().left_out().emplace_back("configuration of devices");
  if (!has_graph) {
    throw Error(ErrorCode::InvalidModel, "there is no graph in the file").with_hint("is it an ONNX model?");
  }
  // Files before IR version 3 do not say which operator set they use: there was one.
  if (opsets_.empty() && meta.ir_version < 3) opsets_.emplace_back("", 1);
  if (opsets_.empty()) throw Error(ErrorCode::InvalidModel, "the model does not say which operator sets it uses");
  for (const auto& [domain, version] : opsets_) meta.opsets[std::string(domain)] = version;
  index_functions();
  import_main(graph, options);
  import_function_bodies();
  check_recursion();
  forget_types();
}

void Importer::forget_types() {
  for (ir::Apply* node : typed_nodes_) node->set_type(nullptr);
  typed_nodes_.clear();
}

const ir::Type* Importer::known_type(ir::Node* root) {
  auto give_up = [&](ir::Node* node) {
    if (node->id() >= untypable_.size()) untypable_.resize(module_.next_id());
    untypable_[node->id()] = true;
  };
  auto is_given_up = [&](ir::Node* node) { return node->id() < untypable_.size() && untypable_[node->id()]; };
  std::vector<ir::Node*> stack{root};
  while (!stack.empty()) {
    ir::Node* node = stack.back();
    ir::Apply* apply = node->as_apply();
    if (node->type() || is_given_up(node)) {
      stack.pop_back();
      continue;
    }
    bool is_item = apply && apply->primitive() == ir::Primitive::TupleGetItem;
    if (!apply || (apply->primitive() != ir::Primitive::Operation && !is_item)) {
      give_up(node);
      continue;
    }
    size_t before = stack.size();
    bool is_typable = true;
    for (const ir::Use& use : apply->operands()) {
      is_typable = is_typable && !is_given_up(use.node);
      if (!use.node->type()) stack.push_back(use.node);
    }
    if (!is_typable) {
      stack.resize(before);
      give_up(node);
      continue;
    }
    if (stack.size() > before) continue;
    try {
      if (is_item) {
        const ir::Type* tuple = apply->input(0)->type();
        size_t index = static_cast<size_t>(apply->attributes().require_int("index"));
        if (tuple->is_tuple() && index < tuple->elements().size()) apply->set_type(tuple->element(index));
      } else {
        inference_.infer(*apply);
      }
    } catch (const Error&) {
      // Inference of the whole module will report it.
    }
    if (apply->type()) {
      typed_nodes_.push_back(apply);
    } else {
      give_up(node);
    }
  }
  return root->type();
}

void Importer::import_main(std::string_view bytes, const ImportOptions& options) {
  GraphFields fields;
  fields.read(bytes);
  ir::Annotation about = read_annotation(fields);
  module_.metadata().graph_name = fields.name;
  module_.metadata().graph_doc = std::move(about.doc);
  module_.metadata().graph_properties = std::move(about.properties);
  ir::Graph* graph = module_.make_graph("main");
  module_.set_main(graph);
  Scope scope(*this, graph, nullptr, {&opsets_}, name_);
  scope.declare_values(fields.value_infos, fields.outputs);
  scope.define_initializers(fields);
  ir::Annotations& annotations = module_.annotations();

  for (std::string_view input : fields.inputs) {
    ValueInfo info = read_declared(input);
    annotations.set_input(info.name, read_annotation(info));
    const ir::Type* type = info.type ? info.type : context().unranked_type(DType::Undefined);
    ir::Node* initializer = scope.find(info.name);
    if (!initializer) {
      scope.define(info.name, module_.add_parameter(graph, type, info.name));
    } else if (module_.metadata().ir_version >= kInitializersMayBeOverridden) {
      ir::Value* value = initializer->as_value();
      if (!value) throw Error(ErrorCode::InvalidModel, fmt::format("there are two inputs '{}'", info.name));
      scope.redefine(info.name, add_input(graph, type, info.name, value));
    }
  }
  if (options.is_trainable) scope.make_trainable(options.is_trainable);

  scope.import_nodes(fields.nodes);
  std::vector<ir::Node*> results;
  for (std::string_view output : fields.outputs) {
    ValueInfo info = read_declared(output);
    ir::Node* result = scope.find(info.name);
    if (!result) throw Error(ErrorCode::InvalidModel, fmt::format("nothing computes the output '{}'", info.name));
    results.push_back(result);
    annotations.set_output(info.name, read_annotation(info));
    module_.output_names().emplace_back(info.name);
    module_.metadata().output_types.push_back(info.type);
  }
  if (results.empty()) throw Error(ErrorCode::InvalidModel, "the graph has no outputs");
  set_results(graph, results);
  for (std::string_view annotation : fields.quantizations) scope.import_quantization(annotation);
}

Importer::Results Importer::import_graph(const GraphFields& fields, ir::Graph* target, Scope& parent,
                                         std::span<ir::Node* const> arguments) {
  if (parent.depth() + 1 > kDeepestGraph) {
    throw Error(ErrorCode::ResourceExhausted, fmt::format("graphs are nested more than {} deep", kDeepestGraph));
  }
  std::string place = fmt::format("{}: graph '{}'", parent.place(), fields.name);
  // Places tell nodes apart, also those of graphs that have one name.
  if (size_t number = ++places_[place]; number > 1) place += fmt::format(" #{}", number);
  Scope scope(*this, target, &parent, parent.dialect(), std::move(place));
  scope.declare_values(fields.value_infos, fields.outputs);
  if (fields.inputs.size() != arguments.size()) {
    throw Error(ErrorCode::InvalidModel, fmt::format("the graph '{}' takes {} inputs, but is given {}", fields.name,
                                                     fields.inputs.size(), arguments.size()));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string_view name = read_value_info(fields.inputs[i]).name;
    scope.define(name, arguments[i]);
    if (!arguments[i]->is_value() && arguments[i]->name().empty()) module_.set_name(arguments[i], name);
  }
  scope.define_initializers(fields);
  scope.import_nodes(fields.nodes);
  if (!fields.quantizations.empty()) {
    module_.annotations().left_out().push_back(fmt::format("quantization_annotation of the graph '{}'", fields.name));
  }
  Results results;
  for (std::string_view output : fields.outputs) {
    ValueInfo info = read_declared(output);
    if (ir::Annotation annotation = read_annotation(info); !annotation.empty()) {
      module_.annotations().set_value(scope.place(), info.name, std::move(annotation));
    }
    results.nodes.push_back(scope.resolve(info.name));
    results.types.push_back(info.type);
  }
  return results;
}

ValueInfo Importer::read_declared(std::string_view value_info) const {
  ValueInfo info = read_value_info(context(), value_info);
  info.type = without_names(context(), info.type, apart_);
  return info;
}

ir::Parameter* Importer::add_input(ir::Graph* graph, const ir::Type* type, std::string_view name,
                                   ir::Value* otherwise) {
  ir::Parameter* parameter = module_.add_parameter(graph, type, name);
  module_.set_default(parameter, otherwise);
  // The name is the input's. Other constants may be equal, and must not be called after one of several inputs.
  if (otherwise->name() == name) module_.set_name(otherwise, {});
  return parameter;
}

void Importer::annotate(ir::Graph* graph, const GraphFields& fields) {
  ir::Annotation annotation = read_annotation(fields);
  annotation.name = fields.name;
  if (!annotation.empty()) graph->set_annotation(std::make_shared<const ir::Annotation>(std::move(annotation)));
}

void Importer::set_results(ir::Graph* graph, std::span<ir::Node* const> results) {
  module_.set_result(graph, results.size() == 1 ? results[0] : module_.make_tuple(graph, results));
}

std::unique_ptr<ir::Module> import_onnx(ir::Context& context, const std::filesystem::path& path,
                                        const ImportOptions& options) {
  namespace fs = std::filesystem;
  std::shared_ptr<MappedFile> file = MappedFile::open(path);
  auto folder_of = [](const fs::path& p) { return p.has_parent_path() ? p.parent_path() : fs::path("."); };
  std::error_code failed;
  fs::path real = fs::canonical(path, failed);
  ExternalData external(options.data_directory.empty() ? folder_of(path) : options.data_directory,
                        failed ? folder_of(path) : folder_of(real), path);
  return import_bytes(context, file->text(), file, &external, options,
                      options.name.empty() ? path.filename().string() : options.name);
}

std::unique_ptr<ir::Module> import_onnx(ir::Context& context, std::span<const std::byte> bytes,
                                        std::shared_ptr<void> owner, const ImportOptions& options) {
  ExternalData external(options.data_directory, options.data_directory, {});
  return import_bytes(context, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, std::move(owner), &external,
                      options, options.name.empty() ? "model" : options.name);
}

std::vector<const ir::Type*> declared_output_types(ir::Context& context, const std::filesystem::path& path) {
  std::shared_ptr<MappedFile> file = MappedFile::open(path);
  std::vector<const ir::Type*> types;
  for (Message model(file->text()); model.next();) {
    if (model.field() != wire::ModelProto::graph) {
      model.skip();
      continue;
    }
    GraphFields fields;
    fields.read(model.bytes());
    for (std::string_view output : fields.outputs) types.push_back(read_value_info(context, output).type);
  }
  return types;
}

}  // namespace anfora::onnx
