// Selective recomputation trains as one rank without it does: Llama, and GPT-2 with dropout.
#include "parallel/gpt2.hpp"

namespace {
using namespace weft;
using weft_test::fp64_gradient, weft_test::fp64_loss;

// The test's widths are 32 and 64 and its numbers take 8 bytes: contractions cost 8 and 16 operations a byte, attention
// 4, everything else below 2.
using selective = checkpoint_selective_by<selective_limits{.flops_per_byte = 3}>;

template <class S>
void check(std::initializer_list<degrees> meshes, const weft_test::output& llama_alone,
           const weft_test::output& gpt2_alone, const weft_test::plan& p) {
  for (std::size_t i = 0; i < meshes.size(); i += std::size_t(weft_test::sample_stride())) {
    const degrees d = meshes.begin()[i];
    CAPTURE(d.dp);
    CAPTURE(d.tp);
    CAPTURE(d.pp);
    weft_test::check_equal(llama_alone, weft_test::train_model<llama<S>>(d, weft_test::task{}.model, p), fp64_loss,
                           fp64_gradient);
    weft_test::check_equal(
        gpt2_alone,
        weft_test::without_key_biases(weft_test::train_model<gpt2<S>>(d, weft_test::small_gpt2, p), fp64_gradient),
        fp64_loss, fp64_gradient);
  }
}
}  // namespace

TEST_CASE("selective recomputation equals one rank without recomputation") {
  using plain = strategy<mesh<dp, tp>, fp64>;
  const weft_test::plan p{.batch = 4, .steps = 4, .micro_batches = 2};
  const auto one = weft_test::train_model<llama<plain>>({}, weft_test::task{}.model, p);
  const auto two =
      weft_test::without_key_biases(weft_test::train_model<gpt2<plain>>({}, weft_test::small_gpt2, p), fp64_gradient);
  const std::initializer_list<degrees> flat{{.dp = 2, .tp = 2}, {.tp = 4}, {.dp = 2}},
      staged{{.tp = 2, .pp = 2}, {.dp = 2, .tp = 2, .pp = 2}};
  check<strategy<mesh<dp, tp>, fp64, selective, replicated>>(flat, one, two, p);
  check<strategy<mesh<dp, tp>, fp64, selective, zero3>>(flat, one, two, p);
  check<strategy<mesh<dp, tp>, fp64, selective, replicated, sequence_parallel>>(flat, one, two, p);
  check<strategy<mesh<dp, tp, pp>, fp64, selective, zero3, sequence_parallel>>(staged, one, two, p);
}
