// What ranks of a pipeline wait and hold, executed: layers that take a known time forward, for the gradients of
// activations and for those of weights, on the ranks' virtual clocks, and that keep a known amount. The idle time of
// every schedule is that of its formula, exactly, and what each rank holds of activations is what load_of says.
#include <mutex>
#include <vector>

#include <doctest/doctest.h>

#include "slow_layer.hpp"

namespace {
using namespace weft;
using weft_test::done, weft_test::each_layer_takes;

constexpr int ranks = 4, micro_batches = 8, layers_of_all = 8;
constexpr std::size_t kept = 1 << 20;  // bytes, by each layer: many times all else that is an activation here

template <int Milliseconds>
struct links {
  static constexpr link_speed of(std::string_view) { return {.latency_us = 1000. * Milliseconds}; }
};

// C, whose sends take the rank as long as their link takes: nothing is computed meanwhile.
template <class C, int Milliseconds>
class sends_first : public comm_operations<sends_first<C, Milliseconds>> {
 public:
  explicit sends_first(C inner) : inner_(std::move(inner)) {}
  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }
  request post(const comm_call& call) {
    request sent = inner_.post(call);
    if (call.is(comm_operation::send)) virtual_clock::advance(std::chrono::milliseconds(Milliseconds));
    return sent;
  }
  sends_first split(int color, int key, const char* name) { return sends_first(inner_.split(color, key, name)); }
  template <class F>
  static void launch(int ranks, F&& f) {
    C::launch(ranks, [&](C& inner) {
      sends_first world(inner);
      f(world);
    });
  }

 private:
  C inner_;
};

template <class S>
struct slow_layer {
  weight<S, dims<hidden>> w;
};
template <class S>
class slow_model : public decoder<S, slow_model<S>, slow_layer<S>> {
  using base = decoder<S, slow_model<S>, slow_layer<S>>;

 public:
  struct sizes {
    std::int64_t layers = layers_of_all, hidden = 8, vocab = 16, max_seq = 4;
  };
  explicit slow_model(context& ctx) : base(ctx, sizes{}.layers, true) {
    base::add_embedding(config_.vocab, config_.hidden, 0.1, [] {});
    base::each_layer([&](slow_layer<S>& layer, const std::string& prefix) {
      base::registry().add(ctx, layer.w, prefix + "w", {1, {config_.hidden}}, {0, 1});
    });
    base::add_head(config_.vocab, config_.hidden, 0.1, [] {});
  }
  const sizes& config() const { return config_; }
  struct pass {
    slow_model* model;
    auto embed(const auto& tokens) const { return leave_block<S>(embedding(tokens, model->embedding_)); }
    auto block(const slow_layer<S>& layer, const auto& x) const { return weft_test::slowly(x, layer.w); }
    auto head(const auto& table, const auto& x) const { return contract<hidden>(enter_block<S>(x), table); }
  };
  pass pass_for(const typename base::ids&) { return {this}; }

 private:
  sizes config_;
};

// The most that a rank waits in a step between the begin of its first action and the end of its last, in milliseconds;
// and how many layers' activations of a micro-batch each holds at most.
struct measured {
  double idle = 0;
  std::vector<std::size_t> layers = std::vector<std::size_t>(ranks);
};
template <int Latency>
using far_apart = paced<threads, links<Latency>, virtual_clock>;
template <class Schedule, class Communicator>
measured run() {
  using S = strategy<mesh<pp>, Schedule, Communicator>;
  measured most;
  weft_test::each_layer_keeps = kept;
  std::mutex lock;
  launch<S>({.pp = ranks},
            [&](context& ctx) {
              slow_model<S> model(ctx);
              parameter_store<cpu_backend, fp32> store(ctx, model.registry(), config_of<replicated>());
              model.use(store);
              pipeline<slow_model<S>> stages(ctx, model);
              using ids = typename slow_model<S>::ids;
              for (int step = 0; step < 2; ++step) {  // the first makes what lasts
                done.clear();
                ctx.memory.reset_peaks();
                store.begin_step(micro_batches);
                stages.train(
                    micro_batches, 1,
                    [&](int m) {
                      const auto x = generate<ids>(ctx, {1, 4}, [m](std::int64_t i) { return (i + m) % 16; });
                      return token_batch<ids>{x, x};
                    },
                    [&](int) { store.end_micro_batch(); });
                store.finish_gradients();
              }
              std::int64_t idle = done.back().end - done.front().begin;
              for (const weft_test::work& w : done) idle -= w.end - w.begin;
              const std::lock_guard guard(lock);
              most.idle = std::max(most.idle, double(idle) / 1e6);
              most.layers[static_cast<std::size_t>(ctx.rank().here())] =
                  ctx.memory.ledger().peak[static_cast<std::size_t>(memory::activations)] / kept;
            },
            {.check = false});
  return most;
}

template <class Schedule, class Communicator = far_apart<0>>
void check(double formula) {
  CAPTURE(std::string(Schedule::name));
  const measured is = run<Schedule, Communicator>();
  CHECK(is.idle == formula);
  constexpr int own = layers_of_all / ranks, chunks = chunks_of<Schedule>;
  for (int r = 0; r < ranks; ++r) {
    CAPTURE(r);
    const schedule_load says = load_of<Schedule>(r, ranks, micro_batches);
    CHECK(double(is.layers[static_cast<std::size_t>(r)]) == own * says.activations);
    CHECK(is.layers[static_cast<std::size_t>(r)] == std::size_t(own / chunks * says.in_flight));
  }
}
}  // namespace

TEST_CASE("what ranks wait is what the formulas of their schedules say") {
  const double f = 120, b = 120, w = 120;  // of a micro-batch through a rank's layers
  constexpr double each = double(ranks) / layers_of_all;
  each_layer_takes = {f * each, b * each, w * each};
  const double one = (ranks - 1) * (f + b + w), half = one / 2, h1 = (ranks - 1) * (f + b - w);
  check<one_f_one_b>(one);
  check<gpipe>(one);
  check<interleaved<2>>(half);
  check<zb_h1>(h1);
  check<dual_pipe_v>((ranks - 1) * f / 2);
  check<zbv>(0);
}
TEST_CASE("zb_h1's idle time is its formula where the parts take different times") {
  const double f = 90, b = 120, w = 60;
  constexpr double each = double(ranks) / layers_of_all;
  each_layer_takes = {f * each, b * each, w * each};
  check<zb_h1>((ranks - 1) * (f + b - w));
}
TEST_CASE("gpipe waits for its links where it fills and drains, and for none of those between, which computing hides") {
  constexpr int latency = 20;
  each_layer_takes = {60, 60, 60};
  const double ends = (ranks - 1) * (3 * 120 + 2 * latency), between = 2 * (micro_batches - 1) * latency;
  check<gpipe, far_apart<latency>>(ends);
  check<gpipe, sends_first<far_apart<latency>, latency>>(ends + between);  // each micro-batch's but one, both ways
}
