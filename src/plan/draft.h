// A function on its way from the IR to the machine: a straight list of steps over values, each of which is written once.
// Lowering (lower.h) makes it, memory planning (memory.h) says where values live, emission (emit.h) turns values into
// slots.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/module.h"
#include "runtime/program.h"

namespace anfora::plan {

using runtime::Opcode;
using runtime::Operand;
using Value = uint32_t;

struct Step {
  Opcode opcode = Opcode::Return;
  bool tail = false;
  uint32_t target = 0, otherwise = 0;  // as in runtime::Instruction
  uint32_t split = 0;
  std::vector<Operand> operands;  // values (≥ 0), or constants of the program as in runtime::Operand
  Value first_result = 0;
  uint32_t num_results = 0;
  const ir::Apply* node = nullptr;  // what it is a part of
};

struct Draft {
  const ir::Graph* graph = nullptr;
  uint32_t num_arguments = 0;                // values 0 … n−1: the parameters, then the captured values
  std::vector<const ir::Type*> value_types;  // by value; null: not known
  std::vector<Step> steps;

  bool is_tensor(Value v) const { return value_types[v] && value_types[v]->is_tensor(); }
  // Whether output 0 is a view on operand 0.
  bool is_view(const Step& step) const;
  // By value, what it is a view on, by way of other views too; what is no view is itself.
  static constexpr Value kConstant = UINT32_MAX;
  std::vector<Value> viewed() const;

  // By value, the step that writes it and the last that reads it (its writer when nobody does). An argument counts as
  // written by step 0.
  struct Lifetimes {
    std::vector<uint32_t> written, last_read;
  };
  Lifetimes lifetimes() const;
};

}  // namespace anfora::plan
