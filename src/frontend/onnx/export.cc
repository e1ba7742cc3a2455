// A model is written in one pass, without a second copy of its weights. What precedes a nested message in a protobuf
// file is its length, so the file is first laid out as a list of pieces, text that is there and tensors that
// are written when their turn comes:
//
//     text: header, length of the graph, nodes, header of the first initializer
//     tensor
//     text: header of the second initializer
//     …
//
// The sum of the sizes says whether the model fits into a protobuf file, before anything is written.
#include "frontend/onnx/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <iterator>
#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>
#include <set>
#include <utility>

#include "anfora/error.h"
#include "frontend/onnx/declared_type.h"
#include "frontend/onnx/downgrade.h"
#include "frontend/onnx/draft.h"
#include "frontend/onnx/draft_builder.h"
#include "frontend/onnx/implemented.h"
#include "frontend/onnx/strict.h"
#include "frontend/onnx/tensor_proto.h"
#include "frontend/onnx/type_proto.h"
#include "frontend/onnx/wire.h"
#include "ir/annotations.h"
#include "ir/parse.h"
#include "support/atomic_file.h"

namespace anfora::onnx {
namespace {

using protozero::pbf_writer;

// Tensors below this stay in the model: shapes, axes, scales, which readers want at hand.
constexpr size_t kSmallestExternal = 1024;
// Tensors from this size on go into the text as pieces of their own; smaller ones are copied.
constexpr size_t kSmallestPiece = size_t{16} << 10;
// Readers map external data: large tensors begin on a page.
constexpr uint64_t kPage = 4096, kLine = 64;
constexpr size_t kSmallestOnPage = size_t{64} << 10;

// The first IR version in which initializers need not be inputs, and that of local functions.
constexpr int64_t kIrVersionOfFreeInitializers = 4, kIrVersionOfFunctions = 8;

// The first IR version that goes with a version of the main domain.
int64_t ir_version_for(int64_t opset) {
  static constexpr struct {
    int64_t opset, ir_version;
  } kFirst[] = {{28, 14}, {25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}, {15, 8}, {12, 7}, {11, 6}, {10, 5}, {9, 4}};
  for (auto [first, ir_version] : kFirst) {
    if (opset >= first) return ir_version;
  }
  return 3;
}

class Pieces {
 public:
  // Texts are not joined to ones longer than this, so that none is copied over and over while it grows.
  static constexpr size_t kLongText = size_t{1} << 18;
  void append(std::string text) {
    size_ += text.size();
    if (pieces_.empty() || pieces_.back().tensor || pieces_.back().text.size() + text.size() > kLongText) {
      pieces_.push_back({std::move(text)});
    } else {
      pieces_.back().text += text;
    }
  }
  void append(const Tensor& tensor) {
    size_ += packed_bytes(tensor);
    pieces_.push_back({{}, &tensor});
  }
  void append(Pieces&& other) {
    for (Piece& piece : other.pieces_) pieces_.push_back(std::move(piece));
    size_ += other.size_;
  }
  // Tag and length of a field that the next `length` bytes are.
  void begin_field(uint32_t field, uint64_t length) {
    constexpr uint32_t kLengthDelimited = 2;
    std::string text;
    protozero::add_varint_to_buffer(&text, (field << 3) | kLengthDelimited);
    protozero::add_varint_to_buffer(&text, length);
    append(std::move(text));
  }
  uint64_t size() const { return size_; }

  void write(const ByteSink& sink) const {
    for (const Piece& piece : pieces_) {
      if (piece.tensor) {
        write_elements(*piece.tensor, sink);
      } else {
        sink(std::as_bytes(std::span(piece.text)));
      }
    }
  }
  static void write_elements(const Tensor& tensor, const ByteSink& sink) {
    if (is_packed_in_memory(tensor)) {
      sink({static_cast<const std::byte*>(tensor.raw()), tensor.bytes()});
    } else {
      std::string packed = pack_elements(tensor);
      sink(std::as_bytes(std::span(packed)));
    }
  }

 private:
  struct Piece {
    std::string text;
    const Tensor* tensor = nullptr;
  };
  std::vector<Piece> pieces_;
  uint64_t size_ = 0;
};

void add(pbf_writer& writer, uint32_t field, std::string_view text) {
  writer.add_string(field, text.data(), text.size());
}
void add_if_any(pbf_writer& writer, uint32_t field, std::string_view text) {
  if (!text.empty()) add(writer, field, text);
}

class ModelWriter {
 public:
  ModelWriter(const ir::Module& module, Draft& draft, const ExportOptions& options, ExportReport& report,
              std::string data_location)
      : module_(module), draft_(draft), options_(options), report_(report), data_location_(std::move(data_location)) {}

  // Lays the model out; with external data the large tensors are left out and listed in external().
  Pieces lay_out(bool external_data);
  struct External {
    const Tensor* tensor;
    uint64_t offset;
  };
  const std::vector<External>& external() const { return external_; }

 private:
  std::string_view name(ValueId id) const { return id == kOmitted ? std::string_view() : draft_.value(id).name; }
  void write_attribute(pbf_writer& node, const std::string& name, const AttributeValue& value, const ir::Apply* origin);
  void write_node(pbf_writer& graph, uint32_t field, const DraftNode& node, bool in_branch = false);
  const ir::Value* default_of(ValueId id) const;
  void write_inputs(pbf_writer& writer, const DraftGraph& graph);
  const ir::Annotation* annotation_of(ValueId id) const;
  const ir::Type* stated_type(ValueId id, bool in_branch) const;
  void write_value_infos(pbf_writer& writer, const DraftGraph& graph, bool in_branch = false);
  void write_subgraph(pbf_writer& writer, const DraftGraph& graph, bool in_branch);
  void write_function(pbf_writer& writer, const DraftGraph& graph);
  void write_opsets(pbf_writer& writer, uint32_t field) const;
  void append_initializer(Pieces& pieces, std::string_view name, const Tensor& tensor, bool external_data);
  Pieces lay_out_main(bool external_data);

  const ir::Module& module_;
  Draft& draft_;
  const ExportOptions& options_;
  ExportReport& report_;
  std::string data_location_;
  std::vector<External> external_;
  std::map<std::pair<const void*, size_t>, uint64_t> external_offsets_;
  uint64_t data_end_ = 0;
};

void ModelWriter::write_attribute(pbf_writer& node, const std::string& name, const AttributeValue& value,
                                  const ir::Apply* origin) {
  using Field = wire::AttributeProto;
  using Kind = wire::AttributeProto::AttributeType;
  if (name == kCaptures) return;
  if (name.ends_with(kVerbatimSuffix)) {
    const auto* bytes = std::get_if<std::string>(&value);
    if (!bytes) throw Error(ErrorCode::InvalidModel, fmt::format("the attribute '{}' does not hold a message", name));
    node.add_message(wire::NodeProto::attribute, *bytes);
    return;
  }
  pbf_writer writer(node, wire::NodeProto::attribute);
  add(writer, Field::name, name);
  auto kind = [&](Kind k) { writer.add_enum(Field::type, static_cast<int32_t>(k)); };
  const ir::AttributeDeclaration* declared = origin ? origin->op().find_attribute(name) : nullptr;
  if (declared && declared->kind == ir::AttributeDeclaration::Kind::Type) {
    pbf_writer type(writer, Field::tp);
    write_type(type, ir::parse_type(module_.context(), std::get<std::string>(value)));
    type.commit();
    return kind(Kind::TYPE_PROTO);
  }
  std::visit(
      [&]<class T>(const T& v) {
        if constexpr (std::is_same_v<T, int64_t>) {
          writer.add_int64(Field::i, v);
          kind(Kind::INT);
        } else if constexpr (std::is_same_v<T, float>) {
          writer.add_float(Field::f, v);
          kind(Kind::FLOAT);
        } else if constexpr (std::is_same_v<T, std::string>) {
          writer.add_bytes(Field::s, v);
          kind(Kind::STRING);
        } else if constexpr (std::is_same_v<T, Tensor>) {
          pbf_writer tensor(writer, Field::t);
          write_tensor(tensor, v);
          tensor.commit();
          kind(Kind::TENSOR);
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          for (int64_t i : v) writer.add_int64(Field::ints, i);
          kind(Kind::INTS);
        } else if constexpr (std::is_same_v<T, std::vector<float>>) {
          for (float f : v) writer.add_float(Field::floats, f);
          kind(Kind::FLOATS);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          for (const std::string& s : v) writer.add_bytes(Field::strings, s);
          kind(Kind::STRINGS);
        } else {
          for (const Tensor& t : v) {
            pbf_writer tensor(writer, Field::tensors);
            write_tensor(tensor, t);
          }
          kind(Kind::TENSORS);
        }
      },
      value);
}

void ModelWriter::write_node(pbf_writer& graph, uint32_t field, const DraftNode& node, bool in_branch) {
  using Field = wire::NodeProto;
  ++report_.nodes;
  pbf_writer writer(graph, field);
  for (ValueId id : node.inputs) add(writer, Field::input, name(id));
  for (ValueId id : node.outputs) add(writer, Field::output, name(id));
  add_if_any(writer, Field::name, node.name);
  add(writer, Field::op_type, node.op->name);
  for (const auto& [attribute, value] : *node.attributes) write_attribute(writer, attribute, value, node.origin);
  for (const Subgraph& subgraph : node.subgraphs) {
    pbf_writer attribute(writer, Field::attribute);
    add(attribute, wire::AttributeProto::name, subgraph.attribute);
    pbf_writer nested(attribute, wire::AttributeProto::g);
    write_subgraph(nested, *subgraph.graph, in_branch || node.op->name == "If");
    nested.commit();
    attribute.add_enum(wire::AttributeProto::type, static_cast<int32_t>(wire::AttributeProto::AttributeType::GRAPH));
  }
  add_if_any(writer, Field::domain, node.op->domain);
  const ir::Annotation* annotation = node.origin ? module_.annotations().of_node(*node.origin) : nullptr;
  write_annotation(writer, Field::doc_string, Field::metadata_props, annotation);
}

const ir::Value* ModelWriter::default_of(ValueId id) const {
  const ir::Node* origin = draft_.value(id).origin;
  return origin && origin->as_parameter() ? module_.default_of(origin->as_parameter()) : nullptr;
}

void ModelWriter::write_inputs(pbf_writer& writer, const DraftGraph& graph) {
  for (ValueId id : graph.inputs) {
    if (!graph.parent && default_of(id) && options_.is_weight && options_.is_weight(name(id))) continue;
    pbf_writer info(writer, wire::GraphProto::input);
    const ir::Annotation* annotation = graph.parent ? nullptr : module_.annotations().of_input(name(id));
    write_value_info(info, name(id), public_type(module_.context(), draft_.value(id).type), annotation);
  }
}

// What the source says about a value that a node computes, as long as it has the name that the source gave it.
const ir::Annotation* ModelWriter::annotation_of(ValueId id) const {
  const DraftValue& value = draft_.value(id);
  const ir::Location* location = value.origin ? value.origin->location() : nullptr;
  return location ? module_.annotations().of_value(location->file, value.name) : nullptr;
}

// The type of a value that a node computes. The shapes of what a branch computes are left to the reader: in a branch
// that is never taken they may be nonsense, on which two ways of inference need not agree.
const ir::Type* ModelWriter::stated_type(ValueId id, bool in_branch) const {
  const DraftValue& value = draft_.value(id);
  const ir::Type* type = public_type(module_.context(), value.type);
  const ir::Apply* maker = value.origin ? value.origin->as_apply() : nullptr;
  bool is_inferable = !maker || maker->op().known;
  return in_branch && type && type->is_tensor() && is_inferable ? module_.context().unranked_type(type->dtype()) : type;
}

// Types of values between nodes: those that are asked for, and those that a reader cannot infer: of unknown operators'
// results, and all in old operator sets, when hardly an operator said what its results are.
void ModelWriter::write_value_infos(pbf_writer& writer, const DraftGraph& graph, bool in_branch) {
  constexpr int64_t kInferable = 7;
  using ValueInfo = ExportOptions::ValueInfo;
  auto main_opset = report_.opsets.find("");
  bool is_old = main_opset != report_.opsets.end() && main_opset->second < kInferable;
  bool is_any_needed = is_old || !std::ranges::all_of(draft_.operators(), &DraftOperator::is_known) ||
                       module_.annotations().has_values();
  if (!is_any_needed && options_.value_info != ValueInfo::All) return;
  boost::unordered_flat_set<ValueId> results(graph.outputs.begin(), graph.outputs.end());
  for (const DraftNode& node : graph.nodes) {
    bool is_needed = is_old || !node.op->is_known;
    for (ValueId id : node.outputs) {
      if (id == kOmitted || results.contains(id)) continue;
      const ir::Annotation* annotation = options_.value_info == ValueInfo::None ? nullptr : annotation_of(id);
      if (!is_needed && !annotation && options_.value_info != ValueInfo::All) continue;
      const ir::Type* type = stated_type(id, in_branch && !is_old);
      if (!type) continue;
      pbf_writer info(writer, wire::GraphProto::value_info);
      write_value_info(info, name(id), type, annotation);
    }
  }
}

void ModelWriter::write_subgraph(pbf_writer& writer, const DraftGraph& graph, bool in_branch) {
  using Field = wire::GraphProto;
  for (const DraftNode& node : graph.nodes) write_node(writer, Field::node, node, in_branch);
  add(writer, Field::name, graph.name);
  write_inputs(writer, graph);
  for (ValueId id : graph.outputs) {
    pbf_writer info(writer, Field::output);
    write_value_info(info, name(id), stated_type(id, in_branch), annotation_of(id));
  }
  write_value_infos(writer, graph, in_branch);
  write_annotation(writer, Field::doc_string, Field::metadata_props, graph.annotation);
}

void ModelWriter::write_opsets(pbf_writer& writer, uint32_t field) const {
  for (const auto& [domain, version] : report_.opsets) {
    pbf_writer entry(writer, field);
    add_if_any(entry, wire::OperatorSetIdProto::domain, domain);
    entry.add_int64(wire::OperatorSetIdProto::version, version);
  }
}

void ModelWriter::write_function(pbf_writer& writer, const DraftGraph& graph) {
  using Field = wire::FunctionProto;
  add(writer, Field::name, graph.name);
  for (ValueId id : graph.inputs) add(writer, Field::input, name(id));
  for (ValueId id : graph.outputs) add(writer, Field::output, name(id));
  // A function has no initializers.
  for (ValueId id : draft_.constants_of(graph)) {
    static const std::string kValue = "value";
    ++report_.nodes;
    pbf_writer node(writer, Field::node);
    add(node, wire::NodeProto::output, name(id));
    add(node, wire::NodeProto::op_type, "Constant");
    write_attribute(node, kValue, *draft_.value(id).constant, nullptr);
  }
  for (const DraftNode& node : graph.nodes) write_node(writer, Field::node, node);
  write_opsets(writer, Field::opset_import);
  add(writer, Field::domain, graph.domain);
  write_annotation(writer, Field::doc_string, Field::metadata_props, graph.annotation);
}

void ModelWriter::append_initializer(Pieces& pieces, std::string_view name, const Tensor& tensor, bool external_data) {
  using Field = wire::TensorProto;
  bool is_text = tensor.dtype() == DType::String;
  size_t bytes = is_text ? 0 : packed_bytes(tensor);
  std::string header;
  pbf_writer writer(header);
  if (external_data && bytes >= kSmallestExternal) {
    uint64_t alignment = bytes >= kSmallestOnPage ? kPage : kLine;
    // The same bytes in another shape lie there already.
    auto [place, is_new] =
        external_offsets_.try_emplace({tensor.raw(), bytes}, (data_end_ + alignment - 1) / alignment * alignment);
    const uint64_t offset = place->second;
    if (is_new) {
      external_.push_back({&tensor, offset});
      data_end_ = offset + bytes;
    }
    writer.add_packed_int64(Field::dims, tensor.shape().begin(), tensor.shape().end());
    writer.add_int32(Field::data_type, static_cast<int32_t>(tensor.dtype()));
    add(writer, Field::name, name);
    write_entry(writer, Field::external_data, "location", data_location_);
    write_entry(writer, Field::external_data, "offset", fmt::to_string(offset));
    write_entry(writer, Field::external_data, "length", fmt::to_string(bytes));
    writer.add_enum(Field::data_location, static_cast<int32_t>(wire::TensorProto::DataLocation::EXTERNAL));
    bytes = 0;
  } else if (bytes < kSmallestPiece) {
    write_tensor(writer, tensor, name);
    bytes = 0;
  } else {
    writer.add_packed_int64(Field::dims, tensor.shape().begin(), tensor.shape().end());
    writer.add_int32(Field::data_type, static_cast<int32_t>(tensor.dtype()));
    add(writer, Field::name, name);
    Pieces data;
    data.begin_field(Field::raw_data, bytes);
    data.append(tensor);
    pieces.begin_field(wire::GraphProto::initializer, header.size() + data.size());
    pieces.append(std::move(header));
    pieces.append(std::move(data));
    return;
  }
  pieces.begin_field(wire::GraphProto::initializer, header.size());
  pieces.append(std::move(header));
}

Pieces ModelWriter::lay_out_main(bool external_data) {
  using Field = wire::GraphProto;
  const DraftGraph& main = draft_.main();
  Pieces pieces;
  {
    std::string text;
    for (const DraftNode& node : main.nodes) {
      if (text.size() > Pieces::kLongText) pieces.append(std::exchange(text, {}));
      if (text.empty()) text.reserve(Pieces::kLongText + Pieces::kLongText / 8);
      pbf_writer writer(text);
      write_node(writer, Field::node, node);
    }
    pbf_writer writer(text);
    add(writer, Field::name, main.name);
    pieces.append(std::move(text));
  }
  for (ValueId id : main.inputs) {
    if (const ir::Value* otherwise = default_of(id))
      append_initializer(pieces, name(id), otherwise->tensor(), external_data);
  }
  for (ValueId id : draft_.constants_of(draft_.main())) {
    append_initializer(pieces, name(id), *draft_.value(id).constant, external_data);
  }
  std::string text;
  pbf_writer writer(text);
  add_if_any(writer, Field::doc_string, module_.metadata().graph_doc);
  write_inputs(writer, main);
  const std::vector<const ir::Type*>& declared = module_.metadata().output_types;
  for (size_t i = 0; i < main.outputs.size(); ++i) {
    ValueId id = main.outputs[i];
    pbf_writer info(writer, Field::output);
    write_value_info(
        info, name(id),
        refined_type(module_.context(), i < declared.size() ? declared[i] : nullptr, draft_.value(id).type),
        module_.annotations().of_output(name(id)));
  }
  write_value_infos(writer, main);
  for (const DraftQuantization& quantization : draft_.quantizations()) {
    pbf_writer annotation(writer, Field::quantization_annotation);
    add(annotation, wire::TensorAnnotation::tensor_name, name(quantization.value));
    for (auto [role, id] : quantization.parameters) {
      write_entry(annotation, wire::TensorAnnotation::quant_parameter_tensor_names, role, name(id));
    }
  }
  for (const auto& [key, value] : module_.metadata().graph_properties) {
    write_entry(writer, Field::metadata_props, key, value);
  }
  pieces.append(std::move(text));
  return pieces;
}

Pieces ModelWriter::lay_out(bool external_data) {
  using Field = wire::ModelProto;
  const ir::Metadata& meta = module_.metadata();
  report_.nodes = 0;
  external_.clear();
  external_offsets_.clear();
  data_end_ = 0;

  Pieces graph = lay_out_main(external_data);
  Pieces model;
  {
    std::string text;
    pbf_writer writer(text);
    writer.add_int64(Field::ir_version, report_.ir_version);
    // Who made the source stays its producer, also where that is not said.
    bool has_source = meta.ir_version > 0;
    add_if_any(writer, Field::producer_name, meta.producer.empty() && !has_source ? "anfora" : meta.producer);
    add_if_any(writer, Field::producer_version, meta.producer_version);
    add_if_any(writer, Field::domain, meta.domain);
    if (meta.model_version != 0) writer.add_int64(Field::model_version, meta.model_version);
    add_if_any(writer, Field::doc_string, meta.doc);
    model.append(std::move(text));
  }
  model.begin_field(Field::graph, graph.size());
  model.append(std::move(graph));
  std::string text;
  pbf_writer writer(text);
  write_opsets(writer, Field::opset_import);
  for (const auto& [key, value] : meta.properties) write_entry(writer, Field::metadata_props, key, value);
  for (const DraftGraph* function : draft_.functions()) {
    pbf_writer nested(writer, Field::functions);
    write_function(nested, *function);
  }
  model.append(std::move(text));
  report_.data_bytes = data_end_;
  report_.model_bytes = model.size();
  return model;
}

// The version of the main domain where the source says none: the newest that its IR version went with.
int64_t opset_for(int64_t ir_version) {
  int64_t opset = newest_opset("");
  while (opset > 1 && ir_version > 0 && ir_version_for(opset) > ir_version) --opset;
  return opset;
}

// The operator sets that the model is to have. That of the main domain is there even if it turns out not to be needed.
void choose_opsets(const ir::Module& module, const ExportOptions& options, ExportReport& report) {
  for (const auto& [domain, version] : module.metadata().opsets) {
    report.opsets[domain == "ai.onnx" ? "" : domain] = version;
  }
  int64_t& main = report.opsets.try_emplace("", opset_for(module.metadata().ir_version)).first->second;
  if (options.opset == ExportOptions::kNewest) {
    for (auto& [domain, version] : report.opsets) version = std::max(version, newest_opset(domain));
  } else if (options.opset != ExportOptions::kKeep) {
    main = options.opset;
  }
  if (main < 1 || main > newest_opset("")) {
    throw Error(ErrorCode::InvalidArgument, fmt::format("there is no operator set {}", main))
        .with_hint(fmt::format("it is a number from 1 to {}", newest_opset("")));
  }
  const ExportOptions::Reader& reader = options.reader;
  if (reader.opset == 0 || main <= reader.opset) return;
  if (options.opset > 0) {
    throw Error(ErrorCode::InvalidArgument, fmt::format("{} does not read operator set {}", reader.name, main))
        .with_hint(fmt::format("it reads those up to {}", reader.opset));
  }
  main = reader.opset;
}

// What whoever runs the model with ONNX Runtime should know of its operators.
void find_caveats(Draft& draft, ExportReport& report) {
  auto main = report.opsets.find("");
  if (main == report.opsets.end()) return;
  if (main->second > kNewestReadOpset) {
    report.caveats.push_back(fmt::format("{} reads operator sets up to {}", kOnnxRuntime, kNewestReadOpset));
    return;
  }
  std::set<std::string> lacking;
  auto look = [&](const DraftGraph& graph) {
    for (const DraftNode& node : graph.nodes) {
      const OperatorHistory::Version* version =
          node.op->domain.empty() && node.op->history ? node.op->history->at(main->second) : nullptr;
      if (version && !has_kernel(node.op->name, version->since)) {
        lacking.insert(fmt::format("{} {}", node.op->name, version->since));
      }
    }
  };
  Draft::for_each_graph(draft.main(), look);
  for (DraftGraph* function : draft.functions()) Draft::for_each_graph(*function, look);
  if (!lacking.empty()) {
    report.caveats.push_back(fmt::format("{} has no CPU kernel for {}", kOnnxRuntime, fmt::join(lacking, ", ")));
  }
}

std::unique_ptr<Draft> make_draft(const ir::Module& module, const ExportOptions& options, ExportReport& report) {
  choose_opsets(module, options, report);
  std::unique_ptr<Draft> draft = DraftBuilder(module, report.opsets[""]).build();
  bool uses_main = module.metadata().opsets.contains("");
  for (const DraftOperator& op : draft->operators()) {
    if (!op.is_used) continue;
    report.opsets.try_emplace(std::string(op.domain), newest_opset(op.domain));
    uses_main = uses_main || op.domain.empty();
  }
  if (!uses_main && report.opsets.size() > 1) report.opsets.erase("");
  make_ranks_strict(*draft);
  fit_to_opsets(*draft, module.metadata(), report);
  if (auto opset = report.opsets.find(""); opset != report.opsets.end()) leave_out_defaults(*draft, opset->second);
  find_caveats(*draft, report);
  report.left_out = module.annotations().left_out();
  if (size_t count = draft->add_quantizations(module.annotations().quantizations())) {
    report.left_out.push_back(fmt::format("quantization_annotation of {} values that are gone", count));
  }
  draft->assign_names();

  auto main = report.opsets.find("");
  report.ir_version =
      std::max({module.metadata().ir_version, main == report.opsets.end() ? 0 : ir_version_for(main->second),
                kIrVersionOfFreeInitializers, draft->functions().empty() ? 0 : kIrVersionOfFunctions});
  if (options.reader.ir_version > 0) report.ir_version = std::min(report.ir_version, options.reader.ir_version);
  return draft;
}

// Whether there is an operator that an operator set to be written does not have yet: the model used it all the same, or it
// is part of what stands for a loop or an older operator.
bool uses_later_operators(const ir::Module& module, const ExportReport& report) {
  boost::unordered_flat_set<const ir::Operator*> seen;
  for (const ir::Graph* graph : module.graphs()) {
    for (const ir::Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      if (node->primitive() != ir::Primitive::Operation || !seen.insert(&node->op()).second) continue;
      const OperatorHistory* history = find_history(node->op().domain, node->op().name);
      auto opset = report.opsets.find(node->op().domain);
      if (history && opset != report.opsets.end() && !history->at(opset->second)) return true;
    }
  }
  return false;
}

// To those that the module would be written in as it is.
void raise_opsets(const ir::Module& module, const ExportOptions& options, ExportReport& report) {
  ExportReport written;
  try {
    make_draft(module, options, written);
  } catch (const Error&) {
    return;  // what it cannot be written for may be gone when it is optimized
  }
  for (auto& [domain, version] : report.opsets) version = std::max(version, written.opsets[domain]);
}

}  // namespace

std::function<bool(const ir::Apply&)> expressible(const ir::Module& module, const ExportOptions& options) {
  ExportReport report;
  choose_opsets(module, options, report);
  if (uses_later_operators(module, report)) raise_opsets(module, options, report);
  return [opsets = std::move(report.opsets)](const ir::Apply& node) {
    auto opset = opsets.find(node.op().domain);
    return opset == opsets.end() || (is_expressible(node, opset->second) && is_implemented(node, opset->second));
  };
}

namespace {

[[noreturn]] void too_large(uint64_t bytes, const char* hint) {
  throw Error(ErrorCode::ResourceExhausted,
              fmt::format("the model takes {} bytes, a protobuf file at most {}", bytes, kLargestWritten))
      .with_hint(hint);
}

}  // namespace

ExportReport export_onnx(const ir::Module& module, const std::filesystem::path& path, const ExportOptions& options) {
  using ExternalData = ExportOptions::ExternalData;
  ExportReport report;
  std::unique_ptr<Draft> draft = make_draft(module, options, report);
  std::filesystem::path data_path = path;
  data_path += ".data";
  ModelWriter writer(module, *draft, options, report, data_path.filename().string());
  Pieces model = writer.lay_out(options.external_data == ExternalData::Always);
  if (options.external_data == ExternalData::WhenNeeded &&
      model.size() > std::min(options.largest_file, kLargestWritten)) {
    model = writer.lay_out(true);
  }
  if (model.size() > kLargestWritten) {
    too_large(model.size(), options.external_data == ExternalData::Never ? "store the weights as external data"
                                                                         : "its nodes alone are too many");
  }

  AtomicFile file(path);
  if (writer.external().empty()) {
    model.write([&](std::span<const std::byte> bytes) { file.write(bytes); });
  } else {
    AtomicFile data(data_path);
    ByteSink sink = [&](std::span<const std::byte> bytes) { data.write(bytes); };
    for (const ModelWriter::External& external : writer.external()) {
      static constexpr std::byte kZeros[kPage] = {};
      data.write(std::span(kZeros, external.offset - data.size()));
      Pieces::write_elements(*external.tensor, sink);
    }
    model.write([&](std::span<const std::byte> bytes) { file.write(bytes); });
    data.commit();
  }
  file.commit();
  return report;
}

ExportReport export_onnx(const ir::Module& module, const ByteSink& sink, const ExportOptions& options) {
  if (options.external_data == ExportOptions::ExternalData::Always) {
    throw Error(ErrorCode::InvalidArgument, "external data needs a file to lie beside");
  }
  ExportReport report;
  std::unique_ptr<Draft> draft = make_draft(module, options, report);
  ModelWriter writer(module, *draft, options, report, {});
  Pieces model = writer.lay_out(false);
  if (model.size() > kLargestWritten) too_large(model.size(), "export to a file, with external data");
  model.write(sink);
  return report;
}

ExportReport describe_export(const ir::Module& module, const ExportOptions& options) {
  ExportReport report;
  std::unique_ptr<Draft> draft = make_draft(module, options, report);
  ModelWriter(module, *draft, options, report, {}).lay_out(false);
  return report;
}

}  // namespace anfora::onnx
