// What the functions of a program share while it is made: numbers of functions and constants, and kernels.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <memory>
#include <optional>
#include <span>

#include "ir/order.h"
#include "kernels/packed_copies.h"
#include "plan/compile.h"

namespace anfora::plan {

class ProgramBuilder {
 public:
  // `used_up`: the module, when its constants may be given back.
  ProgramBuilder(const ir::Module& module, ir::Module* used_up, const CompileOptions& options);

  const ir::ModuleOrder& order() const { return order_; }
  uint32_t function_index(const ir::Graph* graph) const;
  std::span<ir::Node* const> captures(const ir::Graph* graph) const { return free_variables_.of(graph); }

  // A tensor or None.
  runtime::Operand constant(const ir::Value& value);
  // A function that captures nothing.
  runtime::Operand constant_closure(const ir::Graph* graph);
  // Bytes of the constants that kernels may pack: operands behind the first. Tables that rows are gathered from come first.
  size_t packable_bytes() const;
  // Prepares the kernels with large weights, the largest first: while a weight is packed there are two of it, which counts
  // least where little else has been packed.
  void add_large_kernels();
  // Chooses the kernel of an application, unless that was done, and returns its number.
  uint32_t add_kernel(const ir::Apply& node);
  // The number of the kernel of a group, where one is generated; else it is a call.
  std::optional<uint32_t> group_kernel(const ir::Apply& node) const;
  // Computes the constants that kernels have no copies of.
  void settle_constants();
  // The number of an error that a run may end by.
  uint32_t add_failure(std::string_view reason);

  std::unique_ptr<runtime::Program> program;

 private:
  std::unique_ptr<runtime::Kernel> make_kernel(const ir::Apply& node) const;
  std::unique_ptr<runtime::Kernel> make_group_kernel(const ir::Apply& node, const ir::Graph& function) const;
  void choose_kernel(const ir::Apply& node, runtime::Kernel& kernel) const;
  bool prepare(const ir::Apply& node, size_t first_operand, runtime::Kernel& kernel) const;
  bool prepare(std::span<const kernels::PreparedRegistry* const> registries, runtime::Kernel& kernel) const;
  void look_ahead() const;
  void add_groups();
  void release_packed(const ir::Apply& node, runtime::Kernel& kernel);

  ir::Module* used_up_;
  const CompileOptions& options_;
  ir::ModuleOrder order_;
  boost::unordered_flat_set<const ir::Node*> concatenated_;  // along the last axis
  ir::FreeVariables free_variables_;
  boost::unordered_flat_map<const ir::Graph*, uint32_t> function_index_;
  boost::unordered_flat_map<const ir::Node*, runtime::Operand> constants_;
  boost::unordered_flat_map<const ir::Node*, uint32_t> kernels_;    // by application
  boost::unordered_flat_map<const ir::Node*, uint32_t> groups_;     // kernels of groups, by application
  kernels::PackedCopies copies_;
  boost::unordered_flat_map<const ir::Node*, size_t> packed_uses_;  // of constants: by kernels that have copies
};

}  // namespace anfora::plan
