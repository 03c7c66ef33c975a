// The loss in chunks of the sequence is the loss: sums, counts and every gradient are those of one rank that has all
// logits at once, whatever is sharded, tied, staged or recomputed.
#include "parallel/gpt2.hpp"
#include "parallel/training.hpp"
#include "policy/in_parts.hpp"

namespace {
using namespace weft;
using weft_test::check_equal;
using weft_test::task;
using weft_test::train;
using weft_test::train_model;

// Sums over tokens are added up in another order, each addend rounded to 1.1e-16; the largest gradients are sums of a
// few hundred products, and pass through two layers. One step, so that AdamW multiplies nothing.
constexpr double rounding = 1e-12;

task one_step(bool tied = false) {
  task t{{.batch = 4, .seq = 15, .steps = 1, .micro_batches = 2}};  // neither tp nor the chunks divide 15
  t.model.tied_embeddings = tied;
  return t;
}
const weft_test::output& at_once(bool tied) {
  static const auto apart = train<strategy<mesh<>, fp64>>({}, one_step(false)),
                    same = train<strategy<mesh<>, fp64>>({}, one_step(true));
  return tied ? same : apart;
}
template <class S>
void check(const degrees& ranks, bool tied = false) {
  static_assert(S::loss::loss_chunks > 0);
  CAPTURE(tied);
  check_equal(at_once(tied), train<S>(ranks, one_step(tied)), rounding, rounding);
}
}  // namespace

TEST_CASE("one rank: chunks that divide nothing, one, and more than tokens") {
  check<strategy<mesh<>, fp64, chunked_loss<4>>>({});
  check<strategy<mesh<>, fp64, chunked_loss<1>>>({}, true);
  check<strategy<mesh<>, fp64, chunked_loss<100>>>({});
}
TEST_CASE("the vocabulary sharded over tp, with and without the sequence") {
  for (const bool tied : {false, true}) {
    check<strategy<mesh<dp, tp>, fp64, chunked_loss<4>, zero3>>({.dp = 2, .tp = 2}, tied);
    check<strategy<mesh<dp, tp>, fp64, chunked_loss<4>, zero3, sequence_parallel, checkpoint_full>>({.dp = 2, .tp = 2},
                                                                                                    tied);
  }
}
TEST_CASE("the last stage of a pipeline, backwards whole and in two parts") {
  for (const bool tied : {false, true}) {
    check<strategy<mesh<pp>, fp64, chunked_loss<3>>>({.pp = 2}, tied);
    check<strategy<mesh<pp, dp, tp>, fp64, chunked_loss<3>, weft_test::in_parts, zero3, sequence_parallel>>(
        {.dp = 2, .tp = 2, .pp = 2}, tied);
  }
}
TEST_CASE("several virtual stages a rank, the last on the first rank") {
  task t{{.batch = 4, .seq = 15, .steps = 1, .micro_batches = 4}};
  t.model.layers = 4, t.model.tied_embeddings = true;
  check_equal(train<strategy<mesh<>, fp64>>({}, t),
              train<strategy<mesh<pp, dp>, fp64, zbv, zero3, chunked_loss<4>>>({.dp = 2, .pp = 2}, t), rounding,
              rounding);
}
TEST_CASE("gpt2, whose passes are numbered for dropout") {
  const weft_test::plan p{.batch = 4, .steps = 1, .micro_batches = 2};
  const auto cleaned = [](auto o) { return weft_test::without_key_biases(std::move(o), rounding); };
  const auto whole = cleaned(train_model<gpt2<strategy<mesh<>, fp64>>>({}, weft_test::small_gpt2, p));
  using S = strategy<mesh<dp, tp>, fp64, zero2, sequence_parallel, chunked_loss<5>>;
  check_equal(whole, cleaned(train_model<gpt2<S>>({.dp = 2, .tp = 2}, weft_test::small_gpt2, p)), rounding, rounding);
}
