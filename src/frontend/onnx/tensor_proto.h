// TensorProto and SparseTensorProto to Tensor, and back.
//
// Reading does not copy weights: a tensor of more than kLargestCopied bytes whose file form is its memory form becomes
// a view on the mapped file. Protobuf aligns nothing, so such a view may begin at any address. That is deliberate: the
// alternative is to copy whole models. What makes it safe:
//   - x86-64 loads and stores work at any address, except the aligned vector forms, which compilers emit only where
//     they know or have established an alignment. Kernels are compiled so that none is established by peeling
//     (--param vect-max-peeling-for-alignment=0), so element loops use the unaligned forms;
//   - under the sanitizers, which take misalignment for the undefined behaviour that it is in C++, all unaligned
//     tensors are copied;
//   - tensors up to kLargestCopied bytes (shapes, axes, scales, biases: what compile-time analysis reads) are
//     always aligned, because they are copied when they are not.
#pragma once

#include <cstddef>
#include <memory>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>

#include "anfora/tensor.h"
#include "frontend/onnx/external_data.h"

namespace anfora::onnx {

inline constexpr size_t kLargestCopied = size_t{64} << 10;

// Limits what a file can make the reader allocate beyond its own size: a sparse tensor or a repeated value may be
// expanded, but not without bound.
class ExpansionBudget {
 public:
  static constexpr size_t kBase = size_t{64} << 20;
  static constexpr size_t kPerByte = 256;
  explicit ExpansionBudget(size_t file_bytes) : left_(kBase + kPerByte * file_bytes) {}
  // Throws ResourceExhausted when the budget does not suffice.
  void take(size_t bytes);

 private:
  size_t left_;
};

// Where the bytes of a message come from.
struct TensorSource {
  std::shared_ptr<void> owner;       // keeps the message's memory alive; null: tensors must not refer to it
  ExternalData* external = nullptr;  // null: external data is an error
  ExpansionBudget* budget = nullptr;
};

// Throws InvalidModel, NotFound, Unsupported; the tensor's name is the error's node where it has one.
// `name`, when given, receives the name.
Tensor read_tensor(std::string_view bytes, const TensorSource& source, std::string_view* name = nullptr);
// The name alone.
std::string_view read_tensor_name(std::string_view bytes);
std::string_view read_sparse_tensor_name(std::string_view bytes);
// The dense tensor. `name` receives the name of the values, which is the initializer's.
Tensor read_sparse_tensor(std::string_view bytes, const TensorSource& source, std::string_view* name = nullptr);

// The tensor's elements as a file holds them: row-major, little-endian, narrow elements packed. Not for strings.
std::string pack_elements(const Tensor& tensor);
// The number of bytes of that form.
size_t packed_bytes(const Tensor& tensor);
// Whether the memory of the tensor is that form already.
bool is_packed_in_memory(const Tensor& tensor);
// The fields of a TensorProto with the data inside.
void write_tensor(protozero::pbf_writer& writer, const Tensor& tensor, std::string_view name = {});

}  // namespace anfora::onnx
