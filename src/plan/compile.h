// From a verified, typed module to something that runs.
//
//   1. closure conversion   the free variables of each graph become arguments of its function
//   2. lowering             each graph, in an order that needs little memory (analysis/schedule.h), to a straight list of steps;
//                           `call Switch(c, f, g)()` becomes one instruction without a closure
//   3. kernels              one for each application: a prepared one where it applies, else the reference kernel
//   4. memory               views, in-place results, an arena for what stays inside a function (memory.h)
//   5. emission             values to slots, released right after their last use
//
// Constants are not copied: the executable shares them with the module and keeps their memory alive; it needs neither
// the module nor the context afterwards. Kernels that pack weights have copies, though. A module that is moved in gives each
// weight back once it is packed, so that there are never two of all.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/module.h"
#include "kernels/prepared.h"
#include "runtime/executable.h"

namespace anfora::plan {

// Names of implementations, the one to try first first.
using KernelChoice = std::function<std::vector<std::string>(const kernels::KernelData&)>;

struct CompileOptions {
  int threads = 0;  // 0: one a CPU
  // Kernels of one's own, by the operator's kernel name; they come before the reference kernels.
  const kernels::KernelRegistry* kernels = nullptr;
  // Only reference kernels: the slow and simple way, to compare with.
  bool reference_only = false;
  // Prepared kernels of one's own, before those of oneDNN.
  std::vector<const kernels::PreparedRegistry*> prepared;
  // The implementations to try first for an application that describe_kernels() lists, by name; called by several threads at once. Where
  // none of them applies, the first of the registries does that expects to be fast.
  KernelChoice choice = {};
  // Given a preparation of each kernel by `prepared`, before the first is prepared to be used: may run them to see what several will ask for, and make it at once.
  void (*look_ahead)(std::span<const std::function<void()>> preparations) = nullptr;
};

// The registries that applications find their prepared kernels in, in the order in which they are tried.
std::vector<const kernels::PreparedRegistry*> registries(const CompileOptions& options);
// What prepared kernels are told of each application that a run may reach, in no particular order.
std::vector<kernels::KernelData> describe_kernels(const ir::Module& module);

// Operators without a kernel are no error here but when they are run; Executable::missing_kernels() lists them.
runtime::Executable compile(const ir::Module& module, const CompileOptions& options = {});
runtime::Executable compile(ir::Module&& module, const CompileOptions& options = {});

}  // namespace anfora::plan
