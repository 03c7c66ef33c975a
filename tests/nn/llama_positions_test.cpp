// Llama under rope scalings: what the model computes follows the table of the sequence's length.
#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {

using namespace weft;
using S = strategy<mesh<>, fp64, single_rank>;

/// Logits of the sequences' lengths, one pass after another through one model.
std::vector<std::vector<double>> logits(const rope_scaling& scaling, std::initializer_list<std::int64_t> lengths) {
  std::vector<std::vector<double>> out;
  launch<S>({}, [&](context& ctx) {
    llama<S> model(ctx, {.layers = 1,
                         .hidden = 16,
                         .heads = 2,
                         .ffn = 32,
                         .vocab = 16,
                         .max_seq = 32,
                         .rope_scaling = scaling,
                         .init_stddev = 0.3});
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
    model.use(store);
    const recording off(ctx, nullptr);
    for (const std::int64_t n : lengths)
      out.push_back(
          local_share_on_host(model(generate<llama<S>::ids>(ctx, {1, n}, [](std::int64_t i) { return i * 5 % 16; }))));
  });
  return out;
}

}  // namespace

TEST_CASE("dynamic scaling follows each sequence's length") {
  const rope_scaling dynamic{.kind = rope_kind::dynamic, .factor = 2, .original_max_seq = 16};
  const auto plain = logits({}, {16, 32}), mixed = logits(dynamic, {16, 32, 16}), alone = logits(dynamic, {32});
  CHECK(mixed[0] == plain[0]);  // not longer than the original
  CHECK(mixed[1] != plain[1]);
  CHECK(mixed[1] == alone[0]);  // whatever came before
  CHECK(mixed[2] == plain[0]);
}

TEST_CASE("a linear factor and yarn's reach the model") {
  const auto plain = logits({}, {32});
  CHECK(logits({.kind = rope_kind::linear, .factor = 2}, {32}) != plain);
  CHECK(logits({.kind = rope_kind::yarn, .factor = 2, .attention_factor = 1.5}, {32}) !=
        logits({.kind = rope_kind::yarn, .factor = 2}, {32}));
  CHECK(logits({.kind = rope_kind::linear, .factor = 1}, {32}) == plain);
}

TEST_CASE("a table of rotary positions of one's own turns as the formula says") {
  launch<strategy<mesh<>, single_rank>>({}, [](context& ctx) {
    const rope_frequencies turns = frequencies_of(rope_scaling{}.resolved(3), 4, 100, 3);
    const rope_table table = make_rope_table<bf16>(ctx, turns, 3);
    const rope_table wide = make_rope_table<double>(ctx, turns, 3);
    REQUIRE(table.cos.type == dtype::f32);
    for (int p = 0; p < 3; ++p)
      for (int i = 0; i < 2; ++i) {
        const double angle = p * (i == 0 ? 1 : 0.1);
        CHECK(wide.cos.as<double>()[2 * p + i] == doctest::Approx(std::cos(angle)).epsilon(1e-14));
        CHECK(wide.sin.as<double>()[2 * p + i] == doctest::Approx(std::sin(angle)).epsilon(1e-14));
      }
    using heads_of = tensor<double, dims<batch, seq, heads, head_dim>>;
    const auto turned = rope(ones<heads_of>(ctx, {1, 3, 1, 4}), wide);
    CHECK(turned.local_share()[4] == doctest::Approx(std::cos(1.0) - std::sin(1.0)));
  });
}
