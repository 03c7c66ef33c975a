// Selective recomputation trains as one rank without it does: Llama, and GPT-2 with dropout.
#include "parallel/gpt2.hpp"

namespace {
using namespace weft;
using weft_test::fp64_gradient, weft_test::fp64_loss;

// The test's widths are 32 and 64 and its numbers take 8 bytes: contractions cost 8 and 16 operations a byte, attention 4,
// everything else below 2.
using selective = checkpoint_selective_by<selective_limits{.flops_per_byte = 3}>;
constexpr degrees meshes[] = {{.dp = 2, .tp = 2}, {.tp = 4}, {.dp = 2}};

template <class... Policies>
void check(const weft_test::outcome& llama_alone, const weft_test::outcome& gpt2_alone, const weft_test::plan& p) {
  using S = strategy<mesh<dp, tp>, fp64, selective, Policies...>;
  for (std::size_t i = 0; i < std::size(meshes); i += std::size_t(weft_test::sample_stride())) {
    CAPTURE(meshes[i].dp);
    CAPTURE(meshes[i].tp);
    weft_test::check_equal(llama_alone, weft_test::train_model<llama<S>>(meshes[i], weft_test::task{}.model, p), fp64_loss, fp64_gradient);
    weft_test::check_equal(gpt2_alone,
                           weft_test::without_key_biases(weft_test::train_model<gpt2<S>>(meshes[i], weft_test::small_gpt2, p), fp64_gradient),
                           fp64_loss, fp64_gradient);
  }
}
}  // namespace

TEST_CASE("selective recomputation equals one rank without recomputation") {
  using plain = strategy<mesh<dp, tp>, fp64>;
  const weft_test::plan p{.batch = 4, .steps = 4, .micro_batches = 2};
  const auto one = weft_test::train_model<llama<plain>>({}, weft_test::task{}.model, p);
  const auto two = weft_test::without_key_biases(weft_test::train_model<gpt2<plain>>({}, weft_test::small_gpt2, p), fp64_gradient);
  check<replicated>(one, two, p);
  check<zero3>(one, two, p);
  check<replicated, sequence_parallel>(one, two, p);
  check<zero3, sequence_parallel>(one, two, p);
}
