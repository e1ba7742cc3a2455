// Everything that the text form can hold, whether it makes sense or not: names that nobody would choose, constants of
// all dtypes and any bits, attributes of all kinds, all types, metadata, locations, dead nodes, broken references.
#pragma once

#include <string>

#include "ir/module.h"
#include "property/choices.h"

namespace anfora::property {

std::string random_string(Choices& choices);
ir::Dim random_dim(ir::Context& context, Choices& choices);
const ir::Type* random_type(ir::Context& context, Choices& choices);
Tensor random_bits(Choices& choices);
AttributeSet random_attributes(Choices& choices);

// Adds such things to a module. It no longer runs.
void add_oddities(ir::Module& module, Choices& choices);

}  // namespace anfora::property
