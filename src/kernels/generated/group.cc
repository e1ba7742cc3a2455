// How a group runs: neighbouring axes that all operands walk through alike become one; the last of what is left are the rows of the code, and
// the others are split among threads. Where there are few rows and nothing is summed along them, the rows are split as well.
//
//     f32[4, 8, 64] + f32[64]          rows of 64, 32 of them
//     f32[4, 8, 64] + f32[4, 8, 64]    one row of 2048, in parts
//
// Rows that lie apart, as a part of a larger tensor has them, are walked like any others: where one operand's do, rows are those of the last axis.
//
// What depends on one tensor of bytes alone and gives bytes, as an activation between DequantizeLinear and QuantizeLinear, is computed of the 256
// bytes that there are, and looked up.
#include "kernels/generated/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <tuple>

#include "anfora/error.h"
#include "kernels/generated/byte_table.h"
#include "kernels/generated/plan_cache.h"
#include "kernels/input_shapes.h"
#include "kernels/reference/broadcast.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels::generated {
namespace {

// Of the layout of code; another generator's is not taken.
constexpr int64_t kGroupCodeVersion = 4;

// What the attributes say.
struct GroupDescription {
  size_t rank = 0;
  bool reduces = false;
  std::vector<std::vector<uint8_t>> axes;  // by operand, inputs first: whether it walks along the axis
  std::vector<int64_t> output_ranks;
  // Of an input that is read in part: by axis of the part, the axis of the input, where it begins there, and its size, or −1 for all of it.
  struct Part {
    int64_t from, begin, size;
  };
  std::vector<std::vector<Part>> parts;  // by input; none where it is read as it is
  GroupCode code;

  size_t num_inputs() const { return code.inputs.size(); }

  static std::optional<GroupDescription> read(const KernelData& data) {
    const AttributeSet& attributes = data.attributes;
    GroupDescription group;
    group.rank = static_cast<size_t>(attributes.get_int("rank", 0));
    group.reduces = attributes.get_int("reduces", 0) != 0;
    const auto axes = attributes.ints("axes"), output_axes = attributes.ints("output_axes"),
               outputs = attributes.ints("outputs"), output_ranks = attributes.ints("output_ranks"),
               output_types = attributes.ints("output_types");
    const size_t num_inputs = data.inputs.size(), num_operands = num_inputs + outputs.size();
    if (group.rank == 0 || axes.size() != num_inputs * group.rank ||
        output_axes.size() != outputs.size() * group.rank || output_ranks.size() != outputs.size() ||
        output_types.size() != outputs.size() || data.num_outputs != outputs.size() ||
        num_operands > kMostGroupOperands)
      return std::nullopt;
    for (size_t i = 0; i < num_operands; ++i) {
      const auto from =
          i < num_inputs ? axes.subspan(i * group.rank) : output_axes.subspan((i - num_inputs) * group.rank);
      group.axes.emplace_back(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(group.rank));
    }
    for (size_t i = 0; i < num_inputs; ++i) {
      if (!is_group_dtype(data.inputs[i].dtype)) return std::nullopt;
      group.code.inputs.push_back({group.axes[i].back() != 0, data.inputs[i].dtype});
    }
    if (!group.read_parts(attributes.ints("views"))) return std::nullopt;
    for (const std::string& statement : attributes.strings("statements")) group.code.statements.push_back(statement);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto dtype = static_cast<DType>(output_types[i]);
      if (outputs[i] < 0 || outputs[i] >= std::ssize(group.code.inputs) + std::ssize(group.code.statements) ||
          !is_group_dtype(dtype))
        return std::nullopt;
      group.code.outputs.push_back({static_cast<int>(outputs[i]), group.axes[num_inputs + i].back() == 0, dtype});
    }
    group.output_ranks.assign(output_ranks.begin(), output_ranks.end());
    return group;
  }

  // The number of an input, how many axes it has, and of each of them three numbers; then the next.
  bool read_parts(std::span<const int64_t> views) {
    parts.resize(num_inputs());
    while (!views.empty()) {
      if (views.size() < 2 || views[0] < 0 || views[0] >= std::ssize(parts) || views[1] < 1 || views[1] > static_cast<int64_t>(rank) ||
          std::ssize(views) - 2 < 3 * views[1])
        return false;
      std::vector<Part>& of = parts[static_cast<size_t>(views[0])];
      for (int64_t axis = 0; axis < views[1]; ++axis) {
        const auto numbers = views.subspan(static_cast<size_t>(2 + 3 * axis), 3);
        if (numbers[0] < 0 || numbers[0] >= views[1] || numbers[1] < 0 || numbers[2] < -1) return false;
        of.push_back({numbers[0], numbers[1], numbers[2]});
      }
      views = views.subspan(static_cast<size_t>(2 + 3 * views[1]));
    }
    return true;
  }

  // The input of bytes that alone decides what the outputs are, bytes as well, element by element.
  std::optional<size_t> only_input() const {
    auto is_byte = [](DType dtype) { return dtype == DType::I8 || dtype == DType::U8; };
    std::optional<size_t> found;
    for (size_t i = 0; i < num_inputs(); ++i) {
      if (std::ranges::count(axes[i], 0) == std::ssize(axes[i])) continue;
      if (found || !is_byte(code.inputs[i].dtype) || !parts[i].empty()) return std::nullopt;
      found = i;
    }
    const bool gives_bytes = std::ranges::all_of(code.outputs, [&](const GroupCode::Output& output) { return is_byte(output.dtype) && !output.is_of_row; });
    return reduces || !gives_bytes ? std::nullopt : found;
  }
};

// By operand, elements from one row of the last axis to the next.
using RowStrides = std::array<int64_t, kMostGroupOperands>;

// How a group runs on inputs of certain shapes.
struct GroupPlan {
  InputShapes shapes;
  std::vector<Shape> outputs;
  // How it walks through them, which place_rows() decides.
  int64_t row_elements = 1, rows = 1;  // of the row's axis, and of all others together
  Shape sizes;                         // of the axes in front of the row's, as far as they are not one
  std::vector<Shape> strides;          // by operand, of those axes
  std::vector<int64_t> begins;         // by operand, the first element

  GroupPlan(InputShapes of, const GroupDescription& group) : shapes(std::move(of)), space_(space_of(group, shapes_read(group))) {
    for (size_t i = 0; i < group.code.outputs.size(); ++i) {
      const std::vector<uint8_t>& axes = group.axes[group.num_inputs() + i];
      Shape shape;
      for (size_t axis = 0; axis < static_cast<size_t>(group.output_ranks[i]); ++axis)
        shape.push_back(axes[axis] ? space_[axis] : 1);
      outputs.push_back(std::move(shape));
    }
  }

  void place_rows(const RowStrides& row_strides, const GroupDescription& group) {
    if (!strides.empty() && row_strides == row_strides_) return;
    row_strides_ = row_strides;
    merge_axes(group);
  }

 private:
  [[noreturn]] static void fail(size_t input) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("input {} of a group is not of the shape that was inferred", input));
  }

  // Of the parts, where only a part is read.
  InputShapes shapes_read(const GroupDescription& group) const {
    InputShapes read = shapes;
    for (size_t i = 0; i < group.num_inputs(); ++i) {
      if (group.parts[i].empty()) continue;
      if (!shapes[i] || shapes[i]->size() != group.parts[i].size()) fail(i);
      for (size_t axis = 0; axis < group.parts[i].size(); ++axis) {
        const auto [from, begin, size] = group.parts[i][axis];
        const int64_t extent = (*shapes[i])[static_cast<size_t>(from)];
        if (size >= 0 && begin + size > extent) fail(i);
        (*read[i])[axis] = size >= 0 ? size : extent;
      }
    }
    return read;
  }

  Shape space_of(const GroupDescription& group, const InputShapes& read) const {
    Shape space(group.rank, 1);
    for (size_t i = 0; i < group.num_inputs(); ++i) {
      if (read[i]) space = broadcast_shape(space, *read[i]);
    }
    for (size_t i = 0; i < group.num_inputs(); ++i) {
      bool is_expected = space.size() == group.rank && read[i] && read[i]->size() <= group.rank;
      for (size_t axis = 0; is_expected && axis < group.rank; ++axis) {
        const size_t missing = group.rank - read[i]->size();
        const int64_t size = axis < missing ? 1 : (*read[i])[axis - missing];
        is_expected = size == (group.axes[i][axis] ? space[axis] : 1);
      }
      if (!is_expected) fail(i);
    }
    return space;
  }

  // The strides of a part's axes in its tensor, by axis of the space.
  void read_part(const std::vector<GroupDescription::Part>& part, const Shape& shape, int64_t row_stride, const std::vector<uint8_t>& axes, Shape& steps,
                 int64_t& begin) {
    Shape of_tensor(shape.size());
    int64_t stride = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
      of_tensor[axis] = stride;
      stride = axis + 1 == shape.size() ? row_stride : stride * shape[axis];
    }
    const size_t missing = axes.size() - shape.size();
    for (size_t axis = 0; axis < part.size(); ++axis) {
      const int64_t of_axis = of_tensor[static_cast<size_t>(part[axis].from)];
      begin += part[axis].begin * of_axis;
      steps[missing + axis] = axes[missing + axis] ? of_axis : 0;
    }
  }

  void merge_axes(const GroupDescription& group) {
    const size_t num_operands = group.axes.size();
    std::vector<Shape> steps(num_operands);
    for (size_t i = 0; i < num_operands; ++i) {
      steps[i].resize(group.rank);
      // An output may be without the axis that is summed.
      const size_t rank = i < group.num_inputs() ? group.rank : static_cast<size_t>(group.output_ranks[i - group.num_inputs()]);
      int64_t stride = 1;
      for (size_t axis = rank; axis-- > 0;) {
        steps[i][axis] = group.axes[i][axis] ? stride : 0;
        if (axis + 1 == rank) {
          stride = row_strides_[i];
        } else if (group.axes[i][axis]) {
          stride *= space_[axis];
        }
      }
    }
    begins.assign(num_operands, 0);
    for (size_t i = 0; i < group.num_inputs(); ++i) {
      if (!group.parts[i].empty()) read_part(group.parts[i], *shapes[i], row_strides_[i], group.axes[i], steps[i], begins[i]);
    }
    // Whether each operand goes on along an axis where it ends along the other.
    auto is_alike = [&](size_t axis, size_t other) {
      for (size_t i = 0; i < num_operands; ++i) {
        if (group.axes[i][axis] != group.axes[i][other] || steps[i][axis] != steps[i][other] * space_[other]) return false;
      }
      return true;
    };
    row_elements = space_.back();
    sizes.clear();
    size_t last = group.rank - 1;  // that was walked through
    strides.assign(num_operands, {});
    for (size_t axis = group.rank - 1; axis-- > 0;) {
      if (space_[axis] == 1) continue;
      const bool is_row = sizes.empty(), is_merged = is_alike(axis, last) && !(is_row && group.reduces);
      last = axis;
      if (is_merged) {
        (is_row ? row_elements : sizes.front()) *= space_[axis];
        continue;
      }
      sizes.insert(sizes.begin(), space_[axis]);
      for (size_t i = 0; i < num_operands; ++i) strides[i].insert(strides[i].begin(), steps[i][axis]);
    }
    rows = element_count(sizes);
  }

  Shape space_;
  RowStrides row_strides_{};
};

class GroupKernel : public PreparedKernel {
 public:
  GroupKernel(KernelData& data, GroupDescription group) : data_(data), group_(std::move(group)), only_input_(group_.only_input()) {}

  // False where there is no code for it, and none can be made.
  bool prepare(GroupGenerator generate) {
    if (data_.packed.empty()) {
      if (!generate) return false;
      group_.code.isa = best_isa();
      GeneratedGroup made = generate(group_.code);
      data_.packed.push_back(
          {0,
           {kGroupCodeVersion, static_cast<int64_t>(group_.code.isa), made.buffers, made.code.entries.at(0)},
           std::move(made.code.bytes)});
    }
    const PackedConstant& packed = data_.packed.front();
    constexpr size_t kNumbers = 4;
    const std::optional<Isa> isa = isa_of(packed.layout);
    if (!isa || packed.layout.size() != kNumbers || packed.layout[0] != kGroupCodeVersion || packed.layout[2] < 0) return false;
    group_.code.isa = *isa;
    buffers_ = packed.layout[2];
    code_ = ExecutableCode::map({.isa = group_.code.isa, .entries = {packed.layout[3]}, .bytes = packed.elements});
    entry_ = code_->entry(packed.layout[3]);
    return true;
  }

  std::unique_ptr<State> make_state() const override { return std::make_unique<Plans>(); }
  bool writes_rows_apart(size_t) const override { return true; }
  bool reads_rows_apart(size_t) const override { return true; }

  void run(KernelContext& context, State* state) const override {
    GroupPlan& plan = find_plan(context, static_cast<Plans&>(*state).plans);
    std::array<int64_t, kMostGroupOperands> first{};
    RowStrides row_strides{};
    auto add = [&](size_t operand, const auto& rows) {
      first[operand] = address(rows.tensor.raw());
      row_strides[operand] = rows.stride;
    };
    const size_t num_inputs = group_.num_inputs();
    for (size_t i = 0; i < num_inputs; ++i) add(i, context.input_rows(i));
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
      add(num_inputs + i, context.allocate_output_rows(i, group_.code.outputs[i].dtype, plan.outputs[i]));
    }
    plan.place_rows(row_strides, group_);
    if (plan.rows == 0 || (plan.row_elements == 0 && !has_outputs_of_rows())) return;
    constexpr int64_t kWorthTables = 4 * std::tuple_size_v<ByteTable>;
    only_input_ && plan.rows == 1 && plan.row_elements >= kWorthTables ? run_by_tables(plan, first) : run(plan, first);
  }

 private:
  struct Plans : State {
    PlanCache<GroupPlan> plans;
  };

  static int64_t address(const void* pointer) { return reinterpret_cast<int64_t>(pointer); }
  int64_t element_bytes_of(size_t operand) const {
    const size_t count = group_.num_inputs();
    const DType dtype = operand < count ? group_.code.inputs[operand].dtype : group_.code.outputs[operand - count].dtype;
    return static_cast<int64_t>(element_bytes(dtype));
  }
  bool has_outputs_of_rows() const { return std::ranges::any_of(group_.code.outputs, &GroupCode::Output::is_of_row); }

  GroupPlan& find_plan(KernelContext& context, PlanCache<GroupPlan>& plans) const {
    if (GroupPlan* known = plans.find(context)) return *known;
    return plans.add(GroupPlan(input_shapes(context), group_));
  }

  // A unit of work is a row, or a part of one.
  void run(const GroupPlan& plan, const std::array<int64_t, kMostGroupOperands>& first) const {
    constexpr int64_t kPartElements = 1 << 12;  // of a row that is split; 16 kB of each operand
    constexpr int64_t kWork = 1 << 15;          // statements of elements that are worth a thread
    constexpr int64_t kFewRows = 16;
    const bool is_split = !group_.reduces && !has_outputs_of_rows() && plan.rows < kFewRows;
    const int64_t part = is_split ? std::min(kPartElements, plan.row_elements) : plan.row_elements;
    const int64_t parts = part == 0 ? 1 : (plan.row_elements + part - 1) / part;
    const int64_t cost = std::max<int64_t>(part, 1) * std::ssize(group_.code.statements);
    parallel_for(plan.rows * parts, grain_of(kWork, cost), [&](int64_t begin, int64_t end) {
      const int64_t stride = (part + kLane - 1) / kLane * kLane;
      Scratch<float> buffers(static_cast<size_t>(buffers_ * stride));
      while (begin < end) {
        const int64_t row = begin / parts, at = begin % parts;
        int64_t count = 1;
        if (parts == 1) {
          const int64_t inner = plan.sizes.empty() ? 1 : plan.sizes.back();
          count = std::min(end - begin, inner - row % inner);
        }
        run_rows(plan, first, row, count, at * part, std::min(part, plan.row_elements - at * part),
                 {address(buffers.data()), stride});
        begin += count;
      }
    });
  }
  static constexpr int64_t kLane = 16;

  void run_by_tables(const GroupPlan& plan, const std::array<int64_t, kMostGroupOperands>& first) const {
    const size_t count = plan.outputs.size();
    ByteTable all;
    std::iota(all.begin(), all.end(), uint8_t{0});
    std::array<ByteTable, kMostGroupOperands> tables;
    std::array<int64_t, kMostGroupOperands> of_tables = first;
    of_tables[*only_input_] = address(all.data());
    for (size_t i = 0; i < count; ++i) of_tables[group_.num_inputs() + i] = address(tables[i].data());
    Scratch<float> buffers(static_cast<size_t>(buffers_) * all.size());
    run_rows(plan, of_tables, 0, 1, 0, std::ssize(all), {address(buffers.data()), std::ssize(all)});
    const auto* from = reinterpret_cast<const uint8_t*>(first[*only_input_]);
    constexpr int64_t kWork = 1 << 16;  // bytes that are worth a thread
    parallel_for(plan.row_elements, kWork, [&](int64_t begin, int64_t end) {
      constexpr int64_t kBlock = 1 << 12;  // copied where there are several outputs: one may lie where the input does
      for (; begin < end; begin += kBlock) {
        std::array<uint8_t, kBlock> block;
        const int64_t size = std::min(kBlock, end - begin);
        const uint8_t* bytes = count == 1 ? from + begin : std::copy_n(from + begin, size, block.data()) - size;
        for (size_t i = 0; i < count; ++i)
          look_up(tables[i], bytes, size, reinterpret_cast<uint8_t*>(first[group_.num_inputs() + i]) + begin);
      }
    });
  }

  struct Buffers {
    int64_t first, stride;
  };
  // Rows along the last axis before the row's, of each of them `elements` from `at` on.
  void run_rows(const GroupPlan& plan, const std::array<int64_t, kMostGroupOperands>& first, int64_t row, int64_t count,
                int64_t at, int64_t elements, Buffers buffers) const {
    const int64_t lanes = describe(group_.code.isa).lanes;
    const float row_size = static_cast<float>(elements);
    std::array<int64_t, kGroupArguments + 2 * kMostGroupOperands> arguments{};
    arguments[kRows] = count;
    set_row_arguments(arguments.data(), elements, lanes);
    arguments[kRowSize] = address(&row_size);
    arguments[kBuffers] = buffers.first;
    arguments[kBufferStride] = buffers.stride;
    for (size_t i = 0; i < group_.axes.size(); ++i) {
      const Shape& strides = plan.strides[i];
      int64_t offset = plan.begins[i] + (group_.axes[i].back() ? at : 0), rest = row;
      for (size_t axis = plan.sizes.size(); axis-- > 0;) {
        offset += rest % plan.sizes[axis] * strides[axis];
        rest /= plan.sizes[axis];
      }
      arguments[kGroupArguments + 2 * i] = first[i] + offset * element_bytes_of(i);
      arguments[kGroupArguments + 2 * i + 1] = strides.empty() ? 0 : strides.back();
    }
    entry_(arguments.data());
  }

  KernelData& data_;
  GroupDescription group_;
  std::optional<size_t> only_input_;
  int64_t buffers_ = 0;
  std::shared_ptr<const ExecutableCode> code_;
  EntryPoint entry_ = nullptr;
};

}  // namespace

std::unique_ptr<PreparedKernel> prepare_group(KernelData& data, GroupGenerator generate) {
  std::optional<GroupDescription> group = GroupDescription::read(data);
  if (!group) return nullptr;
  auto kernel = std::make_unique<GroupKernel>(data, std::move(*group));
  return kernel->prepare(generate) ? std::move(kernel) : nullptr;
}

}  // namespace anfora::kernels::generated
