// What the machine executes: functions of instructions over numbered slots. The compiler (src/plan) makes it; nothing
// here knows the IR.
//
// A slot holds one Datum at a time. A function's arguments arrive in slots 0 … n−1: its parameters, then the values that
// it captured. Each instruction reads operands (slots or constants), writes its results to consecutive slots, and then
// releases the slots that nobody reads any more.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/prepared.h"
#include "runtime/memory_layout.h"
#include "runtime/size_expression.h"

namespace anfora::runtime {

// A slot (≥ 0) or constant −1 − value (< 0) of the program.
using Operand = int32_t;
inline Operand constant_operand(size_t constant) { return -1 - static_cast<Operand>(constant); }

enum class Opcode : uint8_t {
  Kernel,       // results = kernels[target](operands)
  MakeClosure,  // result = function `target` with the operands captured
  Select,       // result = operand 0 ? operand 1 : operand 2
  MakeTuple,    // result = (operands)
  GetItem,      // result = operand 0 [target]
  Call,         // results = functions[target](operands)
  CallEither,   // operand 0 ? functions[target](the next `split` operands) : functions[otherwise](the rest)
  CallClosure,  // results = operand 0 (the other operands, then what it captured)
  Return,       // the operands: the items of a tuple, unless it has one, else one value
  Fail,         // ends the run by the error failures[target]
};

struct Instruction {
  Opcode opcode = Opcode::Return;
  bool tail = false;  // a call whose result the function returns: it takes over the frame
  uint32_t target = 0, otherwise = 0;
  uint32_t split = 0;
  uint32_t first_operand = 0, num_operands = 0;  // in Function::operands
  uint32_t first_release = 0, num_releases = 0;  // in Function::releases
  uint32_t result = 0, num_results = 1;          // slots
  uint32_t first_output = 0;                     // of a kernel: in Function::output_buffers
  uint32_t workspace = 0;                        // of a kernel: in Function::buffers
};

// Where an instruction came from, for errors and profiles.
struct Origin {
  std::string node;      // "Conv 'layer1.conv'"
  std::string location;  // "model.onnx: node 17"
};

// One application of an operator, ready to run: what is known of it, and what runs it.
struct Kernel : kernels::KernelData {
  std::unique_ptr<kernels::PreparedKernel> prepared;  // refers to the data
  kernels::KernelFunction reference = nullptr;        // when there is no prepared one
  std::string reference_name;                         // by which it is found in a registry
  // Operands whose memory output 0 may take over if, when it comes to run, nobody else holds it.
  std::vector<uint8_t> reusable;
  // Of a group: floating point operations for each element of what its inputs broadcast to.
  double flops_per_element = 0;

  bool is_missing() const { return !prepared && !reference; }
  // Whether rows of an output may lie apart, and those of an input.
  bool writes_rows_apart(size_t i) const { return prepared ? prepared->writes_rows_apart(i) : i == 0 && reference_rows().of_output; }
  bool reads_rows_apart(size_t i) const { return prepared ? prepared->reads_rows_apart(i) : reference_rows().of_inputs; }
  kernels::RowsApart reference_rows() const {
    const kernels::KernelRegistry& known = kernels::reference_kernels();
    return reference && reference == known.find(reference_name) ? known.rows_apart(reference_name) : kernels::RowsApart();
  }
  bool is_prepared_by_name() const { return implementation != "reference" && implementation != "none"; }
};

// How the value of a function's symbol is found when the function is entered.
struct SymbolSource {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t main_symbol = kNone;  // the same symbol of the main function, else …
  uint32_t argument = kNone;     // … solved from a dimension of an argument: size = scale · symbol + offset
  uint32_t axis = 0;
  int64_t scale = 1, offset = 0;
};

// What a kernel writes, and others read, as a part of a larger tensor: of what a Concat makes, or of what a Slice takes it from. The buffer is the larger one's.
struct Slice {
  uint32_t output = 0;  // in Function::output_buffers
  int64_t offset = 0;   // bytes from the begin of the buffer
  int64_t row_bytes = 0, distance = 0;  // of its rows, and from one to the next
};

// What a kernel writes to the memory of an argument, which the caller has given away.
struct DonatedOutput {
  uint32_t output = 0;  // in Function::output_buffers
  uint32_t argument = 0;
};

struct Function {
  std::string name;
  uint32_t num_arguments = 0;
  uint32_t num_slots = 0;
  std::vector<Instruction> code;
  std::vector<Origin> origins;  // by instruction
  std::vector<Operand> operands;
  std::unique_ptr<bool[]> last_uses;  // by operand: nobody reads its slot after this; std::vector<bool> has no spans
  std::vector<uint32_t> releases;

  std::vector<SymbolSource> symbols;
  std::vector<Buffer> buffers;
  static constexpr uint32_t kNoBuffer = UINT32_MAX;
  static constexpr uint32_t kSharesInput = UINT32_MAX - 1;
  // By kernel output: its buffer, kNoBuffer when the kernel allocates, kSharesInput when it is a view on an input.
  std::vector<uint32_t> output_buffers;
  std::vector<Slice> slices;
  // By operand: the output that it is, of which the rows may lie apart, or kNoOutput; empty when there are none.
  std::vector<uint32_t> operand_slices;
  std::vector<CarriedValue> carried;
  std::vector<uint32_t> output_carried;  // by kernel output: which one it is, or kNoBuffer; empty when there are none
  // By result: the kernel output, in output_buffers, that may lie where the caller wants the result; else kNoOutput. Empty
  // when a tail call returns in the function's stead.
  static constexpr uint32_t kNoOutput = UINT32_MAX;
  std::vector<uint32_t> result_outputs;
  // Of the main function: outputs of kernels that lie in the memory of arguments, and by result the argument in whose memory it is, or
  // kNoArgument; empty when there are none.
  std::vector<DonatedOutput> donated;
  static constexpr uint32_t kNoArgument = UINT32_MAX;
  std::vector<uint32_t> result_arguments;
};

struct Program {
  std::vector<Function> functions;
  uint32_t main = 0;
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<Datum> constants;
  std::vector<std::string> failures;
  size_t constant_bytes = 0;  // of distinct tensors
  bool draws = false;         // some operator reads the random state
};

// A function together with the values that it captured.
struct Closure : Datum::Function {
  uint32_t function = 0;
  std::vector<Datum> captures;
};

}  // namespace anfora::runtime
