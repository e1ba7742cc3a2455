#include "driver/compare.h"

#include <fmt/format.h>

#include <cmath>
#include <complex>

#include "support/element_types.h"

namespace anfora::driver {
namespace {

std::string_view kind_name(const Datum& d) {
  switch (d.kind()) {
    case Datum::Kind::None: return "nothing";
    case Datum::Kind::Tensor: return "a tensor";
    case Datum::Kind::Sequence: return "a sequence";
    case Datum::Kind::Tuple: return "a tuple";
    case Datum::Kind::Map: return "a map";
    case Datum::Kind::Function: return "a function";
  }
  return "";
}

std::string place(int64_t flat, const Shape& shape) {
  Shape index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  std::string text;
  for (int64_t i : index) text += fmt::format("{}{}", text.empty() ? "" : ", ", i);
  return fmt::format("[{}]", text);
}

struct Judge {
  Tolerance tolerance;
  Comparison result = {};
  double largest = -1;  // of the tensor, where the tolerance is a share of it
  int64_t differing = 0, worst_at = -1;
  double worst_excess = 0;
  bool finite_only = false;

  void real(int64_t i, double got, double want) {
    if (got == want || (std::isnan(got) && std::isnan(want))) return;
    double difference = std::abs(got - want);
    double scale = largest >= 0 ? largest : std::abs(want);
    double allowed = tolerance.absolute + tolerance.relative * scale;
    bool finite = std::isfinite(got) && std::isfinite(want);
    if (finite) {
      result.worst = std::max(result.worst, difference);
      if (scale > 0) result.worst_relative = std::max(result.worst_relative, difference / scale);
    }
    if (finite ? difference <= allowed : finite_only && !std::isfinite(want)) return;
    ++differing;
    result.lost += std::isfinite(want) && !std::isfinite(got);
    double excess = finite ? difference - allowed : INFINITY;
    if (worst_at < 0 || excess > worst_excess) {
      worst_excess = excess;
      worst_at = i;
    }
  }
};

template <class T>
double as_real(const T& value) {
  return static_cast<double>(static_cast<ComputeType<T>>(value));
}

template <class T>
constexpr bool kIsComplex = false;
template <class T>
constexpr bool kIsComplex<std::complex<T>> = true;

Comparison compare_tensors(const Tensor& got, const Tensor& want, std::optional<Tolerance> tolerance, Scale scale,
                           bool finite_only) {
  Comparison result;
  if (got.dtype() != want.dtype() || got.shape() != want.shape()) {
    result.difference = fmt::format("{}[{}] instead of {}[{}]", name(got.dtype()), to_string(got.shape()),
                                    name(want.dtype()), to_string(want.shape()));
    return result;
  }
  result.elements = want.size();
  if (Tensor::identical(got, want)) return result;
  bool inexact = is_float(want.dtype()) || is_complex(want.dtype());
  Judge judge{.tolerance = inexact && tolerance ? *tolerance : tolerance_of(want.dtype()),
              .result = {.elements = want.size()},
              .finite_only = finite_only};
  std::string got_text, want_text;
  auto describe_worst = [&](auto text_of) {
    if (judge.worst_at < 0) return;
    judge.result.differing = judge.differing;
    judge.result.difference =
        fmt::format("{} of {} elements differ, the worst at {}: {} instead of {}", judge.differing, want.size(),
                    place(judge.worst_at, want.shape()), text_of(got, judge.worst_at), text_of(want, judge.worst_at));
  };
  if (want.dtype() == DType::String) {
    for (int64_t i = 0; i < want.size(); ++i) {
      if (got.data<std::string>()[i] != want.data<std::string>()[i]) judge.real(i, 0, 1);
    }
    describe_worst([](const Tensor& t, int64_t i) { return '"' + t.data<std::string>()[i] + '"'; });
    judge.result.worst = 0;
    return judge.result;
  }
  using Comparable = Join<Join<Join<Numbers, Complexes>, Join<Float8s, SubByteIntegers>>,
                          TypeList<bool, Float8E8M0, Float4E2M1, Float6E2M3, Float6E3M2>>;
  dispatch<Comparable>(want.dtype(), [&]<class T>() {
    auto a = got.data<T>(), b = want.data<T>();
    if constexpr (!kIsComplex<T>) {
      if (scale == Scale::Tensor) {
        for (const T& value : b) {
          if (double magnitude = std::abs(as_real(value)); std::isfinite(magnitude))
            judge.largest = std::max(judge.largest, magnitude);
        }
      }
    }
    for (size_t i = 0; i < b.size(); ++i) {
      if constexpr (kIsComplex<T>) {
        judge.real(static_cast<int64_t>(i), a[i].real(), b[i].real());
        judge.real(static_cast<int64_t>(i), a[i].imag(), b[i].imag());
      } else if constexpr (sizeof(T) == 8 && std::is_integral_v<T>) {
        // Beyond 2^53 a double does not tell neighbours apart.
        if (a[i] != b[i])
          judge.real(static_cast<int64_t>(i), as_real(a[i]) == as_real(b[i]) ? as_real(b[i]) + 1e6 : as_real(a[i]),
                     as_real(b[i]));
      } else {
        judge.real(static_cast<int64_t>(i), as_real(a[i]), as_real(b[i]));
      }
    }
    describe_worst([](const Tensor& t, int64_t i) {
      if constexpr (kIsComplex<T>) {
        auto z = t.data<T>()[static_cast<size_t>(i)];
        return fmt::format("{:.6g}{:+.6g}i", z.real(), z.imag());
      } else if constexpr (std::is_integral_v<T>) {
        return fmt::format("{}", static_cast<int64_t>(t.data<T>()[static_cast<size_t>(i)]));
      } else {
        return fmt::format("{:.8g}", as_real(t.data<T>()[static_cast<size_t>(i)]));
      }
    });
  });
  return judge.result;
}

void merge(Comparison& into, const Comparison& item, std::string_view where) {
  into.worst = std::max(into.worst, item.worst);
  into.worst_relative = std::max(into.worst_relative, item.worst_relative);
  into.differing += item.differing;
  into.elements += item.elements;
  into.lost += item.lost;
  if (into.difference.empty() && !item.difference.empty())
    into.difference = fmt::format("{}: {}", where, item.difference);
}

}  // namespace

Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::F64:
    case DType::F32:
    case DType::C64:
    case DType::C128: return {1e-4, 1e-5};
    case DType::F16: return {1e-2, 1e-2};
    case DType::BF16: return {3e-2, 3e-2};
    case DType::F8E4M3FN:
    case DType::F8E4M3FNUZ: return {0.125, 0.015625};  // one step of a 3-bit mantissa; the smallest normal
    case DType::F8E5M2:
    case DType::F8E5M2FNUZ: return {0.25, 6.2e-5};
    default: return {0, 0};
  }
}

Comparison compare(const Datum& got, const Datum& want, std::optional<Tolerance> tolerance, Scale scale,
                   bool finite_only) {
  Comparison result;
  if (got.kind() != want.kind()) {
    result.difference = fmt::format("{} instead of {}", kind_name(got), kind_name(want));
    return result;
  }
  switch (want.kind()) {
    case Datum::Kind::Tensor: return compare_tensors(got.tensor(), want.tensor(), tolerance, scale, finite_only);
    case Datum::Kind::Sequence:
    case Datum::Kind::Tuple:
      if (got.items().size() != want.items().size()) {
        result.difference = fmt::format("{} items instead of {}", got.items().size(), want.items().size());
        return result;
      }
      for (size_t i = 0; i < want.items().size(); ++i) {
        merge(result, compare(got.items()[i], want.items()[i], tolerance, scale, finite_only),
              fmt::format("item {}", i));
      }
      return result;
    case Datum::Kind::Map:
      merge(result, compare_tensors(got.as_map().keys, want.as_map().keys, tolerance, scale, finite_only), "keys");
      merge(result, compare_tensors(got.as_map().values, want.as_map().values, tolerance, scale, finite_only),
            "values");
      return result;
    default: return result;
  }
}

}  // namespace anfora::driver
