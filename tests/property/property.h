// What the property tests share: the tapes that they are about.
#pragma once

#include <rapidcheck.h>

#include "property/choices.h"

namespace anfora::property {

// RapidCheck's size runs from 0 to 100; a tape has up to this many times as many bytes.
inline constexpr double kBytesOfSize = 12;

inline rc::Gen<Tape> tapes() {
  return rc::gen::scale(kBytesOfSize, rc::gen::container<Tape>(rc::gen::inRange<uint8_t>(0, 255)));
}

}  // namespace anfora::property
