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
