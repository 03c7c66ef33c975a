// Dropout before LoRA's adapters: which elements are dropped, and that this is the same on every mesh, under every
// schedule and in recomputation, another for each projection and pass, and nothing outside of training.
#include <cmath>
#include <map>
#include <ratio>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/autograd/checkpoint.hpp>
#include <weft/nn/gpt2.hpp>
#include <weft/op/create.hpp>
#include <weft/op/kv_cache.hpp>
#include <weft/op/reduce.hpp>
#include <weft/op/to_host.hpp>
#include <weft/testing/strategy.hpp>
#include <weft/train/trainer.hpp>

#include "../said_by.hpp"
#include "../train/small_batches.hpp"

using namespace weft;

namespace {

using numbers = std::vector<double>;
using fifth = std::ratio<1, 5>;

const testing::training_task task{
    {.steps = 3, .micro_batches = 2},
    {.layers = 2, .hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6, .ffn = 18, .vocab = 47, .max_seq = 16}};

// From the second step on B isn't 0, and what A is given counts.
template <class Form, class... Policies>
using dropped = strategy<mesh<dp, pp, tp>, fp64, Form, Policies...>;

void check_same(const testing::training_output& a, const testing::training_output& b) {
  for (const std::string& line : testing::disagreements(a, b, 1e-10, 1e-8)) FAIL_CHECK(line);
}
template <class... Policies>
void equals_one_rank(const degrees& ranks, const testing::training_task& t = task) {
  using form = lora<3, 6, fifth>;
  check_same(testing::train<dropped<form>>({}, t), testing::train<dropped<form, Policies...>>(ranks, t));
}

struct without_the_member : dense {  // a policy as programs wrote them before there was dropout
  static constexpr std::string_view name = "without_the_member";
  static constexpr bool adapts = true;
  static constexpr int rank = 3;
  static constexpr double scale = 2;
};
struct with_the_member : without_the_member {
  static constexpr double dropout = 0.2;
};
struct with_none : without_the_member {
  static constexpr double dropout = 0;
};

}  // namespace

TEST_CASE("the rate is the policy's, within other forms too, and 0 where it has none") {
  const auto rate = []<class Form>(Form) {
    return linear<strategy<mesh<>, fp64, Form>, dims<ffn>, dims<hidden>, ffn>::drops;
  };
  CHECK(rate(lora<16, 32, std::ratio<5, 100>>()) == 0.05);
  CHECK(rate(int8<lora<16, 32, std::ratio<1, 10>>>()) == 0.1);
  CHECK(rate(nf4<lora<16, 32, std::ratio<1, 10>>>()) == 0.1);
  CHECK(rate(fused_qkv<nf4<lora<16, 32, std::ratio<1, 10>>>>()) == 0.1);
  CHECK(rate(with_the_member()) == 0.2);
  for (const double none : {rate(lora<16>()), rate(dense()), rate(int8<>()), rate(without_the_member())})
    CHECK(none == 0);
}

TEST_CASE("a rate of 0 is no dropout, to the bit; the rate's spelling doesn't matter") {
  const auto trained = []<class Form>(Form) { return testing::train<dropped<Form>>({}, task); };
  const auto plain = trained(lora<3, 6>());
  for (const auto& same :
       {trained(without_the_member()), trained(with_none()), trained(lora<3, 6, std::ratio<0, 7>>())}) {
    CHECK(same.losses == plain.losses);
    CHECK(same.gradients == plain.gradients);
  }
  const auto with = trained(lora<3, 6, fifth>()), other = trained(with_the_member());
  CHECK(with.losses == other.losses);
  CHECK(with.gradients == other.gradients);
  CHECK(with.losses[0] == plain.losses[0]);  // B is 0 yet
  CHECK(std::abs(with.losses[2] - plain.losses[2]) > 1e-4);
}

namespace {

// A projection whose weight is 0 and whose adapter's factors are 1: what comes out is what the adapter is given. At
// `cut` its weight is sharded over tp.
template <class S, class Cut>
struct seen_through {
  linear<S, dims<ffn>, dims<hidden>, Cut> project;
  parameter_registry registry;
  parameter_store<cpu_backend, fp64> store;

  seen_through(context& ctx, const std::string& name) : store(ctx, made(ctx, name), config_of<replicated>()) {
    store.load_parameters([](const parameter_record& p) {
      numbers all(16, 0.0);
      if (p.adapter)
        for (std::size_t i = 0; i < 4; ++i) all[i * 5] = 1;
      return all;
    });
  }
  parameter_registry& made(context& ctx, const std::string& name) {
    registry.begin_unit("all");
    project.add_to(registry, ctx, name, {1, {4}}, {1, {4}}, 0.5);
    return registry;
  }
  // Of all rows and columns, on every rank.
  numbers operator()(context& ctx) {
    const auto whole = full<batch_tensor<S, double, dims<batch, hidden>>>(ctx, {64, 4}, 1.0);
    const auto run = [&](const auto& x) {
      return in_unit(
          ctx, store, 0, [&](const auto& in) { return project(in); }, x);
    };
    if constexpr (std::same_as<Cut, hidden>)
      return on_host(all_gather<dp>(all_reduce<tp>(run(split<hidden, tp>(whole)))));
    else
      return on_host(all_gather<dp>(all_gather<tp>(run(whole))));
  }
};

template <class Cut>
std::vector<numbers> masks(const degrees& ranks) {
  using S = strategy<mesh<dp, tp>, fp64, lora<4, 4, std::ratio<1, 4>>>;
  std::vector<numbers> out;
  launch<S>(ranks, [&](context& ctx) {
    seen_through<S, Cut> up(ctx, "up"), down(ctx, "down");
    std::vector<numbers> all;
    for (const std::int64_t pass : {0, 1, 0}) {
      const scoped_value<std::int64_t> now(ctx.pass, pass);
      all.push_back(up(ctx));
      all.push_back(down(ctx));
    }
    {
      const no_grad off(ctx);
      all.push_back(up(ctx));
    }
    if (ctx.is_first()) out = all;
  });
  return out;
}

}  // namespace

TEST_CASE("an element of an adapter's input is dropped by its place in the whole: on any mesh, sharded or not") {
  const auto one = masks<ffn>({});
  for (const int p : {0, 1, 2, 3}) {
    const philox words{launch_options{}.seed, dropout_stream(p % 2 ? "down.lora_dropout" : "up.lora_dropout",
                                                             static_cast<std::uint64_t>(p / 2))};
    int zeros = 0;
    for (std::size_t i = 0; i < 256; ++i) {
      const bool kept = words.word(i) >= 0x40000000u;
      CHECK(one[static_cast<std::size_t>(p)][i] == (kept ? 1 / 0.75 : 0.0));
      zeros += !kept;
    }
    CHECK(zeros > 32);  // 64 of 256 are expected, give or take 7; the seed is fixed
    CHECK(zeros < 96);
  }
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = 0; b < a; ++b) CHECK(one[a] != one[b]);  // other projections, other passes
  CHECK(one[4] == one[0]);
  CHECK(one[5] == one[1]);
  CHECK(one[6] == numbers(256, 1.0));  // nothing is recorded
  CHECK(masks<hidden>({}) == one);
  for (const degrees& d : {degrees{.dp = 2}, degrees{.tp = 2}, degrees{.dp = 2, .tp = 2}, degrees{.dp = 3, .tp = 3}}) {
    CHECK(masks<ffn>(d) == one);
    CHECK(masks<hidden>(d) == one);
  }
}

namespace {
// The gradients of sum(square(project(x))) by name, x's among them, with what was drawn in pass 3; and by differences.
template <bool Again>
void check_gradients_of_a_projection() {
  using S = strategy<mesh<>, fp64, lora<2, 3, std::ratio<2, 5>>>;
  launch<S>({}, [](context& ctx) {
    parameter_registry registry;
    registry.begin_unit("all");
    linear<S, dims<ffn>, dims<hidden>, ffn> project;
    project.add_to(registry, ctx, "up", {1, {4}}, {1, {5}}, 0.5);
    parameter_store<cpu_backend, fp64> store(ctx, registry, config_of<replicated>());
    std::map<std::string, numbers> at, gradients;
    for (const parameter_record& p : registry.units()[0].parameters)
      for (std::int64_t i = 0; i < p.global.elements(); ++i)
        at[p.name].push_back(std::sin(double(i) + double(p.name.size())));
    for (int i = 0; i < 15; ++i) at["x"].push_back(std::cos(i));
    const auto forward = [&](bool steps, auto&& then) {
      store.load_parameters([&](const parameter_record& p) { return at[p.name]; });
      auto x = generate<batch_tensor<S, double, dims<batch, hidden>>>(
          ctx, {3, 5}, [&](std::int64_t i) { return at["x"][static_cast<std::size_t>(i)]; });
      x.requires_grad();
      if (steps) store.begin_step(1);
      const auto loss = [&] {
        const scoped_value<std::int64_t> now(ctx.pass, 3);
        return in_unit(
            ctx, store, 0,
            [&](const auto& in) {
              const auto f = [&](const auto& h) { return sum(square(project(h))); };
              if constexpr (Again)
                return checkpoint(f, in);
              else
                return f(in);
            },
            x);
      }();
      then(x, loss);
    };
    forward(true, [&](auto& x, const auto& loss) {
      const scoped_value<std::int64_t> another(ctx.pass, 8);  // a pass's backward comes when others have begun
      backward(loss);
      store.end_micro_batch();
      store.finish_gradients();
      store.each_parameter(
          [&](const parameter_record& p, auto g, auto) { gradients[p.name].assign(g.begin(), g.end()); });
      gradients["x"] = on_host(all_gather<dp>(x.grad()));
    });
    for (auto& entry : at) {
      const std::string& name = entry.first;
      numbers& all = entry.second;
      REQUIRE(gradients[name].size() == all.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        // The loss is a square in each number, so central differences are exact but for rounding.
        double sides[2];
        for (const int side : {0, 1}) {
          const scoped_value<double> moved(all[i], all[i] + (side ? 0.5 : -0.5));
          forward(false, [&](auto&, const auto& loss) { sides[side] = item(all_reduce<tp>(all_reduce<dp>(loss))); });
        }
        CAPTURE(name);
        CHECK(gradients[name][i] == doctest::Approx(sides[1] - sides[0]).epsilon(1e-10));
      }
    }
  });
}
}  // namespace

TEST_CASE("gradients are those of the masks that the forward drew") { check_gradients_of_a_projection<false>(); }
TEST_CASE("computed again in its backward, a pass draws what it drew at first") {
  check_gradients_of_a_projection<true>();
}

TEST_CASE("a Llama whose adapters have dropout equals one rank: sharding, tp, sequence parallelism, recomputation") {
  equals_one_rank<replicated>({.dp = 2, .tp = 2});
  equals_one_rank<zero3, sequence_parallel, checkpoint_full>({.dp = 2, .tp = 2});
  equals_one_rank<zero2, checkpoint_selective>({.tp = 2});
}
TEST_CASE("on the stages of a pipeline, under schedules that mix micro-batches and split backwards") {
  testing::training_task t = task;
  t.model.layers = 4, t.micro_batches = 4, t.batch = 4;
  equals_one_rank<zero2>({.dp = 2, .pp = 2}, t);
  equals_one_rank<interleaved<2>, checkpoint_full>({.pp = 2}, t);
  equals_one_rank<zb_h1, checkpoint_selective>({.tp = 2, .pp = 2}, t);
  equals_one_rank<zbv, zero1>({.pp = 2}, t);
}
TEST_CASE("in a GPT-2 with dropout of its own and one projection for queries, keys and values") {
  const gpt2_config c{.layers = 2, .hidden = 12, .heads = 2, .vocab = 47, .max_seq = 16, .dropout = 0.2};
  using form = fused_qkv<lora<3, 6, fifth>>;
  const auto trained = [&]<class S>(S, const degrees& d) { return testing::train_model<gpt2<S>>(d, c, task); };
  const auto one = trained(dropped<form>(), {});
  check_same(one, trained(dropped<form, zero3, checkpoint_full>(), {.dp = 2, .tp = 2}));
  check_same(one, trained(dropped<form, sequence_parallel>(), {.tp = 2, .pp = 2}));
}
TEST_CASE("recomputation changes no bit, in bf16 neither") {
  const auto losses = []<class S>(S) { return testing::train<S>({.tp = 2}, task).losses; };
  using form = lora<3, 6, fifth>;
  const auto kept = losses(strategy<mesh<tp>, bf16_mixed, form>());
  CHECK(losses(strategy<mesh<tp>, bf16_mixed, form, checkpoint_full>()) == kept);
  CHECK(losses(strategy<mesh<tp>, bf16_mixed, form, checkpoint_selective>()) == kept);
  CHECK(losses(strategy<mesh<tp>, bf16_mixed, lora<3, 6>>()) != kept);
}

namespace {
// Logits of a model whose factors are both other than 0: of two recorded passes, unrecorded, read by a cache.
template <class Form>
std::vector<numbers> said(const degrees& ranks) {
  using S = dropped<Form>;
  std::vector<numbers> out;
  launch<S>(ranks, [&](context& ctx) {
    llama<S> model(ctx, task.model);
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
    model.use(store);
    store.load_parameters([](const parameter_record& p) {
      numbers all(static_cast<std::size_t>(p.global.elements()));
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::sin(double(i) + double(p.name.size()));
      return all;
    });
    const auto tokens = generate<token_ids<S>>(ctx, {2, 8}, [](std::int64_t i) { return i * 7 % 47; });
    const auto note = [&](const auto& y) {
      const numbers all = on_host(all_gather<dp>(all_gather<tp>(y)));
      if (ctx.is_first()) out.push_back(all);
    };
    note(model(tokens));
    note(model(tokens));
    CHECK(model.recorded_passes() == 2);
    {
      const no_grad off(ctx);
      note(model(tokens));
    }
    kv_cache cache(ctx, untyped(tokens).held().shape[0], 8);
    note(model.decode(tokens, cache));
    CHECK(model.recorded_passes() == 2);
    model.recorded_passes(0);
    note(model(tokens));
    CHECK(model.recorded_passes() == 1);
  });
  return out;
}
}  // namespace

TEST_CASE("evaluation and generation drop nothing and are no recorded pass") {
  const auto with = said<lora<3, 6, fifth>>({}), without = said<lora<3, 6>>({});
  CHECK(with[0] != with[1]);
  CHECK(with[0] != without[0]);
  CHECK(with[2] == without[2]);
  CHECK(with[3] == without[3]);
  CHECK(with[4] == with[0]);
}

namespace {
// A model that is one function and counts nothing.
template <class S>
class one_projection {
 public:
  using strategy = S;
  using ids = token_ids<S>;
  explicit one_projection(context& ctx, int = 0) : ctx_(ctx) {
    registry_.begin_unit("all");
    registry_.add(ctx, table_, "table", {2, {47, 8}}, {0.5});
    project_.add_to(registry_, ctx, "project", {1, {6}}, {1, {8}}, 0.5);
    registry_.add(ctx, head_, "head", {2, {47, 6}}, {0.5});
  }
  auto operator()(const ids& tokens) {
    return in_unit(
        ctx_, *hooks_, 0,
        [&](const auto& t) { return all_reduce<tp>(contract<ffn>(project_(embedding(t, table_)), head_)); }, tokens);
  }
  parameter_registry& registry() { return registry_; }
  void use(unit_hooks& hooks) { hooks_ = &hooks; }
  void release() { hooks_ = nullptr; }

 private:
  context& ctx_;
  parameter_registry registry_;
  unit_hooks* hooks_ = nullptr;
  weight<S, dims<vocab, hidden>> table_;
  weight<S, dims<vocab, ffn>, shard<ffn, tp>> head_;
  linear<S, dims<ffn>, dims<hidden>, ffn> project_;
};
struct sizes_of_one {
  std::int64_t vocab = 47;
  operator int() const { return 0; }
};
}  // namespace

TEST_CASE("a model that is one function has numbered passes from its pipeline, or is told what it lacks") {
  using S = strategy<mesh<dp>, fp64, lora<2, 4, fifth>>;
  using T = strategy<mesh<dp>, fp64, lora<2, 4>>;
  const auto trained = []<class X>(X, const degrees& d) {
    return testing::train_model<one_projection<X>>(d, sizes_of_one(), task);
  };
  const auto one = trained(S(), {});
  check_same(one, trained(S(), {.dp = 2}));
  CHECK(one.losses[2] != doctest::Approx(trained(T(), {}).losses[2]).epsilon(1e-6));
  launch<S>({.dp = 2}, [](context& ctx) {
    one_projection<S> model(ctx);
    trainer t(ctx, model);
    t.run(weft_test::small_batches{&ctx}, {.steps = 3, .batch = 8, .micro_batches = 2, .seq = 8, .print = false});
    CHECK(t.state().passes == 6);  // what a checkpoint keeps
    t.resume({.passes = 9});
    CHECK(t.state().passes == 9);
  });
  launch<S>({}, [](context& ctx) {
    one_projection<S> model(ctx);
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
    model.use(store);
    const auto tokens = generate<token_ids<S>>(ctx, {2, 8}, [](std::int64_t i) { return i * 7 % 47; });
    CHECK(weft_test::said_by([&] { model(tokens); })
              .find("dropout of \"project.lora_dropout\" draws by the number of "
                    "the recorded pass, and nobody said it") != std::string::npos);
    const scoped_value<std::int64_t> pass(ctx.pass, 1);
    CHECK(weft_test::said_by([&] { model(tokens); }) == "nothing");
    const auto x = full<batch_tensor<S, double, dims<batch, hidden>>>(ctx, {2, 3}, 1.0);
    const auto kept = training_dropout(x, 0.5, "x");
    CHECK(local_share_on_host(kept) == local_share_on_host(dropout(x, 0.5, dropout_stream("x", 1))));
    for (const double rate : {-0.1, 1.0, double(NAN)})
      CHECK(weft_test::said_by([&] { training_dropout(x, rate, "x"); }).find("a dropout rate is from 0 to below 1") !=
            std::string::npos);
  });
}
