// Operators of ai.onnx.ml that prepare features: encoding, scaling, choosing, and the maps of older pipelines.
#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cmath>
#include <functional>
#include <variant>

#include "kernels/reference/arguments.h"
#include "kernels/reference/families.h"
#include "kernels/reference/ml_common.h"
#include "kernels/reference/prepared.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

using EncodedTypes = TypeList<std::string, int64_t, float, double, int32_t, int16_t>;
using NumericFeatures = TypeList<float, double, int32_t, int64_t>;

template <class K, class V>
using FlatMap = boost::unordered_flat_map<K, V>;

// Encoders -------------------------------------------------------------------------------------------

// The values of an attribute that comes as a list or as a tensor; undefined when it comes as neither.
Tensor listed(const AttributeSet& attributes, std::string_view prefix) {
  auto named = [&](const char* suffix) { return std::string(prefix) + suffix; };
  if (const Tensor* tensor = attributes.get_tensor(named("_tensor"))) return *tensor;
  if (attributes.has(named("_strings"))) return Tensor::vector<std::string>(attributes.strings(named("_strings")));
  if (attributes.has(named("_int64s"))) return Tensor::vector<int64_t>(attributes.ints(named("_int64s")));
  if (attributes.has(named("_floats"))) return Tensor::vector<float>(attributes.floats(named("_floats")));
  refuse("no {} are given", prefix);
}

Tensor default_value(const AttributeSet& attributes, DType dtype) {
  if (const Tensor* tensor = attributes.get_tensor("default_tensor")) {
    if (tensor->dtype() != dtype || tensor->size() != 1)
      refuse("default_tensor is not one element of the values' type");
    return *tensor;
  }
  switch (dtype) {
    case DType::String: return Tensor::scalar(attributes.get_string("default_string", "_Unused"));
    case DType::I64: return Tensor::scalar(attributes.get_int("default_int64", -1));
    case DType::F32: return Tensor::scalar(attributes.get_float("default_float", -0.0f));
    case DType::F64: return Tensor::scalar(-0.0);
    case DType::I32: return Tensor::scalar(int32_t{-1});
    default: return Tensor::scalar(int16_t{-1});
  }
}

// Where an element is among the keys, the last of equal ones; -1 where it is none of them. NaNs are equal.
template <class T>
class Positions {
 public:
  explicit Positions(std::span<const T> keys) {
    for (size_t i = 0; i < keys.size(); ++i) {
      (keys[i] == keys[i] ? known_[keys[i]] : of_nan_) = static_cast<int64_t>(i);
    }
  }
  int64_t operator()(const T& element) const {
    if (element != element) return of_nan_;
    auto found = known_.find(element);
    return found == known_.end() ? -1 : found->second;
  }

 private:
  FlatMap<T, int64_t> known_;
  int64_t of_nan_ = -1;
};

// Values by keys.
class Dictionary {
 public:
  Dictionary(const Tensor& keys, Tensor values, Tensor otherwise)
      : key_dtype_(keys.dtype()),
        positions_(dispatch<EncodedTypes>(keys.dtype(),
                                          [&]<class T>() { return AnyPositions(Positions<T>(keys.data<T>())); })),
        values_(std::move(values)),
        otherwise_(std::move(otherwise)) {
    if (keys.size() != values_.size()) refuse("{} keys, but {} values", keys.size(), values_.size());
  }

  // Output 0, of that shape: the value of each element, else the default.
  void look_up(KernelContext& context, const Tensor& data, const Shape& shape) const {
    if (data.dtype() != key_dtype_)
      refuse("the keys are {}, the elements to look up {}", name(key_dtype_), name(data.dtype()));
    const std::span<int64_t> at = context.workspace_of<int64_t>(static_cast<size_t>(data.size()));
    dispatch<EncodedTypes>(data.dtype(), [&]<class T>() {
      std::ranges::transform(data.data<T>(), at.begin(), std::cref(std::get<Positions<T>>(positions_)));
    });
    Tensor& output = context.allocate_output(0, values_.dtype(), shape);
    dispatch_by_size(values_.dtype(), [&]<class T>() {
      std::ranges::transform(at, output.data<T>().begin(), [&](int64_t i) {
        return i < 0 ? otherwise_.data<T>()[0] : values_.data<T>()[static_cast<size_t>(i)];
      });
    });
  }

 private:
  using AnyPositions = std::variant<Positions<std::string>, Positions<int64_t>, Positions<float>, Positions<double>,
                                    Positions<int32_t>, Positions<int16_t>>;
  DType key_dtype_;
  AnyPositions positions_;
  Tensor values_, otherwise_;
};

class LabelEncoder {
 public:
  explicit LabelEncoder(const AttributeSet& attributes) : dictionary_(made_from(attributes)) {}
  void run(KernelContext& context) const { dictionary_.look_up(context, context.input(0), context.input(0).shape()); }

 private:
  static Dictionary made_from(const AttributeSet& attributes) {
    Tensor values = listed(attributes, "values");
    const DType dtype = values.dtype();
    return {listed(attributes, "keys"), std::move(values), default_value(attributes, dtype)};
  }
  Dictionary dictionary_;
};

// Strings to integers, and back.
class CategoryMapper {
 public:
  explicit CategoryMapper(const AttributeSet& attributes)
      : CategoryMapper(Tensor::vector<std::string>(attributes.strings("cats_strings")),
                       Tensor::vector<int64_t>(attributes.ints("cats_int64s")), attributes) {}
  void run(KernelContext& context) const {
    const Tensor& data = context.input(0);
    (data.dtype() == DType::String ? to_numbers_ : to_strings_).look_up(context, data, data.shape());
  }

 private:
  CategoryMapper(const Tensor& strings, const Tensor& numbers, const AttributeSet& attributes)
      : to_numbers_(strings, numbers, default_value(attributes, DType::I64)),
        to_strings_(numbers, strings, default_value(attributes, DType::String)) {}
  Dictionary to_numbers_, to_strings_;
};

class OneHotEncoder {
 public:
  explicit OneHotEncoder(const AttributeSet& attributes)
      : strings_(attributes.strings("cats_strings")),
        numbers_(attributes.ints("cats_int64s")),
        string_count_(attributes.strings("cats_strings").size()),
        number_count_(attributes.ints("cats_int64s").size()),
        zeros_(attributes.get_int("zeros", 1) != 0) {}
  void run(KernelContext& context) const;

 private:
  Positions<std::string> strings_;
  Positions<int64_t> numbers_;
  size_t string_count_, number_count_;
  bool zeros_;
};

void OneHotEncoder::run(KernelContext& context) const {
  const Tensor& data = context.input(0);
  const std::span<int64_t> at = context.workspace_of<int64_t>(static_cast<size_t>(data.size()));
  const bool of_strings = data.dtype() == DType::String;
  const size_t count = of_strings ? string_count_ : number_count_;
  if (of_strings) {
    std::ranges::transform(data.data<std::string>(), at.begin(), std::cref(strings_));
  } else {
    dispatch<NumericFeatures>(data.dtype(), [&]<class T>() {
      std::ranges::transform(data.data<T>(), at.begin(),
                             [&](T value) { return numbers_(static_cast<int64_t>(value)); });
    });
  }
  if (!zeros_ && std::ranges::count(at, -1) > 0) {
    refuse("an element of the input is none of the categories");
  }
  Shape shape = data.shape();
  shape.push_back(static_cast<int64_t>(count));
  Tensor& output = context.allocate_output(0, DType::F32, shape);
  auto encoded = output.data<float>();
  std::ranges::fill(encoded, 0.0f);
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] >= 0) encoded[i * count + static_cast<size_t>(at[i])] = 1;
  }
}

// Element-wise ---------------------------------------------------------------------------------------

void binarizer(KernelContext& context) {
  const Tensor& data = context.input(0);
  const float threshold = context.attributes().get_float("threshold", 0);
  Tensor& output = context.allocate_output(0, data.dtype(), data.shape());
  dispatch<NumericFeatures>(data.dtype(), [&]<class T>() {
    std::ranges::transform(data.data<T>(), output.data<T>().begin(),
                           [&](T v) { return static_cast<T>(v > threshold); });
  });
}

// A parameter of each feature, the last dimension, or one for all of them.
template <class T>
T parameter(std::span<const T> parameters, size_t element) {
  return parameters[element % parameters.size()];
}

void require_per_feature(size_t count, const Tensor& data, const char* what) {
  const int64_t features = data.rank() > 0 ? data.shape().back() : 1;
  if (count != 1 && static_cast<int64_t>(count) != features) refuse("{} {} for {} features", count, what, features);
}

void imputer(KernelContext& context) {
  const Tensor& data = context.input(0);
  const AttributeSet& attributes = context.attributes();
  auto impute = [&]<class T, class P>(std::span<const P> imputed, P replaced) {
    require_per_feature(imputed.size(), data, "imputed values");
    auto to = context.allocate_output(0, data.dtype(), data.shape()).template data<T>();
    auto from = data.data<T>();
    for (size_t i = 0; i < from.size(); ++i) {
      const bool missing = from[i] == static_cast<T>(replaced) || (from[i] != from[i] && replaced != replaced);
      to[i] = missing ? static_cast<T>(parameter(imputed, i)) : from[i];
    }
  };
  dispatch<NumericFeatures>(data.dtype(), [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      impute.template operator()<T>(attributes.ints("imputed_value_int64s"),
                                    attributes.get_int("replaced_value_int64", 0));
    } else {
      impute.template operator()<T>(attributes.floats("imputed_value_floats"),
                                    attributes.get_float("replaced_value_float", 0));
    }
  });
}

void scaler(KernelContext& context) {
  const Tensor& data = context.input(0);
  constexpr float kNoOffset[] = {0}, kNoScale[] = {1};
  auto given = [&](const char* name, std::span<const float> otherwise) {
    return context.attributes().has(name) ? context.attributes().floats(name) : otherwise;
  };
  const std::span<const float> offset = given("offset", kNoOffset), scale = given("scale", kNoScale);
  require_per_feature(offset.size(), data, "offsets");
  require_per_feature(scale.size(), data, "scales");
  auto to = context.allocate_output(0, DType::F32, data.shape()).data<float>();
  dispatch<NumericFeatures>(data.dtype(), [&]<class T>() {
    auto from = data.data<T>();
    for (size_t i = 0; i < from.size(); ++i) {
      to[i] = static_cast<float>((from[i] - parameter(offset, i)) * parameter(scale, i));
    }
  });
}

// The divisor is the plain maximum, the sum of magnitudes, or the root of the sum of squares; zero leaves the row as it is.
void normalizer(KernelContext& context) {
  const Tensor& data = context.input(0);
  const std::string_view norm = context.attributes().string("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2") refuse("'{}' is no norm; there are MAX, L1 and L2", norm);
  if (data.rank() < 1 || data.rank() > 2) refuse("the input has rank {}, not 1 or 2", data.rank());
  const FeatureRows rows(data);
  auto to = context.allocate_output(0, DType::F32, data.shape()).data<float>();
  ScratchVector<double> row(static_cast<size_t>(rows.features()));
  for (int64_t n = 0; n < rows.rows() && !row.empty(); ++n) {
    rows.read(n, row);
    double divisor = norm == "MAX" ? row[0] : 0;
    for (double v : row)
      divisor = norm == "MAX" ? std::max(divisor, v) : divisor + (norm == "L1" ? std::abs(v) : v * v);
    if (norm == "L2") divisor = std::sqrt(divisor);
    if (divisor == 0) divisor = 1;
    std::ranges::transform(row, to.begin() + n * rows.features(),
                           [&](double v) { return static_cast<float>(v / divisor); });
  }
}

// Choosing and joining -------------------------------------------------------------------------------

void array_feature_extractor(KernelContext& context) {
  const Tensor& data = context.input(0);
  if (data.rank() < 1) refuse("the data have no features to choose from");
  const int64_t features = data.shape().back();
  const IntegerList chosen = integers(context.input(1));
  if (chosen.empty()) refuse("no features are chosen");
  for (int64_t index : chosen) {
    if (index < 0 || index >= features) refuse_index(index, features);
  }
  Shape shape = data.shape();
  if (data.rank() == 1) shape.insert(shape.begin(), 1);
  shape.back() = std::ssize(chosen);
  Tensor& output = context.allocate_output(0, data.dtype(), shape);
  dispatch_by_size(data.dtype(), [&]<class T>() {
    auto from = data.data<T>();
    auto to = output.data<T>().begin();
    for (int64_t row = 0; row < extent(shape, 0, output.rank() - 1); ++row) {
      for (int64_t index : chosen) *to++ = from[static_cast<size_t>(row * features + index)];
    }
  });
}

// Each input fills the columns that `inputdimensions` gives it: cut off where it has more, zeros where it has fewer.
void feature_vectorizer(KernelContext& context) {
  std::vector<int64_t> widths = context.attributes().get_ints("inputdimensions");
  std::vector<FeatureRows> inputs;
  for (size_t i = 0; i < context.num_inputs(); ++i) inputs.emplace_back(context.input(i));
  if (widths.empty()) {
    for (const FeatureRows& input : inputs) widths.push_back(input.features());
  }
  if (widths.size() != inputs.size())
    refuse("inputdimensions has {} sizes for {} inputs", widths.size(), inputs.size());
  int64_t total = 0;
  for (int64_t width : widths) {
    if (width < 0) refuse("an input dimension of {}", width);
    total = checked_add(total, width);
  }
  const int64_t rows = inputs[0].rows();
  auto to = context.allocate_output(0, DType::F32, {{rows, total}}).data<float>();
  std::ranges::fill(to, 0.0f);
  int64_t column = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].rows() != rows) refuse("input {} has {} rows, the first {}", i, inputs[i].rows(), rows);
    std::vector<double> row(static_cast<size_t>(inputs[i].features()));
    for (int64_t n = 0; n < rows; ++n) {
      inputs[i].read(n, row);
      const int64_t used = std::min(widths[i], inputs[i].features());
      std::transform(row.begin(), row.begin() + used, to.begin() + n * total + column,
                     [](double v) { return static_cast<float>(v); });
    }
    column += widths[i];
  }
}

// Maps -----------------------------------------------------------------------------------------------

// One row, as the models that follow expect it, though the specification calls it a vector.
void dict_vectorizer(KernelContext& context) {
  const Datum::Map& map = context.input_datum(0).as_map();
  const AttributeSet& attributes = context.attributes();
  const Tensor vocabulary = map.keys.dtype() == DType::String
                                ? Tensor::vector<std::string>(attributes.strings("string_vocabulary"))
                                : Tensor::vector<int64_t>(attributes.ints("int64_vocabulary"));
  const Dictionary dictionary(map.keys, map.values, Tensor::zeros(map.values.dtype(), {{1}}));
  dictionary.look_up(context, vocabulary, {1, vocabulary.size()});
}

std::string fixed_text(float value) { return fmt::format("{:f}", value); }

template <class From, class To>
To converted(const From& value) {
  if constexpr (std::is_same_v<From, To>) {
    return value;
  } else if constexpr (std::is_same_v<From, float> && std::is_same_v<To, std::string>) {
    return fixed_text(value);
  } else if constexpr (std::is_same_v<From, std::string>) {
    try {
      if constexpr (std::is_same_v<To, float>)
        return std::stof(value);
      else
        return static_cast<To>(std::stoll(value));
    } catch (const std::logic_error&) {
      refuse("'{}' is no number", value);
    }
  } else {
    return static_cast<To>(value);
  }
}

// One row of the values in the order of their keys, which are their columns in the sparse form.
void cast_map(KernelContext& context) {
  const Datum::Map& map = context.input_datum(0).as_map();
  const AttributeSet& attributes = context.attributes();
  const std::string_view to = attributes.string("cast_to", "TO_FLOAT"), form = attributes.string("map_form", "DENSE");
  if (form != "DENSE" && form != "SPARSE") refuse("'{}' is no map_form; there are DENSE and SPARSE", form);
  auto keys = map.keys.data<int64_t>();
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return keys[i]; });
  const bool sparse = form == "SPARSE";
  const int64_t width = sparse ? attributes.get_int("max_map", 1) : std::ssize(keys);
  if (width < 1) refuse("a map of {} elements", width);
  auto cast = [&]<class From, class To>() {
    auto output = context.allocate_output(0, dtype_of<To>, {{1, width}}).template data<To>();
    std::ranges::fill(output, To());
    for (size_t i = 0; i < order.size(); ++i) {
      const int64_t column = sparse ? keys[order[i]] : static_cast<int64_t>(i);
      if (column < 0 || column >= width) refuse("the key {} lies outside a map of {}", column, width);
      output[static_cast<size_t>(column)] = converted<From, To>(map.values.data<From>()[order[i]]);
    }
  };
  dispatch<TypeList<float, std::string>>(map.values.dtype(), [&]<class From>() {
    if (to == "TO_FLOAT") return cast.template operator()<From, float>();
    if (to == "TO_INT64") return cast.template operator()<From, int64_t>();
    if (to == "TO_STRING") return cast.template operator()<From, std::string>();
    refuse("'{}' is no cast_to; there are TO_FLOAT, TO_INT64 and TO_STRING", to);
  });
}

void zip_map(KernelContext& context) {
  const Tensor& data = context.input(0);
  const AttributeSet& attributes = context.attributes();
  const Tensor keys = attributes.has("classlabels_strings")
                          ? Tensor::vector<std::string>(attributes.strings("classlabels_strings"))
                          : Tensor::vector<int64_t>(attributes.ints("classlabels_int64s"));
  const FeatureRows rows(data);
  if (rows.features() != keys.size()) refuse("{} keys for {} columns", keys.size(), rows.features());
  std::vector<Datum> maps;
  const size_t width = static_cast<size_t>(keys.size());
  for (int64_t n = 0; n < rows.rows(); ++n) {
    maps.push_back(Datum::map(keys, Tensor::vector(data.data<float>().subspan(static_cast<size_t>(n) * width, width))));
  }
  context.set_output(0, Datum::sequence(std::move(maps)));
}

}  // namespace

void register_ml_features(KernelRegistry& registry) {
  registry.add("ai.onnx.ml::ArrayFeatureExtractor", array_feature_extractor);
  registry.add("ai.onnx.ml::Binarizer", binarizer);
  registry.add("ai.onnx.ml::CastMap", cast_map);
  registry.add("ai.onnx.ml::CategoryMapper", run_operation<CategoryMapper>);
  registry.add("ai.onnx.ml::DictVectorizer", dict_vectorizer);
  registry.add("ai.onnx.ml::FeatureVectorizer", feature_vectorizer);
  registry.add("ai.onnx.ml::Imputer", imputer);
  registry.add("ai.onnx.ml::LabelEncoder", run_operation<LabelEncoder>);
  registry.add("ai.onnx.ml::Normalizer", normalizer);
  registry.add("ai.onnx.ml::OneHotEncoder", run_operation<OneHotEncoder>);
  registry.add("ai.onnx.ml::Scaler", scaler);
  registry.add("ai.onnx.ml::ZipMap", zip_map);
}

void prepare_ml_features(PreparedRegistry& registry) {
  registry.add("ai.onnx.ml::CategoryMapper", "dictionary", prepare_operation<CategoryMapper>);
  registry.add("ai.onnx.ml::LabelEncoder", "dictionary", prepare_operation<LabelEncoder>);
  registry.add("ai.onnx.ml::OneHotEncoder", "dictionary", prepare_operation<OneHotEncoder>);
}

}  // namespace anfora::kernels
