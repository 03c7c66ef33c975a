// Heads of a model of one's own: multi-head attention, whose keys and values have the queries' heads, in some of its
// layers.
#include <algorithm>
#include <mutex>

#include <doctest/doctest.h>

#include "pruning.hpp"

using namespace weft;
using namespace weft_test::pruning;
using weft_test::said_by;

namespace {

struct own_config {
  std::vector<std::int64_t> heads_of{4, 0, 4, 0};  // by layer; 0: it has no attention
  std::int64_t hidden = 16, vocab = words, max_seq = 8;

  std::vector<std::int64_t> groups_by_layer() const { return heads_of; }
  own_config with_groups(const std::vector<std::int64_t>& groups) const {
    own_config c = *this;
    c.heads_of = groups;
    return c;
  }
};

template <class S>
struct own_layer {
  linear<S, dims<heads, head_dim>, dims<hidden>, heads, true> query, key, value;
  linear<S, dims<hidden>, dims<heads, head_dim>, heads> out;
  mlp<S> feed;
  bool attends = false;

  auto operator()(const auto& x) const {
    if (!attends) return x + leave_block<S>(feed(enter_block<S>(x)));
    const auto y = enter_block<S>(x);
    const auto h = x + leave_block<S>(out(attention(query(y), key(y), value(y))));
    return h + leave_block<S>(feed(enter_block<S>(h)));
  }
};

template <class S>
class own_model : public decoder<S, own_model<S>, own_layer<S>> {
  using base = decoder<S, own_model<S>, own_layer<S>>;

 public:
  own_model(context& ctx, const own_config& c, const char* out = "out")
      : base(ctx, std::ssize(c.heads_of), false), config_(c) {
    parameter_registry& all = base::registry();
    base::add_embedding(c.vocab, c.hidden, 0.3, [] {});
    base::each_layer([&](own_layer<S>& layer, const std::string& prefix, std::int64_t number) {
      const std::int64_t n = c.heads_of[std::size_t(number)];
      const shape stream{1, {c.hidden}}, by_heads{2, {n, 4}};
      layer.attends = n > 0;
      if (n > 0) {
        layer.query.add_to(all, ctx, prefix + "query", by_heads, stream, 0.2);
        layer.key.add_to(all, ctx, prefix + "key", by_heads, stream, 0.2);
        layer.value.add_to(all, ctx, prefix + "value", by_heads, stream, 0.2);
        layer.query.add_bias_to(all, ctx, prefix + "query_bias", by_heads);
        layer.out.add_to(all, ctx, prefix + out, stream, by_heads, 0.2);
      }
      layer.feed.add_to(all, ctx, prefix, c.hidden, 24, 0.2, 0.2);
    });
    base::add_head(c.vocab, c.hidden, 0.2, [] {});
  }
  const own_config& config() const { return config_; }

  struct pass {
    own_model* model;
    auto embed(const auto& tokens) const { return leave_block<S>(embedding(tokens, model->embedding_)); }
    auto block(const own_layer<S>& layer, const auto& x) const { return layer(x); }
    auto head(const auto& table, const auto& x) const { return contract<hidden>(enter_block<S>(x), table); }
  };
  pass pass_for(const typename base::ids&) { return {this}; }

 private:
  own_config config_;
};

struct outcome {
  head_scores magnitudes, gradients;
  kept_heads kept;
  numbers logits;
  double loss = 0;
};
// Judges, prunes by gradient, and compares with the whole model whose heads that go add nothing; then trains.
template <class S>
outcome prune_own(const degrees& ranks) {
  outcome out;
  std::mutex lock;
  launch<S>(ranks, [&](context& ctx) {
    stored<own_model<S>> whole(ctx, own_config{});
    outcome own;
    own.magnitudes = head_magnitudes(ctx, whole.store);
    own.gradients = head_gradients(ctx, whole.model, whole.store, texts{&ctx}, {.batches = 2, .batch = 4});
    own.kept = prune_heads(own.gradients, {.count = 4, .multiple_of = 2});
    own_model<S> small(ctx, pruned(whole.model.config(), own.kept));
    trainer after(ctx, small, adamw{.lr = 1e-2});
    copy_pruned(ctx, whole.store, after.store(), own.kept);
    {
      const recording off(ctx, nullptr);
      const auto tokens = texts{&ctx}.train<typename own_model<S>::ids>(1, 0, rows, length).tokens;
      const auto all = on_host(all_gather<dp>(all_gather<tp>(small(tokens))));
      own.logits.assign(all.begin(), all.end());
    }
    whole.store.load_parameters([&](const parameter_record& p) {
      return gated(p, 4, [&](std::int64_t layer, std::int64_t head) {
        const auto& of_layer = own.kept[std::size_t(layer)];
        return std::find(of_layer.begin(), of_layer.end(), head) != of_layer.end() ? 1.0 : 0.0;
      });
    });
    const numbers wanted = whole.logits(ctx);
    const training_result trained = after.run(texts{&ctx}, {.steps = 3, .batch = rows, .seq = length, .print = false});
    own.loss = trained.loss;
    const std::lock_guard guard(lock);
    CHECK(farthest(own.logits, wanted) < 1e-12);  // fp64, numbers of order 1: the order of sums
    CHECK(trained.loss < trained.first_loss);
    if (out.kept.empty()) out = own;
    CHECK(out.gradients == own.gradients);  // on every rank, bit by bit
  });
  return out;
}

}  // namespace

TEST_CASE("a model of one's own without kv_heads is judged and pruned by its heads, layers without attention stay") {
  using staged = strategy<mesh<dp, pp, tp>, zero1, fp64>;
  const outcome one = prune_own<staged>({});
  REQUIRE(one.magnitudes.size() == 4);
  CHECK((one.magnitudes[0].size() == 4 && one.magnitudes[1].empty() && one.magnitudes[2].size() == 4));
  CHECK((one.kept[0].size() == 2 && one.kept[1].empty() && one.kept[2].size() == 2 && one.kept[3].empty()));
  const auto same = [&](const outcome& other) {
    CHECK(other.kept == one.kept);
    // Sums of some hundred products in another order.
    CHECK(farthest(flat(other.magnitudes), flat(one.magnitudes)) < 1e-12);
    CHECK(farthest(flat(other.gradients), flat(one.gradients)) < 1e-12);
    CHECK(farthest(other.logits, one.logits) < 1e-12);
    CHECK(other.loss == doctest::Approx(one.loss).epsilon(1e-8));  // AdamW divides by small second moments
  };
  same(prune_own<staged>({.tp = 2, .pp = 2}));
  same(prune_own<strategy<mesh<dp, tp>, zero3, fp64, sequence_parallel>>({.dp = 2, .tp = 2}));
}

TEST_CASE("what can't be judged in a model of one's own is said") {
  using S = strategy<mesh<dp, tp>, fp64>;
  launch<S>({.tp = 2}, [](context& ctx) {
    stored<own_model<S>> none(ctx, own_config{.heads_of = {0, 0}}), whole(ctx, own_config{}), same(ctx, own_config{});
    CHECK(said_by([&] { head_magnitudes(ctx, none.store); }) ==
          "the model has no layers with heads: their parameters are called layers.N.NAME, as a decoder's are, and have "
          "the dimensions heads or kv_heads");
    own_model<S> model(ctx, own_config{}, "project");
    store_of<own_model<S>> store(ctx, model.registry(), config_of<replicated>());
    CHECK(said_by([&] { head_gradients(ctx, store, 1); }) ==
          "the model has no output projection of heads, which is called layers.N.out and has the dimension heads: give "
          "a model of your own that name, or judge its heads by head_magnitudes");
    const auto copied = [&](const kept_heads& kept) {
      return said_by([&] { copy_pruned(ctx, whole.store, same.store, kept); });
    };
    const std::vector<std::int64_t> all{0, 1, 2, 3};
    CHECK(copied({all, {}, all, {}}) == "nothing");
    CHECK(copied({all, {0}, all, {}}) ==
          "layer 1 is to keep groups of heads, and has none: its line in what is kept is empty");
    CHECK(copied({all, {}, {}, {}}) == "layer 2 is to keep no group of heads; each keeps at least 1");
    CHECK(copied({all, {}, all, {}, {}}) == "heads of 5 layers are to be kept, and the model has 4");
    CHECK(copied({all, {}, all}) == "heads of 3 layers are to be kept, and the model has 4");
  });
}
