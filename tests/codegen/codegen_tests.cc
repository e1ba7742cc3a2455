// Descriptions of kernels and the loop IR that comes out, printed:
//
//     # test: a title
//     product avx2 rows=2 depth=768 stride=768 edge addends=row,tile activation=Relu
//     # function product_2(…) {
//     # …
//
// usage: codegen_tests [--bless] FOLDER
//   --bless rewrites what is expected
// What is printed is also verified, and becomes machine code.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "anfora/error.h"
#include "codegen/attention.h"
#include "codegen/depthwise.h"
#include "codegen/group.h"
#include "codegen/machine_code.h"
#include "codegen/product.h"
#include "codegen/strassen.h"

namespace anfora::codegen {
namespace {

namespace fs = std::filesystem;
using namespace kernels::generated;

Isa isa_named(std::string_view name) {
  for (const IsaDescription& isa : instruction_sets()) {
    if (isa.name == name) return isa.isa;
  }
  throw Error(ErrorCode::InvalidArgument, fmt::format("no instruction set '{}'", name));
}

Addend addend_named(std::string_view name) {
  return name == "row" ? Addend::Row : name == "tile" ? Addend::Tile : Addend::None;
}

std::string product_text(std::istringstream& words) {
  std::string isa;
  words >> isa;
  ProductCode code{.isa = isa_named(isa), .epilogue = {}};
  int64_t columns = 768;
  int rows = 0;
  AttributeSet attributes;
  for (std::string word; words >> word;) {
    const size_t equals = std::min(word.find('='), word.size());
    const std::string key = word.substr(0, equals), value = word.substr(std::min(equals + 1, word.size()));
    if (key == "rows")
      rows = std::stoi(value);
    else if (key == "columns")
      columns = std::stoll(value);
    else if (key == "depth")
      code.depth = code.block = code.a_stride = std::stoll(value);
    else if (key == "block")
      code.block = std::stoll(value);
    else if (key == "stride")
      code.a_stride = std::stoll(value);
    else if (key == "edge")
      code.has_edge = true;
    else if (key == "factors")
      code.factors = value == "bytes" ? Factors::Bytes : Factors::Halves;
    else if (key == "fetches")
      code.fetches_ahead = true;
    else if (key == "packed")
      code.has_packed_rows = true;
    else if (key == "windows")
      code.has_windows = code.has_open_sizes = true;
    else if (key == "zeros")
      code.has_column_zeros = code.has_zeros = true;
    else if (key == "bits")
      code.weights = value == "4" ? DType::I4 : DType::I8;
    else if (key == "scale_block")
      code.scale_block = std::stoll(value);
    else if (key == "columns_scaled")
      code.scale = Scale::Columns;
    else if (key == "scale")
      code.epilogue.scale = std::stof(value);
    else if (key == "addends") {
      const size_t comma = value.find(',');
      code.epilogue.addends = {addend_named(value.substr(0, comma)),
                               addend_named(value.substr(std::min(comma, value.size() - 1) + 1))};
    } else if (key == "activation")
      attributes = attributes.with("activation", value);
    else
      throw Error(ErrorCode::InvalidArgument, fmt::format("'{}' says nothing of a product", word));
  }
  if (!read_activation(attributes, code.epilogue)) throw Error(ErrorCode::InvalidArgument, "no such activation");
  code.tile = product_tile(code.isa, columns);
  const Function function = product_function(code, rows > 0 ? rows : code.tile.rows);
  verify(function, kernels::generated::describe(code.isa));
  compile({&function, 1}, code.isa);
  return to_string(function);
}

// f32, or what the last letter says: bool, i8, u8, i32 (word), i64 (long).
DType dtype_of(std::string_view item) {
  if (item.ends_with('w')) return DType::I32;
  if (item.ends_with('l')) return DType::I64;
  return item.ends_with('b') ? DType::Bool : item.ends_with('i') ? DType::I8 : item.ends_with('u') ? DType::U8 : DType::F32;
}

// group ISA varies=1[biuwl],0[biuwl],… outputs=NUMBER[r][biuwl],… | STATEMENT | …
std::string group_text(std::istringstream& words) {
  std::string isa, word;
  words >> isa;
  GroupCode code{.isa = isa_named(isa), .inputs = {}, .statements = {}, .outputs = {}};
  auto for_each_item = [](std::string list, auto f) {
    std::ranges::replace(list, ',', ' ');
    std::istringstream items(list.substr(list.find('=') + 1));
    for (std::string item; items >> item;) f(item);
  };
  words >> word;
  for_each_item(word, [&](const std::string& item) { code.inputs.push_back({item[0] == '1', dtype_of(item)}); });
  words >> word;
  for_each_item(word, [&](const std::string& item) {
    code.outputs.push_back({std::stoi(item), item.find('r') != std::string::npos, dtype_of(item)});
  });
  words >> word;
  std::string statements;
  std::getline(words, statements);
  constexpr std::string_view kSeparator = " | ";
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + kSeparator.size()) {
    end = statements.find(kSeparator, begin);
    code.statements.push_back(statements.substr(begin, end - begin));
  }
  const Function function = group_function(code).function;
  verify(function, kernels::generated::describe(code.isa));
  compile({&function, 1}, code.isa);
  return to_string(function);
}

// attention ISA KIND [rows=N] [bias=numbers|truths] [cap]
std::string attention_text(std::istringstream& words) {
  static constexpr std::string_view kKinds[] = {"pack", "scores_of_few", "bias", "probabilities", "scores", "values"};
  std::string isa, kind;
  words >> isa >> kind;
  constexpr int64_t kKeys = 64, kColumns = 32;
  AttentionCode code{.isa = isa_named(isa)};
  code.scores = product_tile(code.isa, kKeys), code.values = product_tile(code.isa, kColumns);
  const auto number = std::ranges::find(kKinds, kind) - std::begin(kKinds);
  if (number == std::ssize(kKinds)) throw Error(ErrorCode::InvalidArgument, fmt::format("attention has no '{}'", kind));
  AttentionEntry entry{static_cast<AttentionEntry::Kind>(number), 0};
  for (std::string word; words >> word;) {
    if (word.starts_with("rows="))
      entry.rows = std::stoi(word.substr(word.find('=') + 1));
    else if (word.starts_with("bias="))
      code.bias = word.ends_with("numbers") ? AttentionBias::Numbers : AttentionBias::Truths;
    else if (word == "cap")
      code.has_cap = true;
    else
      throw Error(ErrorCode::InvalidArgument, fmt::format("'{}' says nothing of attention", word));
  }
  const Function function = attention_function(code, entry);
  verify(function, kernels::generated::describe(code.isa));
  compile({&function, 1}, code.isa);
  return to_string(function);
}

// depthwise ISA pixels=N [edge]
std::string depthwise_text(std::istringstream& words) {
  std::string isa;
  words >> isa;
  DepthwiseCode code{.isa = isa_named(isa), .epilogue = {}, .expansion = {}};
  constexpr int64_t kChannels = 96;
  code.tile = product_tile(code.isa, kChannels);
  code.epilogue = {.addends = {Addend::Row, Addend::None}, .activation = Activation::Relu};
  int pixels = 0;
  for (std::string word; words >> word;) {
    if (word.starts_with("pixels="))
      pixels = std::stoi(word.substr(word.find('=') + 1));
    else if (word == "edge")
      code.has_edge = true;
    else
      throw Error(ErrorCode::InvalidArgument, fmt::format("'{}' says nothing of a depthwise convolution", word));
  }
  const Function function = depthwise_function(code, pixels);
  verify(function, kernels::generated::describe(code.isa));
  compile({&function, 1}, code.isa);
  return to_string(function);
}

// strassen ISA magnitudes|operands|finish|difference [rows=N]
std::string strassen_text(std::istringstream& words) {
  std::string isa, kind, word;
  words >> isa >> kind >> word;
  StrassenCode code{.isa = isa_named(isa), .epilogue = {.addends = {Addend::Row, Addend::None}, .activation = Activation::Relu}};
  constexpr int64_t kColumns = 96;
  code.tile = product_tile(code.isa, kColumns, 2);
  const StrassenEntries entries{code.tile.rows};
  const int rows = word.starts_with("rows=") ? std::stoi(word.substr(word.find('=') + 1)) : code.tile.rows;
  const std::pair<std::string_view, int> kinds[] = {
      {"magnitudes", entries.magnitudes()}, {"operands", entries.operands()}, {"finish", entries.finish()}, {"difference", entries.product_of_difference(rows)}};
  const auto found = std::ranges::find(kinds, kind, &std::pair<std::string_view, int>::first);
  if (found == std::end(kinds)) throw Error(ErrorCode::InvalidArgument, fmt::format("Strassen's algorithm has no '{}'", kind));
  const Function function = strassen_function(code, found->second);
  verify(function, kernels::generated::describe(code.isa));
  compile({&function, 1}, code.isa);
  return to_string(function);
}

std::string text_of(const std::string& description) {
  std::istringstream words(description);
  std::string kind;
  words >> kind;
  if (kind == "product") return product_text(words);
  if (kind == "group") return group_text(words);
  if (kind == "depthwise") return depthwise_text(words);
  if (kind == "strassen") return strassen_text(words);
  if (kind == "attention") return attention_text(words);
  throw Error(ErrorCode::InvalidArgument, fmt::format("no kernel is called '{}'", kind));
}

// The file with what comes out in the place of what is expected.
std::string rewritten(const fs::path& path) {
  std::ifstream file(path);
  std::string result;
  bool is_expected = false;
  for (std::string line; std::getline(file, line);) {
    const bool is_comment = line.starts_with('#');
    if (is_comment && is_expected && !line.starts_with("# test:")) continue;
    is_expected = false;
    result += line + '\n';
    if (is_comment || line.empty()) continue;
    std::istringstream text(text_of(line));
    for (std::string made; std::getline(text, made);) result += "# " + made + '\n';
    is_expected = true;
  }
  return result;
}

int run(int count, char** arguments) {
  const bool blesses = count > 2 && std::string_view(arguments[1]) == "--bless";
  int failures = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(arguments[count - 1])) {
    if (entry.path().extension() != ".txt") continue;
    std::stringstream content;
    content << std::ifstream(entry.path()).rdbuf();
    const std::string made = rewritten(entry.path());
    if (made == content.str()) continue;
    if (blesses) {
      std::ofstream(entry.path()) << made;
      continue;
    }
    ++failures;
    std::istringstream got(made), expected(content.str());
    std::string a, b;
    for (int line = 1; std::getline(got, a); ++line) {
      if (std::getline(expected, b) && a == b) continue;
      std::cout << fmt::format("{}:{}: {}\n  expected {}\n", entry.path().string(), line, a, b);
      break;
    }
  }
  return failures > 0 ? 1 : 0;
}

}  // namespace
}  // namespace anfora::codegen

int main(int count, char** arguments) try {
  if (count < 2) return 2;
  return anfora::codegen::run(count, arguments);
} catch (const anfora::Error& error) {
  std::cerr << error.message() << '\n';
  return 1;
}
