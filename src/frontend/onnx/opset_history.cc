#include "frontend/onnx/opset_history.h"

#include <boost/unordered/unordered_flat_map.hpp>
#include <charconv>
#include <limits>
#include <string>

#include "anfora/error.h"
#include "ir/context.h"

namespace anfora::onnx {
namespace {

constexpr struct {
  std::string_view name, row;
} kRows[] = {
#include "frontend/onnx/opset_history.inc"
};

constexpr TypeTraits bit(DType dtype) { return TypeTraits{1} << static_cast<int>(dtype); }
constexpr TypeTraits kTensor = TypeTraits{1} << kDTypeCount;
constexpr TypeTraits kSequence = kTensor << 1;
constexpr TypeTraits kOptional = kTensor << 2;
static_assert(kDTypeCount + 2 < std::numeric_limits<TypeTraits>::digits);

// Calls visit(part) for each part between separators.
template <class Visit>
void split(std::string_view text, char separator, Visit&& visit) {
  while (true) {
    size_t at = text.find(separator);
    visit(text.substr(0, at));
    if (at == std::string_view::npos) return;
    text.remove_prefix(at + 1);
  }
}

TypeTraits parse_trait(std::string_view word) {
  using enum DType;
  if (word == "ints") return bit(I8) | bit(I16) | bit(I32) | bit(I64) | bit(U8) | bit(U16) | bit(U32) | bit(U64);
  if (word == "floats") return bit(F16) | bit(F32) | bit(F64);
  if (word == "fp8") return bit(F8E4M3FN) | bit(F8E4M3FNUZ) | bit(F8E5M2) | bit(F8E5M2FNUZ);
  if (word == "complex") return bit(C64) | bit(C128);
  if (word == "tensor") return kTensor;
  if (word == "seq") return kSequence;
  if (word == "opt") return kOptional;
  if (auto dtype = dtype_from_name(word)) return bit(*dtype);
  throw Error(ErrorCode::Internal, "opset_history.inc: " + std::string(word));
}

int64_t parse_digits(std::string_view digits) {
  int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

OperatorHistory::Count parse_count(std::string_view text) {  // "1..3", "1.."
  size_t dots = text.find("..");
  std::string_view most = text.substr(dots + 2);
  return {static_cast<size_t>(parse_digits(text.substr(0, dots))),
          most.empty() ? std::numeric_limits<size_t>::max() : static_cast<size_t>(parse_digits(most))};
}

void parse_word(std::string_view word, OperatorHistory::Version& version) {
  if (word.starts_with("in=")) {
    version.inputs = parse_count(word.substr(3));
  } else if (word.starts_with("out=")) {
    version.outputs = parse_count(word.substr(4));
  } else if (word[0] == '@') {
    version.new_attributes.push_back(word.substr(1));
  } else if (word[0] == '=') {
    version.new_defaults.push_back(word.substr(1));
  } else {
    size_t colon = word.find(':');
    TypeTraits gained = 0;
    split(word.substr(colon + 1), ',', [&](std::string_view trait) { gained |= parse_trait(trait); });
    version.gained.emplace_back(word.substr(0, colon), gained);
  }
}

OperatorHistory parse_row(std::string_view row) {
  OperatorHistory history;
  size_t bar = row.find('|');
  std::string_view signature = row.substr(0, bar - 1);
  size_t space = signature.find(' ');  // without a space, there are only outputs
  auto variables = [](std::string_view list, std::vector<std::string_view>& to) {
    split(list, ',', [&](std::string_view variable) { to.push_back(variable); });
  };
  if (space != std::string_view::npos) variables(signature.substr(0, space), history.input_variables);
  variables(signature.substr(space == std::string_view::npos ? 0 : space + 1), history.output_variables);

  split(row.substr(bar + 1), '|', [&](std::string_view text) {
    OperatorHistory::Version version{};
    if (!history.versions.empty()) {
      version.inputs = history.versions.back().inputs;
      version.outputs = history.versions.back().outputs;
    }
    bool is_removal = false;
    split(text, ' ', [&](std::string_view word) {
      if (word.empty()) return;
      if (version.since == 0) {
        version.since = parse_digits(word);
      } else if (word == "removed") {
        is_removal = true;
      } else if (word == "withdrawn") {
        version.is_withdrawn = true;
      } else {
        parse_word(word, version);
      }
    });
    if (is_removal) {
      history.removed = version.since;
    } else {
      history.versions.push_back(std::move(version));
    }
  });
  return history;
}

using Histories = boost::unordered_flat_map<std::string_view, OperatorHistory>;

const Histories& histories() {
  static const Histories all = [] {
    Histories parsed;
    for (const auto& [name, row] : kRows) parsed.emplace(name, parse_row(row));
    return parsed;
  }();
  return all;
}

}  // namespace

TypeTraits traits_of(const ir::Type* type) {
  if (!type) return 0;
  switch (type->kind()) {
    case ir::TypeKind::Tensor: return kTensor | (type->dtype() == DType::Undefined ? 0 : bit(type->dtype()));
    case ir::TypeKind::Sequence: return kSequence | (traits_of(type->element()) & ~kTensor);
    case ir::TypeKind::Optional: return kOptional | (traits_of(type->element()) & ~(kTensor | kSequence));
    default: return 0;
  }
}

const OperatorHistory::Version* OperatorHistory::at(int64_t opset) const {
  if (removed && opset >= removed) return nullptr;
  const Version* found = nullptr;
  for (const Version& version : versions) {
    if (version.since <= opset) found = &version;
  }
  return found;
}

TypeTraits OperatorHistory::missing(std::string_view variable, int64_t opset) const {
  TypeTraits missing = 0;
  for (const Version& version : versions) {
    if (version.since <= opset) continue;
    for (const auto& [name, traits] : version.gained) {
      if (name == variable || (name == "*" && variable != "-")) missing |= traits;
    }
  }
  return missing;
}

const OperatorHistory* find_history(std::string_view domain, std::string_view op_type) {
  auto found = domain.empty() ? histories().find(op_type) : histories().find(ir::qualified_name(domain, op_type));
  return found == histories().end() ? nullptr : &found->second;
}

int64_t newest_opset(std::string_view domain) {
  if (domain.empty()) return 28;
  return domain == "ai.onnx.ml" ? 5 : 1;
}

}  // namespace anfora::onnx
