// The loss in chunks of a decoder and a loss of one's own: trained, validated and under a loss scale as at once.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

// Its pass has head(table, h) alone, and in it what a head of one's own may have: a bias of the stream.
template <class S>
class stack : public decoder<S, stack<S>, mlp<S>> {
  using base = decoder<S, stack<S>, mlp<S>>;

 public:
  struct sizes {
    std::int64_t layers = 2, hidden = 16, vocab = 256, max_seq = 7;
  };
  explicit stack(context& ctx, bool tied) : base(ctx, 2, tied) {
    base::add_embedding(256, 16, 0.3, [] {});
    base::each_layer([&](mlp<S>& layer, const std::string& prefix) {
      layer.add_to(base::registry(), ctx, prefix, 16, 24, 0.2, 0.2);
    });
    base::add_head(256, 16, 0.2, [&] { base::registry().add(ctx, shift_, "shift", {1, {16}}, {0.1}); });
  }
  const sizes& config() const { return config_; }

  struct pass {
    stack* model;
    auto embed(const auto& tokens) const { return leave_block<S>(embedding(tokens, model->embedding_)); }
    auto block(const mlp<S>& layer, const auto& x) const { return x + leave_block<S>(layer(enter_block<S>(x))); }
    auto head(const auto& table, const auto& x) const {
      return contract<hidden>(enter_block<S>(x + model->shift_), table);
    }
  };
  pass pass_for(const typename base::ids&) { return {this}; }

 private:
  sizes config_;
  norm_weight<S, dims<hidden>> shift_;
};

// Smoothed labels, and the squares of all logits beside it, as what keeps them small; these are gathered over tp, since
// their sum would be pending there and cross-entropy's isn't.
struct own_loss {
  template <class Logits, class Targets>
  auto operator()(const Logits& logits, const Targets& targets) const {
    const auto nats = cross_entropy(logits, targets, {.label_smoothing = 0.1});
    const auto wide = cast<typename decltype(nats.sum)::element_type>(convert<invariant<tp>>(logits));
    return loss{nats.sum + 1e-3 * sum(square(wide)), nats.count};
  }
};

struct outcome {
  double first, last, validation;
};
template <class S>
outcome learn(const degrees& ranks, bool tied) {
  outcome out{};
  launch<S>(ranks, [&](context& ctx) {
    stack<S> model(ctx, tied);
    trainer t(ctx, model, adamw{.lr = 1e-2}, own_loss{});
    std::string words;
    for (int i = 0; i < 400; ++i) words += "to be or not to be, that is the question " + std::to_string(i * i % 97);
    const text_dataset data(ctx, std::make_shared<const text_corpus>("words", words));
    const training_result r =
        t.run(data, {.steps = 3, .batch = 4, .micro_batches = 2, .validation_sequences = 4, .print = false});
    if (ctx.is_first()) out = {r.first_loss, r.loss, r.validation_loss};
  });
  return out;
}
// AdamW divides by the root of a small second moment, which multiplies a rounding by up to 1e4 in the first steps.
void check_same(const outcome& a, const outcome& b, double first, double later) {
  CHECK(a.first == doctest::Approx(b.first).epsilon(first));
  CHECK(a.last == doctest::Approx(b.last).epsilon(later));
  CHECK(a.validation == doctest::Approx(b.validation).epsilon(later));
  CHECK(a.last < a.first);
}
}  // namespace

TEST_CASE("a model and a loss of one's own") {
  for (const bool tied : {false, true}) {
    CAPTURE(tied);
    const outcome whole = learn<strategy<mesh<>, fp64>>({}, tied);
    check_same(whole, learn<strategy<mesh<dp, tp>, fp64, zero3, chunked_loss<3>>>({.dp = 2, .tp = 2}, tied), 1e-12,
               1e-10);
    check_same(whole, learn<strategy<mesh<pp>, fp64, gpipe, chunked_loss<20>>>({.pp = 2}, tied), 1e-12, 1e-10);
  }
}
TEST_CASE("fp16, under its loss scale") {
  // Logits and their gradients are rounded to 2^-11, piece by piece or at once.
  check_same(learn<strategy<mesh<>, fp16_mixed>>({}, false),
             learn<strategy<mesh<>, fp16_mixed, chunked_loss<3>>>({}, false), 1e-3, 1e-2);
}
