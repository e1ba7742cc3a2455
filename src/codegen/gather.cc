#include "codegen/gather.h"

#include <array>

#include "codegen/epilogue.h"

namespace anfora::codegen {
namespace {

using namespace kernels::generated;

class GatherBuilder {
 public:
  GatherBuilder(const GatherCode& code, Isa isa) : code_(code), isa_(describe(isa)), b_("gather") {
    static constexpr struct {
      const char* name;
      Element element;
    } kParameters[kGatherArguments] = {{"from", Element::Pointer},    {"from_stride", Element::Index}, {"to", Element::Pointer},
                                       {"to_stride", Element::Index}, {"rows", Element::Index},        {"channels", Element::Index},
                                       {"panels", Element::Index},     {"cut_panels", Element::Index},    {"scale", Element::Pointer},   {"shift", Element::Pointer}};
    for (const auto& parameter : kParameters) parameters_.push_back(b_.parameter(parameter.name, parameter.element));
  }

  Function build() {
    b_.loop(0, parameters_[kGatheredRows], [&](Value row) {
      const Value from = b_.offset(parameters_[kFrom], b_.multiply(row, parameters_[kFromStride])),
                  to = b_.offset(parameters_[kTo], b_.multiply(row, parameters_[kToStride]));
      auto gather_panel = [&](Value panel, auto mask) {
        const Value channel = b_.multiply(panel, b_.integer(int64_t{kGatheredVectors} * isa_.lanes));
        gather(b_.offset(from, channel), b_.offset(to, channel), channel, mask(channel));
      };
      b_.loop(0, parameters_[kGatheredPanels], [&](Value panel) { gather_panel(panel, [](Value) { return kNone; }); });
      b_.loop(0, parameters_[kCutPanels], [&](Value cut) {
        gather_panel(b_.add(parameters_[kGatheredPanels], cut), [&](Value channel) {
          return b_.columns(kGatheredVectors, isa_.lanes, b_.subtract(parameters_[kGatheredChannels], channel));
        });
      });
    });
    return b_.finish();
  }

 private:
  void gather(Value from, Value to, Value channel, Value mask) {
    Value x = row_of(from, mask);
    const bool has_shift = code_.epilogue.addends[0] != Addend::None;
    const auto channels_of = [&](GatherArgument argument) { return row_of(b_.offset(parameters_[argument], channel), mask); };
    if (code_.has_scale && has_shift) {
      x = multiply_add(b_, isa_, x, channels_of(kChannelScale), channels_of(kChannelShift));
    } else if (code_.has_scale) {
      x = b_.multiply(x, channels_of(kChannelScale));
    } else if (has_shift) {
      x = b_.add(x, channels_of(kChannelShift));
    }
    b_.store(to, b_.integer(0), activate(b_, isa_, code_.epilogue, x), mask);
  }

  Value row_of(Value pointer, Value mask) {
    return b_.load({Element::F32, 1, kGatheredVectors, isa_.lanes}, pointer, b_.integer(0), mask);
  }

  const GatherCode& code_;
  const IsaDescription& isa_;
  Builder b_;
  std::vector<Value> parameters_;
};

}  // namespace

Function gather_function(const GatherCode& code, Isa isa) { return GatherBuilder(code, isa).build(); }

}  // namespace anfora::codegen
