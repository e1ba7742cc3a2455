// Which rewrite changed the result: the optimizer is watched pass by pass, each executed before and after on the same inputs.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "driver/inputs.h"
#include "ir/module.h"
#include "pipeline/pipeline.h"

namespace anfora::driver {

struct Finding {
  std::string pass;
  std::string rule;     // the first whose rewrite changes the result; empty: the pass does not rewrite by rules
  std::string node;     // what it rewrote
  std::string message;  // which output differs, and by how much
  std::unique_ptr<ir::Module> before;  // what the pass was given, typed
};

struct AuditOptions {
  int runs = 2;                   // random inputs for each pass, and one of edge values
  RandomInputs inputs = {};       // made up like this
  runtime::NamedData given = {};  // or these
};

// Whether a pass leaves the results of a module as they are: bit for bit under --math exact, else as two models agree
// (agreement.h). Inputs that the module itself refuses are passed over.
std::optional<Finding> audit_pass(const passes::Pass& pass, const ir::Module& before,
                                  const passes::PassOptions& options, const AuditOptions& audit = {});

// Optimizes the module while every pass that changes it is audited; stops at the first finding, with the module as it was
// before that pass.
std::optional<Finding> optimize_audited(ir::Module& module, const pipeline::OptimizeOptions& options,
                                        pipeline::OptimizeReport& report, const AuditOptions& audit = {});

// The smallest module on which the pass still changes the result.
std::unique_ptr<ir::Module> reduce_finding(const Finding& finding, const passes::PassOptions& options,
                                           const AuditOptions& audit = {});

}  // namespace anfora::driver
