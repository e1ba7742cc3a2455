// What the tables behind operands.h are made of: each file of operands_*.cc has one for a family of operators.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rules/operands.h"

namespace anfora::rules {

using Ints = std::vector<int64_t>;

struct OperandEntry {
  std::string_view op;
  bool (*choose)(Application&);  // false: no operands give such a result
};

// From the result back.
std::span<const OperandEntry> moving_operands();
std::span<const OperandEntry> product_operands();
std::span<const OperandEntry> element_operands();
bool choose_reduced(Application& application);      // operators of the family Reduce…
bool choose_elementwise(Application& application);  // of one of the broadcasting kinds
// From the operands on, whatever the result may be.
std::span<const OperandEntry> layer_operands();
std::span<const OperandEntry> indexed_operands();

// A text attribute, else its default, else "".
std::string get_text(const Application& application, std::string_view name);
void set_values(Want& want, Ints values);
void set_scalar(Want& want, int64_t value);
void make_scalars(Application& application, std::initializer_list<size_t> operands);
void leave_out(Application& application, std::initializer_list<size_t> operands);

// In [0, rank); empty: out of range.
std::optional<int> resolve(int64_t axis, int rank);
int64_t maybe_negative(Draw& draw, int64_t axis, int rank);

Ints shuffled(Draw& draw, size_t size);  // 0, 1, … in any order
Ints random_subset(Draw& draw, int size, size_t chance);
Ints divisors(int64_t n);
int64_t some(Draw& draw);  // a small extent that is not 0

}  // namespace anfora::rules
