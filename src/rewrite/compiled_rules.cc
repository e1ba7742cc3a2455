#include "rewrite/compiled_rules.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <optional>
#include <utility>
#include <variant>

#include "anfora/error.h"
#include "rewrite/expression.h"

namespace anfora::rewrite {

using namespace ir;

namespace {

template <class T, class Part>
concept Is = std::same_as<std::remove_const_t<T>, Part>;

// What is stored of each part; `archive` writes or reads it.
void fields(auto& archive, Is<Expression> auto& e) { archive(e.kind, e.literal, e.slot, e.function, e.operands); }
void fields(auto& archive, Is<AttributeTerm> auto& a) { archive(a.name, a.binds, a.value, a.optional); }
void fields(auto& archive, Is<Term> auto& t) {
  archive(t.kind, t.repeated, t.optional, t.slot, t.in_list, t.number, t.approximate, t.index, t.inside, t.operators,
          t.operator_slot, t.flattened, t.any_results, t.attributes, t.rest, t.is_of_group, t.num_results, t.operands,
          t.value);
}
void fields(auto& archive, Is<SlotCounts> auto& s) {
  archive(s.nodes, s.lists, s.quantities, s.operators, s.attribute_sets);
}
void fields(auto& archive, Is<Equation::Replaced> auto& r) { archive(r.slot, r.result); }
void fields(auto& archive, Is<Equation::Beside> auto& b) { archive(b.term, b.through); }
void fields(auto& archive, Is<Equation::Group> auto& g) {
  archive(g.through, g.depth, g.lists, g.keys, g.condition);
}
void fields(auto& archive, Is<Equation> auto& e) {
  archive(e.name, e.theme, e.place, e.doc, e.text, e.on_floats, e.on_others, e.must_pay, e.is_accurate, e.moves_kinks,
          e.takes_numbers, e.sharpens, e.order, e.slots, e.variables, e.pattern, e.results, e.also, e.beside, e.group,
          e.guard, e.guard_text);
}

// The quantities that a text has.
using LiteralQuantity = std::variant<NotKnown, bool, int64_t, double, std::string, std::vector<int64_t>>;

template <class T>
size_t place_in(std::vector<T>& table, T entry) {
  const auto known = std::ranges::find(table, entry);
  if (known != table.end()) return static_cast<size_t>(known - table.begin());
  table.push_back(entry);
  return table.size() - 1;
}

class RuleWriter {
 public:
  RuleWriter(std::vector<const Operator*>& operators, std::vector<const Function*>& functions)
      : operators_(operators), functions_(functions) {}

  void operator()(const auto&... parts) { (put(parts), ...); }
  const std::string& bytes() const { return bytes_; }

 private:
  void put_number(uint64_t n) {
    for (; n >= 0x80; n >>= 7) bytes_ += static_cast<char>(n | 0x80);
    bytes_ += static_cast<char>(n);
  }
  template <class T>
  void put(const T& part) {
    if constexpr (std::is_enum_v<T> || std::unsigned_integral<T>) {
      put_number(static_cast<uint64_t>(part));
    } else if constexpr (std::signed_integral<T>) {  // small ones of either sign are short
      put_number((static_cast<uint64_t>(part) << 1) ^ static_cast<uint64_t>(static_cast<int64_t>(part) >> 63));
    } else if constexpr (std::same_as<T, double>) {
      put_number(std::rotl(std::bit_cast<uint64_t>(part), 12));
    } else {
      fields(*this, part);
    }
  }
  void put(NotKnown) {}
  void put(std::string_view text) {
    put_number(text.size());
    bytes_ += text;
  }
  void put(const std::string& text) { put(std::string_view(text)); }
  void put(const Operator* op) { put_number(place_in(operators_, op)); }
  void put(const Function* function) { put_number(place_in(functions_, function)); }
  void put(const Quantity& quantity) {
    std::visit(
        [&](const auto& value) {
          if constexpr (std::constructible_from<LiteralQuantity, std::in_place_type_t<std::decay_t<decltype(value)>>>) {
            const LiteralQuantity literal(value);
            put_number(literal.index());
            put(value);
          } else {
            throw Error(ErrorCode::Internal, "a rule has a literal that no text has");
          }
        },
        quantity);
  }
  template <class T>
  void put(const std::vector<T>& list) {
    put_number(list.size());
    for (const T& part : list) put(part);
  }
  template <class T>
  void put(const std::optional<T>& part) {
    put(part.has_value());
    if (part) put(*part);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& pair) {
    put(pair.first);
    put(pair.second);
  }

  std::string bytes_;
  std::vector<const Operator*>& operators_;
  std::vector<const Function*>& functions_;
};

class RuleReader {
 public:
  RuleReader(std::string_view bytes, std::span<const Operator* const> operators,
             std::span<const Function* const> functions)
      : at_(bytes.data()), operators_(operators), functions_(functions) {}

  void operator()(auto&... parts) { (get(parts), ...); }
  template <class T>
  T next() {
    T part{};
    get(part);
    return part;
  }
  std::string_view bytes(size_t count) { return {std::exchange(at_, at_ + count), count}; }
  void set_tables(std::span<const Operator* const> operators, std::span<const Function* const> functions) {
    operators_ = operators, functions_ = functions;
  }

 private:
  uint64_t number() {
    uint64_t n = 0;
    int shift = 0;
    for (; (*at_ & 0x80) != 0; ++at_, shift += 7) n |= static_cast<uint64_t>(*at_ & 0x7f) << shift;
    return n | static_cast<uint64_t>(static_cast<unsigned char>(*at_++)) << shift;
  }
  template <class T>
  void get(T& part) {
    if constexpr (std::is_enum_v<T> || std::unsigned_integral<T>) {
      part = static_cast<T>(number());
    } else if constexpr (std::signed_integral<T>) {
      const uint64_t n = number();
      part = static_cast<T>(static_cast<int64_t>(n >> 1) ^ -static_cast<int64_t>(n & 1));
    } else if constexpr (std::same_as<T, double>) {
      part = std::bit_cast<double>(std::rotr(number(), 12));
    } else {
      fields(*this, part);
    }
  }
  void get(NotKnown&) {}
  void get(std::string_view& text) { text = bytes(number()); }
  void get(std::string& text) { text = bytes(number()); }
  void get(const Operator*& op) { op = operators_[number()]; }
  void get(const Function*& function) { function = functions_[number()]; }
  void get(Quantity& quantity) {
    const uint64_t kind = number();
    [&]<size_t... I>(std::index_sequence<I...>) {
      ((kind == I ? void(quantity = next<std::variant_alternative_t<I, LiteralQuantity>>()) : void()), ...);
    }(std::make_index_sequence<std::variant_size_v<LiteralQuantity>>());
  }
  template <class T>
  void get(std::vector<T>& list) {
    list.resize(number());
    for (T& part : list) get(part);
  }
  template <class T>
  void get(std::optional<T>& part) {
    if (next<bool>()) get(part.emplace());
  }
  template <class A, class B>
  void get(std::pair<A, B>& pair) {
    get(pair.first);
    get(pair.second);
  }

  const char* at_;
  std::span<const Operator* const> operators_;
  std::span<const Function* const> functions_;
};

using ClassList = std::vector<std::pair<std::string, std::vector<const Operator*>>>;
using WeightList = std::vector<std::pair<const Operator*, int>>;

}  // namespace

RuleSet::Compiled compile_rules(const std::deque<Equation>& equations, const OperatorClasses& classes,
                                const OperatorWeights& weights, const DiscriminationTree& tree) {
  std::vector<const Operator*> operators;
  std::vector<const Function*> functions{nullptr};
  RuleWriter entries(operators, functions), body(operators, functions), tables(operators, functions);
  for (const Equation& equation : equations) {
    const size_t before = body.bytes().size();
    body(equation);
    entries(equation.name, equation.theme, equation.moves_kinks, body.bytes().size() - before);
  }
  ClassList class_list(classes.begin(), classes.end());
  std::ranges::sort(class_list, {}, &ClassList::value_type::first);
  WeightList weight_list(weights.begin(), weights.end());
  std::ranges::sort(weight_list, {}, [](const auto& weight) { return weight.first->qualified; });
  tables(class_list, weight_list, equations.size());
  auto number = [&](const Operator* op) { return static_cast<uint32_t>(place_in(operators, op)); };
  RuleSet::Compiled written{.bytes = {}, .tree = tree.flattened(number)};
  std::vector<std::string_view> operator_names, function_names;
  for (const Operator* op : operators) operator_names.push_back(op->qualified);
  for (const Function* function : functions) function_names.push_back(function ? function->name : "");
  RuleWriter names(operators, functions);
  names(operator_names, function_names);
  written.bytes = names.bytes() + tables.bytes() + entries.bytes() + body.bytes();
  return written;
}

CompiledRules::CompiledRules(const OperatorTable& operators, RuleData data) {
  RuleReader reader(data.bytes, {}, {});
  for (std::string_view name : reader.next<std::vector<std::string_view>>()) operators_.push_back(operators.find(name));
  for (std::string_view name : reader.next<std::vector<std::string_view>>()) functions_.push_back(find_function(name));
  reader.set_tables(operators_, functions_);
  const auto classes = reader.next<ClassList>();
  classes_.insert(classes.begin(), classes.end());
  const auto weights = reader.next<WeightList>();
  weights_.insert(weights.begin(), weights.end());
  entries_.resize(reader.next<size_t>());
  std::vector<size_t> lengths;
  for (Entry& entry : entries_) {
    reader(entry.name, entry.theme, entry.moves_kinks);
    lengths.push_back(reader.next<size_t>());
  }
  for (size_t i = 0; i < entries_.size(); ++i) entries_[i].bytes = reader.bytes(lengths[i]);
  equations_ = std::make_unique<Lazy[]>(entries_.size());
  tree_ = std::make_unique<FlatTree>(data.tree, operators_);
}

const Equation& CompiledRules::equation(uint32_t i) const {
  Lazy& lazy = equations_[i];
  std::call_once(lazy.once, [&] {
    lazy.equation = std::make_unique<const Equation>(RuleReader(entries_[i].bytes, operators_, functions_).next<Equation>());
  });
  return *lazy.equation;
}

}  // namespace anfora::rewrite
