// What the printer writes, the parser reads back, and it prints to the same bytes.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "ir/order.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "support/element_types.h"

namespace anfora::ir {
namespace {

// Parses `text` into a fresh context, so that nothing is known from before, and prints it.
std::string reprint(const std::string& text, const PrintOptions& options = {}, const Sidecar* sidecar = nullptr) {
  Context context;
  return print(*parse(context, text, {.sidecar = sidecar}), options);
}
void expect_round_trip(const Module& module, PrintOptions options = {}) {
  Sidecar sidecar;
  options.sidecar = &sidecar;
  std::string text = print(module, options);
  SCOPED_TRACE(text.substr(0, 4000));
  EXPECT_EQ(reprint(text, options, &sidecar), text);
}
// The text is already what the printer writes.
void expect_canonical(const std::string& text) { EXPECT_EQ(reprint(text), text); }

TEST(TextRoundTrip, Example) {
  expect_canonical(R"ir(module {
  name = "example"
  opset "" = 23
  opset "ai.onnx.ml" = 5
  ir_version = 10
  producer = "by \"hand\""
  property "key" = "a value\nof two lines"
  symbol N = [1, 64]
  symbol 'seq len' = [0, 4096]
  outputs = ["y": f32[N, 10], "z"]
}

graph @main(%x: f32[N, 128], %i: i64['seq len']) -> (f32[N, 10], i64[2*N+1, floordiv('seq len', 2), ?]) {
  %w = const f32[2, 2] [[1.0, 2.0], [3.0, nan]]
  %1 = ai.onnx::MatMul(%x, %w) : f32[N, 10]   # fc (model.onnx: node 3)
  %cond = ai.onnx::Greater(%1, 0.0)   # "" ("a (file)")
  %3 = Switch(%cond, @pos, @neg) : func() -> f32[N, 10]
  %4 = call %3() : f32[N, 10]
  %5 = com.microsoft::Fused:2(_, %4, f16[] 0.5, [1, 2]){alpha=0.5, axes=[], empty=floats [], mode="a", perm=[1, 0]} : (i64[], f32[*])
  %6 = %5[0] : i64[]
  %7 = (%4, %6)
  return %7
}

graph @pos() in @main -> f32[N, 10] {
  %2 = ai.onnx::Relu(%1) : f32[N, 10]
  return %2
}

graph @neg() in @main {
  %w = const f32[2, 2] [[1.0, 2.0], [3.0, nan]]
  %9 = ai.onnx::MatMul(%1, %w) : any[*]
  return %9   # (model.onnx: node 12)
}
)ir");
}

TEST(TextRoundTrip, Defaults) {
  expect_canonical(R"ir(module {
  main = @"a graph"
}

graph @"a graph"(
    %x: f32[2] = f32[2] [1.0, 2.0] as "x",   # x (model.onnx: node 1)
    %"112": f32[1000] = f32[1000] 0.0
  ) {
  return %x
}
)ir");
}

TEST(TextRoundTrip, Notes) {
  expect_canonical(R"ir(module {
  graph_property "license" = "mine"
  outputs = ["y"]
}

graph @main(%x: f32[2]) -> f32[2] {
  %h = a::A(%x) : f32[2]   # "fc" ("m.onnx")
  %1 = call @f(%h) : f32[2]   # (m.onnx: node 3)
  return %1
}

graph @f(%v) {
  %h = a::A(%v)   # act (m.onnx: graph 'body': node 0)
  return %h
}

notes {
  input "x" { doc = "pictures" property "unit" = "pixel" }
  output "y" { property "" = "" }
  node "fc" ("m.onnx") { doc = "in \"two\"\nlines" property "a" = "1" property "a" = "2" }
  node "" ("m.onnx": node 3) { doc = "a call" }
  graph @f { name = "body" doc = "what a step does" }
  value "h" ("m.onnx: graph 'body'") { doc = "inside" }
  quantization "h" { "SCALE_TENSOR" = f32[] 0.5 as "scale" "ZERO_POINT_TENSOR" = value "zero" }
}
)ir");
}

// What nothing in the text refers to is not written.
TEST(TextRoundTrip, NotesOfWhatIsGone) {
  EXPECT_EQ(reprint(R"ir(graph @main(%x) {
  return %x
}

notes {
  node "fc" ("m.onnx": node 3) { doc = "gone" }
  input "z" { doc = "gone" }
}
)ir"),
            "graph @main(%x) {\n  return %x\n}\n");
}

TEST(TextRoundTrip, SharedNamesAndIds) {
  Context context;
  Module module(context);
  Graph* main = module.make_graph("main");
  module.set_main(main);
  Node* x = module.add_parameter(main, nullptr, "x");
  const Operator& op = *context.operator_or_unknown("", "Op");
  Node* a = module.apply(main, op, {x, module.scalar(2.0f)}, {}, 1, nullptr, "same");
  Node* b = module.apply(main, op, {a, a}, {}, 1, nullptr, "same");
  Node* c = module.apply(main, op, {b, a});
  Graph* f = module.make_graph("f");
  Node* y = module.add_parameter(f, nullptr, "x");
  module.set_result(
      f, module.apply(f, op, {y, module.constant(Tensor::zeros(DType::F64, std::vector<int64_t>{3}), "same")}));
  module.set_result(main, module.call(main, f->value(), std::vector<Node*>{c}));
  std::string text = print(module);
  EXPECT_NE(text.find(std::string("%same#") + std::to_string(a->id()) + " = "), std::string::npos) << text;
  EXPECT_NE(text.find("%same = const f64[3] 0.0"), std::string::npos) << text;
  expect_round_trip(module);
  expect_round_trip(module, {.numbers = PrintOptions::Numbers::Sequential});

  // Nodes have their ids again.
  auto again = parse(context, text);
  auto order = topological_order(module), copy = topological_order(*again);
  EXPECT_EQ(copy.graphs[0].nodes[2]->id(), c->id());
  EXPECT_EQ(copy.graphs[0].nodes[1]->id(), b->id());
}

TEST(TextRoundTrip, DeadAndUnreachable) {
  expect_canonical(R"ir(graph @main(%x) {
  %1 = a::A(%x)
  # not used:
  %2 = a::B(%x)
  %3 = a::C(%2, @used_by_dead)
  return %1
}

graph @used_by_dead() {
  return 1
}

graph @unreachable(%x) {
  return %x
}

graph @its_child() in @unreachable {
  return %x
}
)ir");
}

// Whatever is wrong in a module can still be looked at; what the grammar can say is even parsed.
TEST(TextRoundTrip, Broken) {
  Context context;
  Module module(context);
  Graph* main = module.make_graph("main");
  Graph* child = module.make_graph("child", main);
  Graph* other = module.make_graph("other");
  module.set_main(main);
  const Operator& op = *context.operator_or_unknown("a", "Op");
  Node* y = module.add_parameter(other, nullptr, "y");
  Apply* inner = module.apply(child, op, {y});
  module.set_result(child, inner);
  Apply* first = module.apply(main, op, {y, module.none()});
  Apply* second = module.apply(main, op, {first, inner, child->value()});
  module.set_operand(first, 1, second);
  module.set_result(main, second);
  std::string text = print(module);
  EXPECT_NE(text.find("part of a cycle"), std::string::npos) << text;
  EXPECT_NE(text.find("does not enclose"), std::string::npos) << text;
  EXPECT_NE(text.find("@other%y"), std::string::npos) << text;
  expect_round_trip(module);

  Apply* erased = module.apply(main, op, {});
  module.erase(erased);
  module.set_operand(second, 0, erased);
  EXPECT_NE(print(module).find("operand 0 is erased"), std::string::npos);
}

// Names as exporters write them, and names as nobody should.
TEST(TextRoundTrip, Names) {
  const char* names[] = {"x",
                         "/layers.0/attn/MatMul_output_0",
                         "onnx::Conv_33",
                         "x:0",
                         "112",
                         "a b",
                         "a#b",
                         "a->b",
                         "a::",
                         ":a",
                         "%x",
                         "@f",
                         "\"quoted\"",
                         "back\\slash",
                         "tab\tnew\nline",
                         "\x01\x7f\xff",
                         "größe",
                         "graph",
                         "_",
                         "return",
                         "a[0]",
                         "a,b",
                         "-1",
                         "é\xc3",
                         "\xf0\x9f\x98\x80"};
  Context context;
  Module module(context);
  Graph* main = module.make_graph("main");
  module.set_main(main);
  std::vector<Node*> all;
  for (const char* name : names) {
    all.push_back(module.add_parameter(main, nullptr, name));
    Graph* f = module.make_graph(name);
    module.set_result(f, module.scalar<int64_t>(static_cast<int64_t>(all.size())));
    all.push_back(f->value());
    const Location* written = module.location({.file = name, .name = name, .index = 3});
    Apply* node = module.apply(main, *context.operator_or_unknown(name, name), {all[0]}, {{name, int64_t{1}}}, 1,
                               written, std::string(name) + "'");
    all.push_back(node);
    const Location* line = module.location({.file = name, .line = 12, .column = 5});
    all.push_back(module.apply(main, *context.operator_or_unknown("dom", name), {node}, {{"s", std::string(name)}}, 3,
                               module.inlined(line, written)));
  }
  module.set_result(main, module.make_tuple(main, all));
  module.output_names().assign(std::begin(names), std::end(names));
  expect_round_trip(module);
}

TEST(TextRoundTrip, EveryElementTypeBitForBit) {
  Context context;
  Module module(context);
  Graph* main = module.make_graph("main");
  module.set_main(main);
  std::vector<Node*> all;
  auto add = [&](DType dtype, auto fill) {
    Tensor t = Tensor::allocate(dtype, std::vector<int64_t>{32});
    fill(t);
    all.push_back(module.constant(std::move(t)));
  };
  for (int i = 1; i < kDTypeCount; ++i) {
    DType dtype = static_cast<DType>(i);
    if (dtype == DType::String) continue;
    bool narrow_int = is_sub_byte(dtype) && is_integer(dtype);
    // Every pattern of the one-byte types, patterns all over the range of the others.
    int bits = dtype == DType::Bool ? 1 : is_sub_byte(dtype) ? element_bits(dtype) : 8;
    for (int block = 0; block < 8; ++block) {
      add(dtype, [&](Tensor& t) {
        auto* bytes = static_cast<uint8_t*>(t.raw());
        uint64_t state = static_cast<uint64_t>(block + 1) * 0x9e3779b97f4a7c15ull;
        for (size_t b = 0; b < t.bytes(); ++b) {
          state = state * 6364136223846793005ull + 1442695040888963407ull;
          uint8_t value = element_bytes(dtype) == 1 ? static_cast<uint8_t>(block * 32 + static_cast<int>(b))
                                                    : static_cast<uint8_t>(state >> 56);
          if (bits < 8) value &= static_cast<uint8_t>((1 << bits) - 1);
          if (narrow_int && is_signed_integer(dtype))
            value = static_cast<uint8_t>(static_cast<int8_t>(value << (8 - bits)) >> (8 - bits));
          bytes[b] = value;
        }
      });
    }
  }
  // All f16 and bf16 values, in constants of 64.
  for (DType dtype : {DType::F16, DType::BF16}) {
    for (int start = 0; start < 65536; start += 64) {
      Tensor t = Tensor::allocate(dtype, std::vector<int64_t>{8, 8});
      for (int i = 0; i < 64; ++i) static_cast<uint16_t*>(t.raw())[i] = static_cast<uint16_t>(start + i);
      all.push_back(module.constant(std::move(t)));
    }
  }
  float special[] = {0.0f,
                     -0.0f,
                     INFINITY,
                     -INFINITY,
                     NAN,
                     -NAN,
                     std::numeric_limits<float>::denorm_min(),
                     std::numeric_limits<float>::max(),
                     0.1f,
                     1e20f,
                     std::bit_cast<float>(0x7f800001u)};
  for (float f : special) all.push_back(module.scalar(f));
  for (double d : {-0.0, 0.1, 5e-324, 1.7976931348623157e308, std::bit_cast<double>(0xfff0000000000123ull)})
    all.push_back(module.scalar(d));
  for (int64_t i : {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()})
    all.push_back(module.scalar(i));
  all.push_back(module.scalar(std::numeric_limits<uint64_t>::max()));
  std::string strings[] = {"", "a", "\xff\x00\n", "größe"};
  all.push_back(module.constant(Tensor::from<std::string>(std::vector<int64_t>{2, 2}, strings)));
  all.push_back(module.constant(Tensor::allocate(DType::F32, std::vector<int64_t>{0})));
  all.push_back(module.constant(Tensor::allocate(DType::I64, std::vector<int64_t>{0})));
  all.push_back(module.constant(Tensor::allocate(DType::F32, std::vector<int64_t>{2, 0, 3})));
  module.set_result(main, module.make_tuple(main, all));
  expect_round_trip(module);

  // And the bits are the same, not only the text.
  Context other;
  auto copy = parse(other, print(module));
  Apply* result = copy->main()->result()->as_apply();
  ASSERT_EQ(result->num_inputs(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(Tensor::identical(*constant_tensor(result->input(i)), *constant_tensor(all[i])))
        << print(*constant_tensor(all[i]));
  }
}

TEST(TextRoundTrip, LargeConstantsLieBeside) {
  Context context;
  Module module(context);
  Graph* main = module.make_graph("main");
  module.set_main(main);
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::vector<std::string> strings(100, "s");
  strings[7] = "seven";
  std::vector<int64_t> shape{10, 100}, length{100};
  Node* big = module.constant(Tensor::from<float>(shape, values), "w");
  Node* words = module.constant(Tensor::from<std::string>(length, strings));
  AttributeSet attributes{{"value", Tensor::from<float>(shape, values)}};
  module.set_result(main, module.apply(main, *context.operator_or_unknown("a", "Op"), {big, words}, attributes));

  Sidecar sidecar;
  std::string text = print(module, {.sidecar = &sidecar});
  EXPECT_LT(text.size(), 400u);
  EXPECT_EQ(sidecar.size(), 2u);  // equal contents once
  std::string file;
  sidecar.write([&](std::span<const std::byte> bytes) {
    file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  Sidecar loaded = Sidecar::read(std::as_bytes(std::span(file)), nullptr);
  EXPECT_EQ(reprint(text, {}, &loaded), text);

  EXPECT_THROW(reprint(text), Error);  // no file given
  EXPECT_THROW(Sidecar::read(std::as_bytes(std::span(file)).first(file.size() - 1), nullptr), Error);
  std::string elided = print(module, {.elide_constants = true});
  EXPECT_NE(elided.find("f32[10, 100] <elided>"), std::string::npos);
  EXPECT_THROW(reprint(elided), Error);
}

TEST(TextRoundTrip, DimensionsInAnyContext) {
  Context context;
  // Symbols appear in an order unlike that of their names, compound ones before simple ones.
  for (const char* text : {"floordiv(Z, 2)+A", "Z*A+Z+A+1", "min(Z, A)", "max(floordiv(B, 3), A)", "-N+3", "-2*N*M-5",
                           "'a b'*2", "mod(N, 7)*ceildiv(M, 3)", "?", "-9223372036854775807", "'\\x27'"}) {
    std::string once = to_string(parse_dim(context, text));
    Context fresh;
    EXPECT_EQ(to_string(parse_dim(fresh, once)), once) << text;
    EXPECT_EQ(parse_dim(context, once), parse_dim(context, text)) << text;
  }
  for (const char* text :
       {"f32[N, 128]", "any[*]", "bf16[]", "seq(f32[?])", "opt(seq(i64[N]))", "map(i64[], f32[])", "(f32[], i64[2])",
        "(f32[],)", "()", "func(f32[2], ()) -> func() -> state", "none", "string[*]", "seq(untyped)"}) {
    EXPECT_EQ(to_string(parse_type(context, text)), text);
  }
}

}  // namespace
}  // namespace anfora::ir
