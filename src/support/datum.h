// What flows along an edge at run time: a tensor, a sequence, a map, a tuple, a function, or nothing
// (an absent optional). Copies are handles.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "anfora/tensor.h"

namespace anfora {

class Datum {
 public:
  enum class Kind : uint8_t { None, Tensor, Sequence, Tuple, Map, Function };
  // ai.onnx.ml maps: keys are an i64 or string vector, values a vector of as many elements.
  struct Map {
    Tensor keys, values;
  };
  struct Function {  // a closure; the runtime derives from it
    virtual ~Function() = default;
  };

  Datum() = default;
  Datum(Tensor tensor) : kind_(Kind::Tensor), tensor_(std::move(tensor)) {}
  static Datum sequence(std::vector<Datum> items);
  static Datum tuple(std::vector<Datum> items);
  static Datum map(Tensor keys, Tensor values);
  static Datum function(std::shared_ptr<Function> function);

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::None; }
  bool is_tensor() const { return kind_ == Kind::Tensor; }
  // Each throws TypeMismatch when the kind is another.
  const Tensor& tensor() const;
  Tensor& tensor();
  const std::vector<Datum>& items() const;  // of a sequence or a tuple
  // The items for changing: taken without a copy when this is the only handle to them.
  std::vector<Datum> take_items() &&;
  const Map& as_map() const;
  std::shared_ptr<Function> as_function() const;

 private:
  template <class T>
  T& object() const {
    return *static_cast<T*>(object_.get());
  }

  Kind kind_ = Kind::None;
  Tensor tensor_;
  std::shared_ptr<void> object_;  // of other kinds: std::vector<Datum>, Map or Function
};

}  // namespace anfora
