// Gather and ScatterND whose indices are known before the run move runs of elements that lie side by side:
//
//     x[:, 3:7] = u      ScatterND writes a run of 4 for each row of x, whatever the millions of tuples that name each element
//     x[[0, 1, 2, 9]]    Gather reads a run of 3, and one
//
// The runs are found once, and the indices released.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "kernels/reference/prepared.h"
#include "kernels/reference/strided_copy.h"
#include "support/mapped_file.h"
#include "support/parallel.h"

namespace anfora::kernels {
namespace {

constexpr size_t kRuns = 0;  // what is packed
constexpr int64_t kRunsVersion = 1;

// From `place` of what the indices point into, and from `begin` of what lies in their order, to the begin of the next one. The last one has no elements.
struct PlacedRun {
  int64_t place, begin;
};

// Indices as they come, joined where one lies behind the other.
class RunList {
 public:
  void add(int64_t place, int64_t count) {
    if (!runs_.empty() && runs_.back().place + end_ - runs_.back().begin == place) {
      end_ += count;
      return;
    }
    runs_.push_back({place, end_});
    end_ += count;
  }
  size_t size() const { return runs_.size(); }
  bool overlap() const {
    std::vector<std::pair<int64_t, int64_t>> places;
    for (size_t i = 0; i < runs_.size(); ++i) places.emplace_back(runs_[i].place, (i + 1 < runs_.size() ? runs_[i + 1].begin : end_) - runs_[i].begin);
    std::ranges::sort(places);
    for (size_t i = 1; i < places.size(); ++i) {
      if (places[i - 1].first + places[i - 1].second > places[i].first) return true;
    }
    return false;
  }
  Tensor as_tensor() const {
    Tensor tensor = Tensor::allocate(DType::I64, Shape{static_cast<int64_t>(size()) + 1, 2});
    int64_t* to = tensor.data<int64_t>().data();
    for (const PlacedRun& run : runs_) *to++ = run.place, *to++ = run.begin;
    *to++ = 0, *to++ = end_;
    return tensor;
  }

 private:
  std::vector<PlacedRun> runs_;
  int64_t end_ = 0;
};

// How the tensors of an application are moved: `outer` times the same runs, each time `stride` elements further.
struct Placement {
  int64_t outer = 1, stride = 0;
  int64_t length = 0, inner = 1;  // of what a Gather's index selects from, and elements of one
  Shape result;
};

class PlacedRuns : public PreparedKernel {
 public:
  PlacedRuns(const KernelData& data, Placement placement, const Tensor& runs) : is_scatter_(data.op == "ScatterND"), placement_(std::move(placement)), runs_(runs) {}

  bool has_packed(size_t i) const override { return i == 1; }

  void run(KernelContext& context, State*) const override {
    const Tensor& data = context.input(0);
    Tensor& output = context.allocate_output(0, data.dtype(), placement_.result);
    if (is_scatter_ && output.raw() != data.raw()) dense_copy(data.dtype(), data.size(), output.raw(), data.raw());
    const auto* from = static_cast<const std::byte*>((is_scatter_ ? context.input(2) : data).raw());
    auto* to = static_cast<std::byte*>(output.raw());
    const auto bytes = static_cast<int64_t>(element_bytes(data.dtype()));
    const auto* runs = reinterpret_cast<const PlacedRun*>(runs_.data<int64_t>().data());
    const int64_t count = runs_.dim(0) - 1, elements = runs[count].begin;
    constexpr int64_t kWork = 1 << 16;  // bytes
    parallel_for(placement_.outer * count, grain_of(kWork, elements / count * bytes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const PlacedRun& run = runs[i % count];
        const int64_t place = (i / count * placement_.stride + run.place) * bytes, in_order = (i / count * elements + run.begin) * bytes;
        std::memcpy(to + (is_scatter_ ? place : in_order), from + (is_scatter_ ? in_order : place), static_cast<size_t>(((&run)[1].begin - run.begin) * bytes));
      }
    });
  }

 private:
  bool is_scatter_;
  Placement placement_;
  Tensor runs_;
};

// Of the indices, whatever their type: f(span of them).
template <class F>
auto visit_indices(const Tensor& indices, const F& f) {
  return indices.dtype() == DType::I32 ? f(indices.data<int32_t>()) : f(indices.data<int64_t>());
}

// Runs of a Gather's indices, in elements of x; nothing where one is out of range, or there are more than `most`.
std::optional<RunList> runs_of_gather(const Tensor& indices, int64_t length, int64_t inner, size_t most) {
  return visit_indices(indices, [&](auto values) -> std::optional<RunList> {
    RunList runs;
    for (int64_t index : values) {
      if (index < -length || index >= length) return std::nullopt;
      runs.add((index < 0 ? index + length : index) * inner, inner);
      if (runs.size() > most) return std::nullopt;
    }
    return runs;
  });
}

// The same of tuples along the last axis of a ScatterND's indices.
std::optional<RunList> runs_of_scatter(const Tensor& indices, const Shape& x, size_t most) {
  const auto depth = static_cast<size_t>(indices.shape().back());
  const int64_t inner = element_count(std::span(x).subspan(depth));
  return visit_indices(indices, [&](auto values) -> std::optional<RunList> {
    RunList runs;
    for (auto tuple = values.begin(); tuple != values.end(); tuple += static_cast<std::ptrdiff_t>(depth)) {
      int64_t place = 0;
      for (size_t axis = 0; axis < depth; ++axis) {
        const int64_t index = tuple[static_cast<std::ptrdiff_t>(axis)], length = x[axis];
        if (index < -length || index >= length) return std::nullopt;
        place = place * length + (index < 0 ? index + length : index);
      }
      runs.add(place * inner, inner);
      if (runs.size() > most) return std::nullopt;
    }
    return runs;
  });
}

// Where the operands go, if all shapes fit; the reference kernel has words for others.
std::optional<Placement> placement_of(const KernelData& data) {
  const Shape &x = *data.input(0).shape, &indices = data.input(1).constant.shape();
  if (data.op == "ScatterND") {
    if (data.attributes.string("reduction", "none") != "none" || indices.empty() || indices.back() < 1 || indices.back() > std::ssize(x)) return std::nullopt;
    Shape expected(indices.begin(), indices.end() - 1);
    expected.insert(expected.end(), x.begin() + indices.back(), x.end());
    const InputDescription& updates = data.input(2);
    return updates.dtype == data.input(0).dtype && *updates.shape == expected ? std::optional(Placement{.result = x}) : std::nullopt;
  }
  const int64_t rank = std::ssize(x), axis = data.attributes.get_int("axis", 0) + (data.attributes.get_int("axis", 0) < 0 ? rank : 0);
  if (axis < 0 || axis >= rank) return std::nullopt;
  const int64_t length = x[static_cast<size_t>(axis)], inner = element_count(std::span(x).subspan(static_cast<size_t>(axis) + 1));
  Placement placement{.outer = element_count(std::span(x).first(static_cast<size_t>(axis))), .stride = length * inner, .length = length, .inner = inner,
                      .result = {x.begin(), x.begin() + axis}};
  placement.result.insert(placement.result.end(), indices.begin(), indices.end());
  placement.result.insert(placement.result.end(), x.begin() + axis + 1, x.end());
  return placement;
}

// Null where shapes or indices are not known, an index is out of range, runs are too short to be worth it, updates are combined with what is there, or
// several go to one place.
std::unique_ptr<PreparedKernel> prepare_runs(KernelData& data) {
  // Below, reading the indices costs little; of shorter runs, those cost as much.
  constexpr int64_t kFewestIndices = 256, kFewestOfRun = 4;
  const Tensor& indices = data.input(1).constant;
  const DType dtype = data.input(0).dtype;
  if (!data.is_static() || !indices.defined() || dtype == DType::Undefined || dtype == DType::String || indices.size() < kFewestIndices) return nullptr;
  std::optional<Placement> placement = placement_of(data);
  if (!placement || element_count(placement->result) == 0) return nullptr;
  const PackedConstant* packed = find_packed(data, kRuns);
  if (!packed) {
    if (!indices.raw()) return nullptr;
    const bool is_scatter = data.op == "ScatterND";
    const auto most = static_cast<size_t>(indices.size() / (is_scatter ? indices.shape().back() : 1) / kFewestOfRun);
    const std::optional<RunList> runs =
        is_scatter ? runs_of_scatter(indices, *data.input(0).shape, most) : runs_of_gather(indices, placement->length, placement->inner, most);
    if (!runs || (is_scatter && runs->overlap())) return nullptr;
    drop_mapped_pages(indices.raw(), indices.bytes());
    data.packed.push_back({kRuns, {kRunsVersion}, runs->as_tensor()});
    packed = &data.packed.back();
  }
  if (packed->layout != std::vector<int64_t>{kRunsVersion}) return nullptr;
  return std::make_unique<PlacedRuns>(data, std::move(*placement), packed->elements);
}

}  // namespace

void prepare_placed_runs(PreparedRegistry& registry) {
  for (const char* name : {"Gather", "ScatterND"}) registry.add(name, "reference:runs", prepare_runs);
}

}  // namespace anfora::kernels
