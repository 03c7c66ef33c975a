// What differs from parameter to parameter within a unit: frozen or trained, stored over another axis or none, updated
// as matrices or element by element. In double, on one rank and on several.
#include <map>
#include <mutex>
#include <string>

#include <weft/optim/muon.hpp>
#include <weft/optim/one_owner.hpp>
#include <weft/optim/sgd.hpp>

#include "banked_model.hpp"

namespace {
using namespace weft_test;

template <class Sharding, class... Axes>
using banked = banked_model<wide<Sharding, Axes...>, dp>;
template <class Sharding, class... Axes>
using small = small_model<wide<Sharding, Axes...>>;

constexpr sgd plain{.lr = 0.5};
constexpr degrees four{.dp = 2, .tp = 2};
const auto in_block = [](const parameter_record& p) { return p.name.starts_with("block."); };

struct zero3_vectors_kept : zero3 {
  static constexpr std::string_view name = "zero3_vectors_kept";
  static constexpr bool keeps_vectors = true;
};

// A block between ends that tp doesn't divide, and whose function makes NaN of the zeros that padding holds: backward,
// the root's infinity times 0. So the gradients of its first matrix are NaN in their padding when a backward writes
// them.
template <class S>
class bent_model : public model_base<S> {
 public:
  static constexpr std::int64_t inner = 7;
  explicit bent_model(context& ctx) : model_base<S>(ctx) {
    parameter_registry& all = this->registry();
    unit_ = all.begin_unit("all");
    all.add(ctx, table_, "table", {2, {256, 32}}, {0.3});
    all.add(ctx, up_, "up", {2, {inner, 32}}, {0.3});
    all.add(ctx, down_, "down", {2, {inner, 32}}, {0.3});
    all.add(ctx, head_, "head", {2, {256, 32}}, {0.2});
  }
  auto operator()(const token_ids<S>& tokens) {
    const auto all = [&](const auto& t) {
      const auto x = all_reduce<tp>(embedding(t, table_));
      const auto y = x + all_reduce<tp>(contract<ffn>(sqrt(square(contract<hidden>(x, up_))), down_));
      return contract<hidden>(y, head_);
    };
    return this->run_unit(unit_, all, tokens);
  }

 private:
  int unit_;
  weight<S, dims<vocab, hidden>, shard<vocab, tp>> table_, head_;
  weight<S, dims<ffn, hidden>, shard<ffn, tp>> up_, down_;
};

// How many elements each of its kernels was given.
struct noted : sgd {
  std::vector<std::int64_t>* given;
  template <class Share>
  void update(const Share& s, const kernel_step& step) const {
    given->push_back(s.count);
    sgd::update(s, step);
  }
};

}  // namespace

TEST_CASE("an optimizer's kernel takes a bucket's parameters together, those that decay and those that don't") {
  using sizes = std::vector<std::int64_t>;
  const auto given = [](const auto& freeze, numbers* out = nullptr) {
    sizes all;
    const numbers trained =
        train_by_hand<banked<replicated>>({}, noted{{.lr = 0.5, .weight_decay = 0.1}, &all}, freeze);
    if (out) *out = trained;
    return all;
  };
  const auto three = [](const sizes& once) {
    sizes all;
    for (int step = 0; step < 3; ++step) all.insert(all.end(), once.begin(), once.end());
    return all;
  };
  constexpr std::int64_t table = 256 * 32, bank = 6 * 32, gain = 32;
  numbers together;
  CHECK(given(nothing{}, &together) == three({table + bank + gain + table}));
  CHECK(given([](const parameter_record& p) { return p.name == "gain"; }) == three({table + bank + table}));
  CHECK(given([](const parameter_record& p) { return p.name == "bank"; }) == three({table + gain + table}));
  CHECK(worst(together, train_by_hand<banked<zero3>>(four, sgd{.lr = 0.5, .weight_decay = 0.1})) < 1e-12);
}

TEST_CASE("more parameters that decay between such that don't than one kernel is told of take a second one") {
  using S = strategy<mesh<dp>>;
  using x_type = tensor<float, dims<batch, hidden>, shard<batch, dp>>;
  constexpr int each = decay_ranges::most + 2;
  constexpr std::int64_t width = 8, stride = 16;  // of a vector; from parameter to parameter
  launch<S>({}, [&](context& ctx) {
    parameter_registry registry;
    registry.begin_unit("all");
    std::vector<weight<S, dims<ffn, hidden>>> matrices(each);
    std::vector<weight<S, dims<hidden>>> vectors(each);
    for (std::size_t i = 0; i < each; ++i) {
      registry.add(ctx, matrices[i], "matrix " + std::to_string(i), {2, {2, width}}, {0, 1});
      registry.add(ctx, vectors[i], "vector " + std::to_string(i), {1, {width}}, {0, 1});
    }
    parameter_store<cpu_backend, fp32> store(ctx, registry, config_of<replicated, noted>());
    store.begin_step(1);
    const auto x = from_global<x_type>(ctx, {1, width}, std::vector<float>(width));
    backward(sum(square(in_unit(
        ctx, store, 0, [&](const x_type& in) -> x_type { return in * vectors[0]; }, x))));  // gradients of 0
    store.end_micro_batch();
    store.finish_gradients();
    std::vector<std::int64_t> given;
    store.update(noted{{.weight_decay = 0.5}, &given}, optimizer_step{1, 0.5, 1.0});
    CHECK(given == std::vector{2 * stride * decay_ranges::most - width, 2 * stride * 2 - width});
    store.each_parameter([](const parameter_record& p, auto, auto weights) {
      for (const float w : weights) CHECK(w == (p.global.ndim == 2 ? 0.75f : 1.0f));
    });
  });
}

TEST_CASE("weights that differ along the storage's axis are stored where they are, under every sharding policy") {
  const numbers one = train_by_hand<banked<replicated>>({}, plain);
  CHECK(one.size() == 4);
  CHECK(worst(one, train_by_hand<banked<replicated>>({.dp = 3}, plain)) < 1e-12);
  CHECK(worst(one, train_by_hand<banked<zero1>>(four, plain)) < 1e-12);
  CHECK(worst(one, train_by_hand<banked<zero2>>(four, plain)) < 1e-12);
  const auto kept = [](context& ctx, auto& store) {
    store.each_stored([&](const stored_parameter& p) {
      CHECK((p.storage.empty()) == (p.record.name == "bank"));
      if (p.record.name == "bank") CHECK(p.weight.elements() == 6 / ctx.degree<dp>() * 32);
    });
  };
  CHECK(worst(one, train_by_hand<banked<zero3>>(four, plain, nothing{}, kept)) < 1e-12);
}

TEST_CASE("frozen parameters stay, the others train as before, and every sharding policy equals one rank") {
  const numbers all = train_by_hand<small<replicated>>({}, plain),
                one = train_by_hand<small<replicated>>({}, plain, in_block), still = [] {
                  const sgd none{.lr = 0};
                  return train_by_hand<small<replicated>>({}, none);
                }();
  CHECK(worst(all, one) > 1e-3);
  int frozen = 0;
  for (const auto& [name, values] : one) {
    const bool same = values == still.at(name);
    CHECK(same == name.starts_with("block."));
    frozen += same;
  }
  CHECK(frozen == 4);
  CHECK(worst(one, train_by_hand<small<replicated>>(four, plain, in_block)) < 1e-12);
  CHECK(worst(one, train_by_hand<small<zero1>>(four, plain, in_block)) < 1e-12);
  CHECK(worst(one, train_by_hand<small<zero2>>(four, plain, in_block)) < 1e-12);
  CHECK(worst(one, train_by_hand<small<zero3>>(four, plain, in_block)) < 1e-12);
  CHECK(worst(one, train_by_hand<small<hybrid, fsdp>>(degrees{.dp = 2}.with<fsdp>(2), plain, in_block)) < 1e-12);
}

TEST_CASE("frozen parameters cost no gradient, no moments, no master weights and no collective of gradients") {
  using S = strategy<mesh<dp>, zero2, bf16_mixed>;
  for (const bool freezes : {false, true}) {
    trace_log log(2);
    const auto after = [&](context& ctx, auto& store) {
      std::int64_t trained = 0, all = 0;  // elements
      store.each_stored([&](const stored_parameter& p) {
        if (p.record.trained) trained += p.weight.elements();
        CHECK(bool(p.gradient) == p.record.trained);
        CHECK(bool(p.first) == p.record.trained);
        CHECK((p.weight.type == dtype::bf16) == !p.record.trained);
      });
      all = 2 * 256 * 32 + 3 * 32 * 64 + 32;
      const std::int64_t block = 3 * 32 * 64 + 32, wanted = freezes ? all - block : all;
      CHECK(trained * ctx.degree<dp>() == wanted);
      const memory_ledger& ledger = ctx.memory.ledger();
      const auto bytes = [&](memory category) {
        return static_cast<std::int64_t>(ledger.current[static_cast<std::size_t>(category)]);
      };
      CHECK(bytes(memory::parameters) == 2 * all);
      CHECK(bytes(memory::gradients) == 4 * wanted / 2);
      CHECK(bytes(memory::optimizer) == (4 + 4) * wanted / 2);  // master weights and a velocity
    };
    train_by_hand<small_model<S>>(
        {.dp = 2}, plain, [&](const parameter_record& p) { return freezes && in_block(p); }, after, &log);
    bool of_block = false;
    for (const trace_event& e : log.events(0))
      of_block = of_block || e.label.find("gradients of block") != e.label.npos;
    CHECK(of_block == !freezes);
  }
}

TEST_CASE("what is frozen too late is refused") {
  using S = strategy<mesh<dp>>;
  launch<S>({}, [](context& ctx) {
    small_model<S> model(ctx);
    parameter_store<cpu_backend, fp32> store(ctx, model.registry(), config_of<replicated>());
    CHECK_THROWS_WITH_AS(model.registry().freeze(in_block),
                         doctest::Contains("freeze it before the trainer or store is made"), failure);
  });
}

TEST_CASE("vectors may be kept whole under zero3: gathered once a step, not once a use") {
  const auto loss = []<class S>(S, const degrees& ranks, trace_log* log) {
    double last = 0;
    launch<S>(ranks,
              [&](context& ctx) {
                llama<S> model(ctx, {.layers = 4, .hidden = 32, .heads = 4, .ffn = 64, .vocab = 256, .max_seq = 8});
                trainer training(ctx, model, plain);
                const auto r = training.run(
                    counting{&ctx},
                    {.steps = 3, .batch = 8, .micro_batches = 2, .validation_sequences = 0, .print = false});
                if (ctx.is_first()) last = r.loss;
              },
              {.trace = log ? trace_target(log) : trace_target()});
    return last;
  };
  trace_log log(2);
  const double one = loss(wide<replicated>{}, {}, nullptr), two = loss(wide<zero3_vectors_kept>{}, {.dp = 2}, &log);
  CHECK(two == doctest::Approx(one).epsilon(1e-12));
  int vectors = 0, matrices = 0;
  for (const trace_event& e : log.events(0))
    if (e.operation == std::string_view("all_gather") && e.label == "weights of layer 2")
      ++(e.bytes == 2 * 32 * sizeof(double) ? vectors : matrices);  // a layer has two norms
  CHECK(vectors == 3);                                              // after each update
  CHECK(matrices == 3 * 2 * 2);                                     // for each forward and backward
}

TEST_CASE("by_shape keeps the moments that each optimizer has") {
  using O = by_shape<muon, adamw>;
  const auto after = [](context&, auto& store) {
    int matrices = 0, others = 0;
    store.each_stored([&](const stored_parameter& p) {
      const bool matrix = p.record.form.matrices;
      CHECK(matrix == (p.record.name.starts_with("block.") && p.record.name != "block.gain"));
      CHECK(bool(p.first));
      CHECK(bool(p.second) == !matrix);
      ++(matrix ? matrices : others);
    });
    CHECK(matrices > 0);
    CHECK(others > 0);
  };
  const O shapes{muon{.lr = 0.05}, adamw{.lr = 0.01}};
  const numbers one = train_by_hand<small<replicated>>({}, shapes, nothing{}, after);
  CHECK(worst(one, train_by_hand<small<zero3>>(four, shapes, nothing{}, after)) < 1e-9);
}

TEST_CASE("one_owner: a matrix lies whole on one rank, nothing is gathered for it, and the bits are the same") {
  const muon matrices{.lr = 0.05};
  const adamw others{.lr = 0.01};
  for (const int dp : {1, 2, 3, 4}) {
    trace_log cut_log(dp), whole_log(dp);
    std::mutex lock;
    std::map<std::string, int> owners;
    const auto after = [&](context&, auto& store) {
      std::int64_t held = 0;
      store.each_stored([&](const stored_parameter& p) {
        if (!p.record.form.matrices) return;
        CHECK((p.count == 0 || p.count == p.record.local.elements()));
        CHECK(p.first.elements() == p.count);
        held += p.count;
        const std::lock_guard guard(lock);
        owners[p.record.name] += p.count > 0;
      });
      CHECK(held <= (dp == 1 ? 3 : dp == 2 ? 2 : 1) * 32 * 64);  // of three matrices
    };
    const degrees ranks{.dp = dp};
    const numbers cut = train_by_hand<small<zero2>>(ranks, by_shape{matrices, others}, nothing{}, nothing{}, &cut_log),
                  whole = train_by_hand<small<zero2>>(ranks, by_shape{one_owner{matrices}, others}, nothing{}, after,
                                                      &whole_log);
    CHECK(whole == cut);
    CHECK(owners.size() == 3);
    for (const auto& entry : owners) {
      CAPTURE(entry.first);
      CHECK(entry.second == 1);
    }
    const auto gathered = [](const trace_log& log) {
      int calls = 0;
      for (const trace_event& e : log.events(0)) calls += e.label.starts_with("directions of block ");
      return calls;
    };
    CHECK(gathered(cut_log) == (dp > 1 ? 3 : 0));  // one a step
    CHECK(gathered(whole_log) == 0);
  }
}

TEST_CASE("Muon's matrices that tp doesn't divide: NaN in their gradients' padding enters no orthogonalisation") {
  const muon matrices{.lr = 0.05};
  const adamw others{.lr = 0.01};
  const by_shape shapes{matrices, others};
  const by_shape whole{one_owner{matrices}, others};
  const auto padded = [](context& ctx, auto& store) {
    store.each_stored([&](const stored_parameter& p) {
      const bool bent = p.record.name == "up" || p.record.name == "down";
      CHECK(p.record.form.matrices == bent);
      if (!bent) return;
      CHECK(p.record.local[0] == 3);
      CHECK(p.record.at.valid_part()[0] == (ctx.index<tp>() == 2 ? 1 : 3));
    });
  };
  const numbers one = train_by_hand<bent_model<wide<replicated>>>({}, shapes);
  CHECK(one.size() == 4);
  CHECK(worst(one, train_by_hand<bent_model<wide<replicated>>>({.tp = 3}, shapes, nothing{}, padded)) < 1e-9);
  CHECK(worst(one, train_by_hand<bent_model<wide<zero2>>>({.dp = 2, .tp = 3}, shapes)) < 1e-9);
  CHECK(worst(one, train_by_hand<bent_model<wide<zero2>>>({.dp = 2, .tp = 3}, whole)) < 1e-9);
  CHECK(worst(one, train_by_hand<bent_model<wide<zero3>>>({.dp = 2, .tp = 4}, shapes)) < 1e-9);
}

TEST_CASE("a pipeline's first stage may have nothing to train") {
  const auto loss = []<class S>(S, const degrees& ranks, bool first) {
    double last = 0;
    launch<S>(ranks, [&](context& ctx) {
      llama<S> model(ctx, {.layers = 4, .hidden = 32, .heads = 4, .ffn = 64, .vocab = 256, .max_seq = 8});
      model.registry().freeze([&](const parameter_record& p) {
        return (p.name.starts_with("layers.3.") || p.name == "head" || p.name == "norm") == first;
      });
      trainer training(ctx, model, plain);
      const auto r = training.run(
          counting{&ctx}, {.steps = 3, .batch = 8, .micro_batches = 4, .validation_sequences = 0, .print = false});
      if (ctx.is_first()) last = r.loss;
    });
    return last;
  };
  using staged = strategy<mesh<dp, pp, tp>, zero1, fp64>;
  using chunked = strategy<mesh<dp, pp, tp>, zero3, fp64, zbv>;
  for (const bool first : {false, true}) {
    const double one = loss(wide<replicated>{}, {}, first);
    CHECK(loss(staged{}, {.pp = 2}, first) == doctest::Approx(one).epsilon(1e-12));
    CHECK(loss(chunked{}, {.dp = 2, .pp = 2}, first) == doctest::Approx(one).epsilon(1e-12));
  }
  const auto all_frozen = []<class S>(S, const degrees& ranks) {
    launch<S>(ranks, [](context& ctx) {
      llama<S> model(ctx, {.layers = 4, .hidden = 32, .heads = 4, .ffn = 64, .vocab = 256, .max_seq = 8});
      model.registry().freeze([](const parameter_record&) { return true; });
      trainer training(ctx, model, plain);
      training.run(counting{&ctx}, {.steps = 1, .batch = 8, .micro_batches = 4});
    });
  };
  const auto refused = doctest::Contains("every parameter of the model is frozen");
  CHECK_THROWS_WITH_AS(all_frozen(staged{}, {}), refused, failure);
  CHECK_THROWS_WITH_AS(all_frozen(staged{}, {.pp = 2}), refused, failure);
}
