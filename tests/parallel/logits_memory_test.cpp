// The logits are there once: the loss writes their gradient over them, and nobody else holds them by then. By the
// ledger: the peak of activations grows with the vocabulary by one such array, and by what cross-entropy keeps of it.
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

#include "policy/in_parts.hpp"

namespace {
using namespace weft;
using std::size_t;
using weft_test::in_parts;

constexpr std::int64_t sequences = 2, length = 32, micro_batches = 2, few = 512, more = 1536;

template <class S>
struct llama_of {
  using model = llama<S>;
  static llama_config config(std::int64_t words, bool tied) {
    return {.layers = 2, .hidden = 16, .heads = 2, .vocab = words, .max_seq = length, .tied_embeddings = tied};
  }
};
template <class S>
struct gpt2_of {
  using model = gpt2<S>;
  static gpt2_config config(std::int64_t words, bool tied) {
    return {.layers = 2,
            .hidden = 16,
            .heads = 2,
            .vocab = words,
            .max_seq = length,
            .dropout = 0.1,
            .tied_embeddings = tied};
  }
};

template <class Of, class S>
std::vector<double> peaks(const degrees& ranks, std::int64_t words, bool tied, bool trains = true) {
  using M = typename Of::model;
  std::vector<double> out(size_t(ranks.product()), 0);
  launch<S>(ranks, [&](context& ctx) {
    M model(ctx, Of::config(words, tied));
    parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    pipeline<M> runs(ctx, model);
    using ids = typename M::ids;
    struct token_pair {
      ids tokens, targets;
    };
    const auto read = [&](int) {
      const auto x = generate<ids>(ctx, {sequences, length}, [&](std::int64_t i) { return i * 5 % words; });
      return token_pair{x, x};
    };
    store.begin_step(micro_batches);
    ctx.memory.reset_peaks();
    if (trains)
      runs.train(micro_batches, 1, read, [&](int) { store.end_micro_batch(); });
    else
      runs.evaluate(micro_batches, read);
    out[size_t(ctx.rank().here())] = double(ctx.memory.ledger().peak[size_t(memory::activations)]);
    if (trains) store.finish_gradients();
  });
  return out;
}

// How many arrays [tokens, vocab/tp] of the type that logits have the last stage holds at most.
template <template <class> class Of, class S>
void check_once(const degrees& ranks, bool tied, double times = 1, std::int64_t wider = 1) {
  const auto small = peaks<Of<S>, S>(ranks, few * wider, tied), large = peaks<Of<S>, S>(ranks, more * wider, tied);
  const double logits = double(size_t(sequences / ranks.dp * length * (more - few) * wider / ranks.tp) *
                               sizeof(typename S::precision::compute));
  for (size_t r = 0; r < small.size(); ++r) {
    CAPTURE(r);
    const bool last = r / (small.size() / size_t(ranks.pp)) == size_t(ranks.pp - 1);  // pp is the outermost axis
    CHECK((large[r] - small[r]) / logits == doctest::Approx(last ? times : 0).epsilon(0.01));
  }
}

// The same of a loop of one's own, whose head and loss are recomputed, together or the head alone.
template <class Policy>
double peak_of_loop(std::int64_t words, bool loss_within) {
  double out = 0;
  launch<strategy<mesh<>>>({}, [&](context& ctx) {
    using stream = tensor<float, dims<batch, seq, hidden>>;
    const auto ids = generate<tensor<std::int32_t, dims<batch, seq>>>(ctx, {sequences, length},
                                                                      [&](std::int64_t i) { return i * 5 % words; });
    const auto w = normal<tensor<float, dims<vocab, hidden>>>(ctx, "w", {words, 16}).requires_grad();
    const auto x = normal<stream>(ctx, "x", {sequences, length, 16}).requires_grad();
    tape recorded;
    const recording on(ctx, &recorded);
    ctx.memory.reset_peaks();
    const auto& ledger = ctx.memory.ledger();
    const size_t at = size_t(memory::activations), before = ledger.current[at];
    const auto head = [w](const stream& h) { return contract<hidden>(h, w); };
    if (loss_within)
      backward(checkpoint<Policy>([head, ids](const stream& h) { return cross_entropy(head(h), ids).sum; }, x));
    else
      backward(cross_entropy(checkpoint<Policy>(head, x), ids).sum);
    out = double(ledger.peak[at] - before);
  });
  return out;
}
template <class Policy>
void check_loop(bool loss_within) {
  const double logits = 4 * sequences * length * (more - few);
  CHECK((peak_of_loop<Policy>(more, loss_within) - peak_of_loop<Policy>(few, loss_within)) / logits ==
        doctest::Approx(1).epsilon(0.01));
}
}  // namespace

TEST_CASE("one rank holds the logits once") {
  check_once<llama_of, strategy<mesh<>>>({}, false);
  check_once<llama_of, strategy<mesh<>, bf16_mixed>>({}, true);
  check_once<llama_of, strategy<mesh<>, checkpoint_full>>({}, true);
  check_once<gpt2_of, strategy<mesh<>, checkpoint_selective>>({}, true);
}
TEST_CASE("sharded over tp, with and without the sequence, every rank holds its share of the logits once") {
  check_once<llama_of, strategy<mesh<dp, tp>>>({.dp = 2, .tp = 2}, true);
  check_once<llama_of, strategy<mesh<dp, tp>, zero3, sequence_parallel, checkpoint_full>>({.dp = 2, .tp = 2}, true);
  check_once<gpt2_of, strategy<mesh<dp, tp>, zero2, sequence_parallel>>({.dp = 2, .tp = 2}, false);
}
TEST_CASE("the last stage of a pipeline holds the logits once, backwards whole and in two parts") {
  check_once<llama_of, strategy<mesh<pp>>>({.pp = 2}, false);
  check_once<llama_of, strategy<mesh<pp, tp>, checkpoint_full, sequence_parallel>>({.tp = 2, .pp = 2}, true);
  check_once<llama_of, strategy<mesh<pp>, in_parts>>({.pp = 2}, true);
  check_once<gpt2_of, strategy<mesh<pp, dp>, in_parts, zero3, checkpoint_selective>>({.dp = 2, .pp = 2}, true);
}
TEST_CASE("of a loss in chunks the last stage holds one chunk's logits") {
  using four = chunked_loss<4>;
  check_once<llama_of, strategy<mesh<>, four>>({}, false, 0.25);
  check_once<gpt2_of, strategy<mesh<>, bf16_mixed, checkpoint_selective, chunked_loss<1>>>({}, true, 1);
  check_once<llama_of, strategy<mesh<dp, tp>, zero3, sequence_parallel, checkpoint_full, four>>({.dp = 2, .tp = 2},
                                                                                                true, 0.25, 8);
  check_once<llama_of, strategy<mesh<pp>, four>>({.pp = 2}, true, 0.25, 8);
  // Between the two parts of a backward all gradients of logits wait for the weights' part.
  check_once<llama_of, strategy<mesh<pp>, in_parts, four>>({.pp = 2}, true, 1);
}
TEST_CASE("evaluation holds one chunk's logits too") {
  using whole = strategy<mesh<>>;
  using cut = strategy<mesh<>, chunked_loss<4>>;
  const auto grows = [](auto peaks) { return peaks(8 * more)[0] - peaks(8 * few)[0]; };
  const double logits = 4 * sequences * length * 8 * (more - few);
  CHECK(grows([](std::int64_t words) { return peaks<llama_of<whole>, whole>({}, words, false, false); }) / logits ==
        doctest::Approx(1).epsilon(0.01));
  CHECK(grows([](std::int64_t words) { return peaks<llama_of<cut>, cut>({}, words, false, false); }) / logits ==
        doctest::Approx(0.25).epsilon(0.01));
}
TEST_CASE("logits with a name are held beside their gradient, unless they are moved into the loss") {
  const auto peak = [](std::int64_t words, bool moves) {
    double out = 0;
    launch<strategy<mesh<>>>({}, [&](context& ctx) {
      const auto ids =
          generate<tensor<std::int32_t, dims<batch>>>(ctx, {64}, [&](std::int64_t i) { return i % words; });
      tape recorded;
      const recording on(ctx, &recorded);
      const auto x = normal<tensor<float, dims<batch, vocab>>>(ctx, "x", {64, words}).requires_grad();
      ctx.memory.reset_peaks();
      const std::size_t before = ctx.memory.ledger().total;
      auto logits = 2 * x;
      const auto l = moves ? cross_entropy(std::move(logits), ids) : cross_entropy(logits, ids);
      CHECK(bool(untyped(logits).data) == !moves);
      backward(l.sum);
      out = double(ctx.memory.ledger().peak_total - before);
    });
    return out;
  };
  const double logits = 4 * 64 * (more - few);  // x has a gradient of that size too
  CHECK((peak(more, true) - peak(few, true)) / logits == doctest::Approx(2).epsilon(0.01));
  CHECK((peak(more, false) - peak(few, false)) / logits == doctest::Approx(3).epsilon(0.01));
}
TEST_CASE("a head that is recomputed holds the logits once, with the loss or without") {
  for (const bool loss_within : {false, true}) {
    CAPTURE(loss_within);
    check_loop<checkpoint_full>(loss_within);
    check_loop<checkpoint_selective>(loss_within);
  }
}
