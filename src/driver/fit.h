// Made-up inputs that a model accepts.
//
// Few models take every size of their symbolic dimensions and every integer: skip connections want multiples of 32, a recognizer
// of text the height 48, a detector of speech the sampling rate 16000. Sizes and integers that fit are searched, by what the
// model itself says:
//
//     before the first try   integers that are indices of a Gather lie within its operand, what is compared with constants is
//                            one of them, a vector that is compared with positions is a length
//     inference              sizes are put in and types are inferred: milliseconds, and most sizes that do not fit show
//     a run                  shows the rest
//     after a failure        the node that failed depends on some of the inputs; their sizes and integers are changed, first to
//                            numbers in its message and sizes of constants near it, then to common ones
//
// A change is kept when inference, or the run, comes further (hill climbing, greedy, in a fixed order: the same each time). Small
// sizes come first, so that what fits is cheap to run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "driver/inputs.h"
#include "driver/model.h"
#include "ir/module.h"
#include "runtime/executable.h"

namespace anfora::driver {

struct Fit {
  RandomInputs inputs;
  bool fits = false;
  std::string failure;  // where it does not: what the furthest try ended with
  // What was found and is not the default: "height=320, width=320"; where nothing fits, options to try: "--dim height=320 …".
  std::string found, suggestion;
  std::vector<Datum> outputs = {};  // of random_inputs() with these
};

// `executable` is `module` compiled, whose types are inferred. Sizes that `given` names are kept. Throws Unsupported where no
// input can help.
Fit fit_inputs(const ir::Module& module, runtime::Executable& executable, const RandomInputs& given = {});

// The made-up inputs of a model that was used up by compiling it: `plain` where it runs on them, else what a search finds in the
// model, which `reload` gives again. Throws InvalidArgument where nothing fits.
std::vector<Datum> fitting_inputs(runtime::Executable& executable, std::vector<Datum> plain, const RandomInputs& given,
                                  const std::function<LoadedModel()>& reload);

}  // namespace anfora::driver
