#include "rules/draw.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/element_types.h"

namespace anfora::rules {
namespace {

// Of the numbers of a floating type, by its precision and exponents: in f16 the smallest of f32 is just another zero.
double special_float(DType dtype, bool finite_only, Draw& draw) {
  struct Limits {
    double largest, smallest_normal, smallest;
  };
  Limits limits = dtype == DType::F16    ? Limits{65504, 0x1p-14, 0x1p-24}
                  : dtype == DType::BF16 ? Limits{0x1.fep127, 0x1p-126, 0x1p-133}
                  : dtype == DType::F64  ? Limits{std::numeric_limits<double>::max(), 0x1p-1022, 0x1p-1074}
                                         : Limits{std::numeric_limits<float>::max(), 0x1p-126, 0x1p-149};
  const double finite[] = {0.0,  -0.0, 1.0, -1.0, 0.5, 2.0, limits.largest, limits.smallest_normal, limits.smallest,
                           88.0, 1e-3};
  const double infinity = std::numeric_limits<double>::infinity();
  const double infinite[] = {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()};
  if (!finite_only && draw.percent(40)) return draw.of(infinite);
  return draw.of(finite) * (draw.percent(30) ? -1 : 1);
}

double ordinary_float(Draw& draw) {
  static constexpr double kWhole[] = {0, 1, -1, 2, 3};
  return draw.percent(15) ? draw.of(kWhole) : draw.normal();
}

template <class T>
T random_float(DType dtype, Values values, Draw& draw) {
  bool special = values >= Values::Finite && draw.percent(60);
  double x = special ? special_float(dtype, values == Values::Finite, draw) : ordinary_float(draw);
  if constexpr (std::is_same_v<T, double>) {
    return x;
  } else {
    return static_cast<T>(static_cast<float>(x));
  }
}

template <class T>
T random_integer(Values values, Draw& draw, const Bounds* bounds) {
  if (bounds) return static_cast<T>(draw.between(bounds->low, bounds->high));
  if constexpr (std::is_integral_v<T>) {
    constexpr T kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
    constexpr T kSpecial[] = {kLow, kHigh, static_cast<T>(kLow + 1), static_cast<T>(kHigh / 2), 0, 1};
    if (values != Values::Normal && draw.percent(40)) return draw.of(kSpecial);
    if (values != Values::Normal && draw.percent(30)) return static_cast<T>(draw.bits());
    return static_cast<T>(draw.between(std::is_signed_v<T> ? -8 : 0, 8));
  } else {
    return static_cast<T>(draw.between(T::lowest, T::highest));
  }
}

}  // namespace

Tensor random_tensor(DType dtype, std::span<const int64_t> shape, Values values, Draw& draw, const Bounds* bounds) {
  Tensor tensor = Tensor::allocate(dtype, shape);
  if (dtype == DType::String) {
    static constexpr const char* kWords[] = {"", "a", "b", "1.5", "anfora"};
    for (std::string& s : tensor.data<std::string>()) s = draw.of(kWords);
  } else if (dtype == DType::Bool) {
    for (bool& b : tensor.data<bool>()) b = draw.percent(50);
  } else if (is_complex(dtype)) {
    dispatch<Complexes>(dtype, [&]<class T>() {
      using Part = typename T::value_type;
      for (T& z : tensor.data<T>())
        z = T(static_cast<Part>(ordinary_float(draw)), static_cast<Part>(ordinary_float(draw)));
    });
  } else if (is_float(dtype)) {
    using Any = Join<Join<Floats, Float8s>, TypeList<Float8E8M0, Float4E2M1, Float6E2M3, Float6E3M2>>;
    dispatch<Any>(dtype, [&]<class T>() {
      for (T& x : tensor.data<T>()) x = random_float<T>(dtype, values, draw);
    });
  } else {
    dispatch<Join<Integers, SubByteIntegers>>(dtype, [&]<class T>() {
      for (T& x : tensor.data<T>()) x = random_integer<T>(values, draw, bounds);
    });
  }
  return tensor;
}

}  // namespace anfora::rules
