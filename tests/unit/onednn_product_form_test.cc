#include "kernels/onednn/product_form.h"

#include <gtest/gtest.h>

namespace anfora::kernels::onednn {
namespace {

constexpr memory::data_type kType = memory::data_type::f32;
// Those that know packed weights again by their description; convolutions read them where they ask for the same.
constexpr Form kForms[] = {Form::MatMul, Form::InnerProduct};

dnnl::primitive_desc product(Form form, int64_t rows, const memory::desc& weights) {
  const int64_t depth = weights.get_dims()[0], columns = weights.get_dims()[1];
  return describe(form, activations(form, dense(Shape{rows, depth}, kType)), weights, memory::desc(),
                  activations(form, dense(Shape{rows, columns}, kType)), dnnl::primitive_attr());
}

bool has_avx2() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto avx2 = static_cast<unsigned>(dnnl::cpu_isa::avx2);
  return (isa & avx2) == avx2;
}

TEST(OnednnProductForm, PackedWeightsAreReadByTheFormThatAskedForThem) {
  for (Form form : kForms) {
    for (int64_t rows : {1, 5, 64, 197}) {
      for (Shape shape : {Shape{64, 96}, Shape{100, 1000}, Shape{33, 7}}) {
        const dnnl::primitive_desc first = product(form, rows, any_layout(shape, kType));
        ASSERT_TRUE(first);
        const memory::desc packed = as_matrix(form, first.query_md(dnnl::query::weights_md));
        EXPECT_EQ(packed.get_dims(), memory::dims(shape.begin(), shape.end()));
        const dnnl::primitive_desc second = product(form, rows, packed);
        ASSERT_TRUE(second);
        EXPECT_STREQ(second.impl_info_str(), first.impl_info_str());
        EXPECT_EQ(second.query_md(dnnl::query::weights_md), first.query_md(dnnl::query::weights_md));
      }
    }
  }
}

// Products of ordinary sizes need no GEMM that packs the weights again in each run, from AVX2 on.
TEST(OnednnProductForm, SomeFormIsFast) {
  if (!has_avx2()) GTEST_SKIP() << "all forms are products by GEMM";
  for (int64_t rows : {1, 4, 16, 128, 197, 512}) {
    for (Shape shape : {Shape{768, 768}, Shape{768, 3072}, Shape{512, 512}, Shape{1024, 1000}}) {
      const bool some = std::ranges::any_of(forms_by_preference(rows), [&](Form form) {
        return is_fast(form, product(form, rows, any_layout(shape, kType)), rows, shape[0]);
      });
      EXPECT_TRUE(some) << rows << "×" << shape[0] << "×" << shape[1];
    }
  }
}

}  // namespace
}  // namespace anfora::kernels::onednn
