// Cast between any two dtypes without a loop for every pair of them.
//
// A block of elements goes through at most three short loops, each instantiated for a handful of types:
//
//   load into a hub type       i8 u8 i16 u16 and narrower, bool -> i32     u32 -> i64     narrow floats -> f32
//   cross to another hub type  among i32, i64, u64, f32, f64
//   store from a hub type      the reverse of load; bool
//
// A step whose two types are one is skipped: i32 -> f32 or u8 -> i32 is a single loop. Narrow floats are reached by
// way of f32. To round correctly (not twice) from a wider type, the crossing into f32 rounds *to odd*: an inexact
// result gets a 1 as its last bit, which tells the second rounding that it is not a tie.
#include "kernels/reference/cast.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "anfora/error.h"
#include "kernels/reference/arguments.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/families.h"
#include "kernels/reference/float_block.h"
#include "kernels/reference/view.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

constexpr int64_t kBlock = 1024;
using Hub = DType;  // I32, I64, U64, F32 or F64

// ---- single conversions ----

// Out of range is undefined in C++ and in ONNX; here it gives the lowest integer, as the x86 instruction does.
template <class Int, class Float>
Int truncated(Float x) {
  constexpr Float bound = -static_cast<Float>(std::numeric_limits<Int>::min());
  return x >= -bound && x < bound ? static_cast<Int>(x) : std::numeric_limits<Int>::min();
}

uint64_t truncated_unsigned(double x) {
  constexpr double half = 0x1p63;
  if (x >= half && x < 2 * half) return static_cast<uint64_t>(x - half) + (uint64_t{1} << 63);
  return static_cast<uint64_t>(truncated<int64_t>(x));  // negative numbers wrap
}

float rounded_to_odd(double x) {
  float nearest = static_cast<float>(x);
  double back = nearest;
  if (back == x || x != x) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(back) > std::fabs(x)) --bits;  // towards zero; from infinity to the largest finite number
  return std::bit_cast<float>(bits | 1);
}

// As above, in integers: what does not fit double's 53 bits is folded into the last bit that does.
double rounded_to_odd(uint64_t magnitude) {
  constexpr int kExcess = 11;
  constexpr uint64_t low = (uint64_t{1} << kExcess) - 1;
  if (magnitude >> 53 && (magnitude & low)) magnitude = (magnitude & ~low) | (uint64_t{1} << kExcess);
  return static_cast<double>(magnitude);
}
double rounded_to_odd(int64_t x) {
  return x < 0 ? -rounded_to_odd(uint64_t{0} - static_cast<uint64_t>(x)) : rounded_to_odd(static_cast<uint64_t>(x));
}

uint8_t scale_bits(float x, const CastOptions& options) {
  constexpr uint8_t nan = 0xff, largest = 0xfe;
  float magnitude = std::fabs(x);
  if (x != x) return nan;
  if (std::isinf(x)) return options.saturate ? largest : nan;
  if (magnitude == 0) return options.saturate ? 0 : nan;
  int exponent = std::ilogb(magnitude);
  float power = std::ldexp(1.0f, exponent);
  switch (options.scale_rounding) {
    case CastOptions::ScaleRounding::Up: exponent += magnitude > power; break;
    case CastOptions::ScaleRounding::Down: break;
    case CastOptions::ScaleRounding::Nearest: exponent += magnitude >= 1.5f * power; break;
  }
  constexpr int bias = 127;
  if (exponent > bias) return options.saturate ? largest : nan;
  if (exponent < -bias) return options.saturate ? 0 : nan;
  return static_cast<uint8_t>(exponent + bias);
}

// ---- loops ----

using Loop = void (*)(const void* in, void* out, int64_t n);

template <class From, class To, class Convert>
void loop(const void* in, void* out, int64_t n) {
  const From* x = static_cast<const From*>(in);
  To* y = static_cast<To*>(out);
  ANFORA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) y[i] = Convert{}.template operator()<To>(x[i]);
}

struct Plain {
  template <class To, class From>
  To operator()(From x) const {
    return static_cast<To>(x);
  }
};
struct Truncate {
  template <class To, class From>
  To operator()(From x) const {
    return truncated<To>(x);
  }
};
struct TruncateUnsigned {
  template <class To, class From>
  To operator()(From x) const {
    return truncated_unsigned(x);
  }
};
struct RoundToOdd {
  template <class To, class From>
  To operator()(From x) const {
    return rounded_to_odd(x);
  }
};
struct NotZero {
  template <class To, class From>
  To operator()(From x) const {
    return x != From{0};
  }
};

Hub load_hub(DType dtype) {
  if (is_narrow_float(dtype)) return DType::F32;
  switch (dtype) {
    case DType::F32:
    case DType::F64:
    case DType::I64:
    case DType::U64: return dtype;
    case DType::U32: return DType::I64;
    default: return DType::I32;
  }
}

Loop load_loop(DType dtype) {
  switch (dtype) {
    case DType::I8:
    case DType::I4:
    case DType::I2: return loop<int8_t, int32_t, Plain>;
    case DType::U8:
    case DType::U4:
    case DType::U2:
    case DType::Bool: return loop<uint8_t, int32_t, Plain>;
    case DType::I16: return loop<int16_t, int32_t, Plain>;
    case DType::U16: return loop<uint16_t, int32_t, Plain>;
    case DType::U32: return loop<uint32_t, int64_t, Plain>;
    default: throw_unsupported_dtype(dtype);
  }
}

constexpr int hub_pair(Hub from, Hub to) { return static_cast<int>(from) * kDTypeCount + static_cast<int>(to); }

Loop cross_loop(Hub from, Hub to) {
  using enum DType;
  switch (hub_pair(from, to)) {
    case hub_pair(I32, I64):
    case hub_pair(I32, U64): return loop<int32_t, int64_t, Plain>;
    case hub_pair(I32, F32): return loop<int32_t, float, Plain>;
    case hub_pair(I32, F64): return loop<int32_t, double, Plain>;
    case hub_pair(I64, I32):
    case hub_pair(U64, I32): return loop<int64_t, int32_t, Plain>;
    case hub_pair(I64, F32): return loop<int64_t, float, Plain>;
    case hub_pair(I64, F64): return loop<int64_t, double, Plain>;
    case hub_pair(U64, F32): return loop<uint64_t, float, Plain>;
    case hub_pair(U64, F64): return loop<uint64_t, double, Plain>;
    case hub_pair(F32, I32): return loop<float, int32_t, Truncate>;
    case hub_pair(F32, I64): return loop<float, int64_t, Truncate>;
    case hub_pair(F32, U64): return loop<float, uint64_t, TruncateUnsigned>;
    case hub_pair(F32, F64): return loop<float, double, Plain>;
    case hub_pair(F64, I32): return loop<double, int32_t, Truncate>;
    case hub_pair(F64, I64): return loop<double, int64_t, Truncate>;
    case hub_pair(F64, U64): return loop<double, uint64_t, TruncateUnsigned>;
    case hub_pair(F64, F32): return loop<double, float, Plain>;
    default: return nullptr;  // the same bits: equal types, or i64 and u64
  }
}

Loop store_loop(DType dtype) {
  switch (dtype) {
    case DType::I8:
    case DType::U8: return loop<int32_t, int8_t, Plain>;
    case DType::I16:
    case DType::U16: return loop<int32_t, int16_t, Plain>;
    case DType::U32: return loop<int64_t, int32_t, Plain>;
    case DType::I4: return loop<int32_t, Int4, Plain>;
    case DType::U4: return loop<int32_t, UInt4, Plain>;
    case DType::I2: return loop<int32_t, Int2, Plain>;
    case DType::U2: return loop<int32_t, UInt2, Plain>;
    default: throw_unsupported_dtype(dtype);
  }
}

Loop test_loop(Hub hub) {
  switch (hub) {
    case DType::I32: return loop<int32_t, bool, NotZero>;
    case DType::F32: return loop<float, bool, NotZero>;
    case DType::F64: return loop<double, bool, NotZero>;
    default: return loop<int64_t, bool, NotZero>;
  }
}

// ---- chains of steps ----

struct Step {
  enum class Kind : uint8_t { Run, LoadFloats, StoreFloats, StoreFloat8, StoreScale };
  Kind kind;
  Loop loop = nullptr;             // of Run
  DType dtype = DType::Undefined;  // of the narrow float otherwise

  void operator()(const void* in, void* out, int64_t n, const CastOptions& options) const {
    switch (kind) {
      case Kind::Run: return loop(in, out, n);
      case Kind::LoadFloats: return load_floats(dtype, in, static_cast<float*>(out), n);
      case Kind::StoreFloats: return store_floats(dtype, static_cast<const float*>(in), out, n);
      default: break;
    }
    const float* x = static_cast<const float*>(in);
    uint8_t* y = static_cast<uint8_t*>(out);
    for (int64_t i = 0; i < n; ++i) {
      y[i] = kind == Kind::StoreScale ? scale_bits(x[i], options) : float_to_narrow(dtype, x[i], options.saturate);
    }
  }
};

class Chain {
 public:
  Chain() = default;
  Chain(DType from, DType to) {
    Hub hub = load_hub(from);
    if (is_narrow_float(from)) {
      add({Step::Kind::LoadFloats, nullptr, from});
    } else if (hub != from) {
      add_loop(load_loop(from));
    }
    if (to == DType::Bool) {
      add_loop(test_loop(hub));
    } else if (is_narrow_float(to)) {
      if (hub == DType::I64) add_loop(loop<int64_t, double, RoundToOdd>);
      if (hub == DType::U64) add_loop(loop<uint64_t, double, RoundToOdd>);
      if (hub == DType::I32) add_loop(loop<int32_t, double, Plain>);
      if (hub != DType::F32) add_loop(loop<double, float, RoundToOdd>);
      add({store_kind(to), nullptr, to});
    } else {
      const Hub target = load_hub(to);
      add_loop(cross_loop(hub, target));
      if (target != to) add_loop(store_loop(to));
    }
  }

  // Without a step the bits are already right.
  bool empty() const { return count_ == 0; }

  void run(const void* in, void* out, int64_t n, const CastOptions& options) const {
    alignas(64) double buffers[2][kBlock];  // room for the widest hub type
    const void* from = in;
    for (size_t i = 0; i < count_; ++i) {
      void* to = i + 1 == count_ ? out : buffers[i % 2];
      steps_[i](from, to, n, options);
      from = to;
    }
  }

 private:
  static Step::Kind store_kind(DType to) {
    if (to == DType::F8E8M0) return Step::Kind::StoreScale;
    return element_bits(to) == 8 ? Step::Kind::StoreFloat8 : Step::Kind::StoreFloats;
  }
  void add(Step step) { steps_[count_++] = step; }
  void add_loop(Loop loop) {
    if (loop) add({Step::Kind::Run, loop});
  }

  std::array<Step, 4> steps_{};
  size_t count_ = 0;
};

// ---- strings ----

// The number that the whole text is, in ASCII, spaces around it allowed. INF and NaN are read in any case of letters.
template <class Number>
Number parse(std::string_view text) {
  auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  std::string_view rest = text;
  while (!rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
  while (!rest.empty() && is_space(rest.back())) rest.remove_suffix(1);
  if (!rest.empty() && rest.front() == '+') rest.remove_prefix(1);
  Number value{};
  auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (rest.empty() || end != rest.data() + rest.size() || error == std::errc::invalid_argument) {
    throw Error(ErrorCode::InvalidArgument, fmt::format("Cast: the string '{}' is not a number", text));
  }
  if (error == std::errc::result_out_of_range && std::is_floating_point_v<Number>) {
    return static_cast<Number>(
        std::strtod(std::string(rest).c_str(), nullptr));  // overflow to infinity, underflow to 0
  }
  return value;
}

void parse_strings(const std::string* in, DType to, void* out, int64_t n, const CastOptions& options) {
  const bool integer = is_integer(to) && to != DType::U64;
  std::byte* at = static_cast<std::byte*>(out);
  for (int64_t i = 0; i < n; ++i, at += element_bytes(to)) {
    const bool fraction = in[i].find_first_of(".eEnN") != std::string::npos;
    if (to == DType::U64 && !fraction) {
      uint64_t value = parse<uint64_t>(in[i]);
      std::memcpy(at, &value, sizeof(value));
    } else if (integer && !fraction) {
      int64_t value = parse<int64_t>(in[i]);
      cast_elements(DType::I64, &value, to, at, 1, options);
    } else {
      double value = parse<double>(in[i]);
      cast_elements(DType::F64, &value, to, at, 1, options);
    }
  }
}

// The shortest digits that read back as the same number.
template <class Float>
std::string to_text(Float x) {
  if (x != x) return "NaN";
  if (std::isinf(x)) return x > 0 ? "INF" : "-INF";
  char text[32];
  auto result = std::to_chars(text, text + sizeof(text), x);
  return {text, result.ptr};
}

void format_elements(DType from, const void* in, std::string* out, int64_t n) {
  const std::byte* at = static_cast<const std::byte*>(in);
  for (int64_t i = 0; i < n; ++i, at += element_bytes(from)) {
    if (from == DType::F64) {
      double x;
      std::memcpy(&x, at, sizeof(x));
      out[i] = to_text(x);
    } else if (is_float(from)) {
      float x;
      load_floats(from, at, &x, 1);
      out[i] = to_text(x);
    } else if (from == DType::U64) {
      uint64_t x;
      std::memcpy(&x, at, sizeof(x));
      out[i] = std::to_string(x);
    } else {
      int64_t x;
      cast_elements(from, at, DType::I64, &x, 1);
      out[i] = std::to_string(x);
    }
  }
}

// ---- kernels ----

CastOptions options_of(const AttributeSet& attributes) {
  CastOptions options;
  options.saturate = attributes.get_int("saturate", 1) != 0;
  const std::string_view mode = attributes.string("round_mode", "up");
  if (mode == "up")
    options.scale_rounding = CastOptions::ScaleRounding::Up;
  else if (mode == "down")
    options.scale_rounding = CastOptions::ScaleRounding::Down;
  else if (mode == "nearest")
    options.scale_rounding = CastOptions::ScaleRounding::Nearest;
  else
    throw Error(ErrorCode::InvalidModel, fmt::format("round_mode '{}' is not up, down or nearest", mode));
  return options;
}

DType target_dtype(const KernelContext& context) {
  context.attributes().require_int("to");
  return dtype_attribute(context.attributes(), "to", DType::Undefined);
}

void copy_elements(const Tensor& in, Tensor& out) {
  if (in.raw() == out.raw()) return;
  if (in.dtype() == DType::String) {
    std::ranges::copy(in.data<std::string>(), out.data<std::string>().begin());
    return;
  }
  constexpr int64_t kCopyGrain = 1 << 18;  // bytes; one thread copies this faster than a second one wakes up
  parallel_for(static_cast<int64_t>(in.bytes()), kCopyGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<std::byte*>(out.raw()) + begin, static_cast<const std::byte*>(in.raw()) + begin,
                static_cast<size_t>(end - begin));
  });
}

void cast(KernelContext& context) {
  const Tensor& in = context.input(0);
  cast_into(in, context.allocate_output(0, target_dtype(context), in.shape()), options_of(context.attributes()));
}

void cast_like(KernelContext& context) {
  const Tensor& in = context.input(0);
  Tensor& out = context.allocate_output(0, context.input(1).dtype(), in.shape());
  cast_into(in, out, options_of(context.attributes()));
}

void bit_cast(KernelContext& context) {
  const Tensor& in = context.input(0);
  const DType to = target_dtype(context);
  if (element_bits(to) != element_bits(in.dtype()) || element_bits(to) == 0) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("BitCast from {} to {}: the types have different widths", name(in.dtype()), name(to)));
  }
  Tensor& out = context.allocate_output(0, to, in.shape());
  const Tensor source = Tensor::view(to, in.shape(), const_cast<void*>(in.raw()), in.owner());
  copy_elements(source, out);
  if (to == DType::Bool) {  // any other byte than 0 and 1 is no bool to a compiler
    for (uint8_t& byte : out.data<uint8_t>()) byte = byte != 0;
  }
  // In memory a sub-byte element is extended to a byte: signed integers by their sign, all others by zeros.
  if (!is_sub_byte(to)) return;
  const int unused = 8 - element_bits(to);
  for (uint8_t& byte : out.data<uint8_t>()) {
    const uint8_t shifted = static_cast<uint8_t>(byte << unused);
    byte = is_signed_integer(to) ? static_cast<uint8_t>(static_cast<int8_t>(shifted) >> unused)
                                 : static_cast<uint8_t>(shifted >> unused);
  }
}

// A type is an empty tensor of it.
void cast_to(KernelContext& context) {
  const Tensor& in = context.input(0);
  cast_into(in, context.allocate_output(0, context.input(1).dtype(), in.shape()));
}
void type_of(KernelContext& context) { context.allocate_output(0, context.input(0).dtype(), Shape{0}); }

void identity(KernelContext& context) {
  const Datum& in = context.input_datum(0);
  if (!in.is_tensor()) return context.set_output(0, in);
  forward_or_copy(context, 0, in.tensor());
}

}  // namespace

void cast_elements(DType from, const void* in, DType to, void* out, int64_t n, const CastOptions& options) {
  if (from == DType::String && to == DType::String) {
    std::copy_n(static_cast<const std::string*>(in), n, static_cast<std::string*>(out));
  } else if (from == DType::String) {
    parse_strings(static_cast<const std::string*>(in), to, out, n, options);
  } else if (to == DType::String) {
    format_elements(from, in, static_cast<std::string*>(out), n);
  } else {
    if (is_complex(from) || is_complex(to)) throw_unsupported_dtype(is_complex(from) ? from : to);
    const std::byte* source = static_cast<const std::byte*>(in);
    std::byte* target = static_cast<std::byte*>(out);
    const size_t step_in = element_bytes(from), step_out = element_bytes(to);
    const Chain chain = from == to ? Chain() : Chain(from, to);
    if (chain.empty()) {
      if (in != out) std::memcpy(out, in, static_cast<size_t>(n) * step_in);
      return;
    }
    for (int64_t at = 0; at < n; at += kBlock) {
      const size_t offset = static_cast<size_t>(at);
      chain.run(source + offset * step_in, target + offset * step_out, std::min(kBlock, n - at), options);
    }
  }
}

void cast_into(const Tensor& in, Tensor& out, const CastOptions& options) {
  const std::byte* source = static_cast<const std::byte*>(in.raw());
  std::byte* target = static_cast<std::byte*>(out.raw());
  parallel_for(in.size(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    cast_elements(in.dtype(), source + static_cast<size_t>(begin) * element_bytes(in.dtype()), out.dtype(),
                  target + static_cast<size_t>(begin) * element_bytes(out.dtype()), end - begin, options);
  });
}

Tensor cast_tensor(const Tensor& in, DType to) {
  if (in.dtype() == to) return in;
  Tensor out = Tensor::allocate(to, in.shape());
  cast_into(in, out);
  return out;
}

Tensor cast_tensor(KernelContext& context, const Tensor& in, DType to) {
  if (in.dtype() == to) return in;
  Tensor out = context.temporary(to, in.shape());
  cast_into(in, out);
  return out;
}

void register_cast(KernelRegistry& registry) {
  registry.add("Cast", cast);
  registry.add("CastLike", cast_like);
  registry.add("BitCast", bit_cast);
  registry.add("CastTo", cast_to);
  registry.add("TypeOf", type_of);
  registry.add("Identity", identity);
}

}  // namespace anfora::kernels
