// A rank with several chunks of layers, each a virtual stage: every schedule equals one rank, with the rest of what
// shards, recomputes and drops out.
#include "parallel/gpt2.hpp"
#include "sample.hpp"

namespace {
using namespace weft;
using weft_test::fp64_gradient, weft_test::fp64_loss;

const int steps = weft_test::sample_stride() > 1 ? 2 : 3;
struct stages_case {
  weft::degrees degrees;
  int micro_batches;
};

template <class Schedule, class... Policies>
void check_llama(bool tied, std::initializer_list<stages_case> cases) {
  for (const stages_case& c : weft_test::sampled_cases(cases)) {
    weft_test::task t{{.batch = 4, .steps = steps, .micro_batches = c.micro_batches}};
    t.model.layers = 9, t.model.tied_embeddings = tied;  // nine don't divide: stages of one, two and more layers
    CAPTURE(std::string(Schedule::name));
    CAPTURE(c.degrees.pp);
    CAPTURE(c.degrees.dp);
    CAPTURE(c.degrees.tp);
    weft_test::check_equal(weft_test::train<strategy<mesh<>, fp64>>({}, t),
                           weft_test::train<strategy<mesh<pp, dp, tp>, fp64, Schedule, Policies...>>(c.degrees, t),
                           fp64_loss, fp64_gradient);
  }
}
}  // namespace

TEST_CASE("gpipe equals one rank: tied embeddings, zero1") {
  check_llama<gpipe, zero1>(true, {{{.pp = 4}, 5}, {{.dp = 2, .pp = 2}, 3}});
}
TEST_CASE("interleaved equals one rank: tied embeddings, zero2") {
  check_llama<interleaved<2>, zero2>(true, {{{.pp = 1}, 2}, {{.pp = 2}, 4}, {{.pp = 4}, 8}, {{.dp = 2, .pp = 2}, 2}});
}
TEST_CASE("interleaved equals one rank: three chunks, zero3, full recomputation, sequence parallelism") {
  check_llama<interleaved<3>, zero3, checkpoint_full, sequence_parallel>(
      false, {{{.dp = 2, .pp = 2}, 4}, {{.tp = 2, .pp = 3}, 3}});
}
TEST_CASE("zb_h1 equals one rank: tied embeddings, replicated, selective recomputation") {
  check_llama<zb_h1, checkpoint_selective>(true,
                                           {{{.pp = 1}, 2}, {{.pp = 2}, 3}, {{.pp = 4}, 8}, {{.tp = 2, .pp = 2}, 1}});
}
TEST_CASE("zbv equals one rank: tied embeddings that lie on one rank, zero3, selective recomputation") {
  check_llama<zbv, zero3, checkpoint_selective>(true, {{{.pp = 1}, 2}, {{.dp = 2, .pp = 2}, 6}, {{.pp = 4}, 9}});
}
TEST_CASE("zbv equals one rank: a head of its own, zero1, tensor parallelism, fewer micro-batches than it would like") {
  check_llama<zbv, zero1>(false, {{{.tp = 2, .pp = 2}, 2}, {{.pp = 4}, 1}, {{.dp = 2, .pp = 3}, 4}});
}
TEST_CASE(
    "dual_pipe_v equals one rank: forwards and backwards together, zero2, more and fewer micro-batches than fill it") {
  check_llama<dual_pipe_v, zero2>(true, {{{.pp = 1}, 3}, {{.dp = 2, .pp = 2}, 6}, {{.pp = 4}, 3}});
}
TEST_CASE("dropout's masks are those of one rank in every schedule, whichever chunk's turn it is") {
  gpt2_config c = weft_test::small_gpt2;
  c.layers = 8;
  const weft_test::plan p{.batch = 4, .steps = steps, .micro_batches = 4};
  const auto trained = [&]<class S>(const degrees& d) {
    return weft_test::without_key_biases(weft_test::train_model<gpt2<S>>(d, c, p), fp64_gradient);
  };
  const auto serial = trained.operator()<strategy<mesh<>, fp64>>({});
  const auto check = [&](const weft_test::output& o) { weft_test::check_equal(serial, o, fp64_loss, fp64_gradient); };
  check(trained.operator()<strategy<mesh<dp, pp>, fp64, gpipe>>({.pp = 2}));
  check(trained.operator()<strategy<mesh<dp, pp>, fp64, interleaved<2>>>({.dp = 2, .pp = 2}));
  check(trained.operator()<strategy<mesh<dp, pp>, fp64, zb_h1>>({.pp = 4}));
  check(trained.operator()<strategy<mesh<dp, pp>, fp64, zbv, zero2>>({.pp = 4}));
}

namespace {
struct seen {
  std::vector<double> logits, losses;
};
// What every rank says of weights that are loaded by their names: a pass outside of a schedule, and an evaluation.
template <class S>
std::vector<seen> loaded(const degrees& d, bool tied) {
  std::vector<seen> out(static_cast<std::size_t>(d.product()));
  launch<S>(d, [&](context& ctx) {
    weft_test::task t;
    t.model.layers = 6, t.model.tied_embeddings = tied;
    llama<S> model(ctx, t.model);
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    store.load_parameters([](const parameter_record& p) {
      std::vector<float> numbers(static_cast<std::size_t>(p.global.elements()));
      for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = float((i * 7 + std::size_t(p.name[7 % p.name.size()]) * 5) % 17) / 64 - 0.1f;
      return numbers;
    });
    using ids = typename llama<S>::ids;
    const auto tokens = [&](int k) { return generate<ids>(ctx, {2, 16}, [k](std::int64_t i) { return i * k % 48; }); };
    seen& own = out[std::size_t(ctx.rank().here())];
    {
      const recording off(ctx, nullptr);
      own.logits = local_share_on_host(model(tokens(7)));
    }
    pipeline<llama<S>> stages(ctx, model);
    for (const int passes : {1, 3}) {
      const auto read = [&](int m) { return token_batch<ids>{tokens(m + 5), tokens(m + 3)}; };
      own.losses.push_back(finished<typename pipeline<llama<S>>::loss_tensor>(ctx, stages.evaluate(passes, read)).sum);
    }
  });
  return out;
}
}  // namespace

TEST_CASE("weights that are loaded by name reach every chunk; evaluation and a pass alone give one rank's numbers") {
  const seen one = loaded<strategy<mesh<>, fp64>>({}, true)[0];
  const auto check = [&](const std::vector<seen>& all) {
    for (const seen& held : all) {
      CHECK(held.logits == one.logits);
      CHECK(held.losses == one.losses);
    }
  };
  check(loaded<strategy<mesh<pp>, fp64, interleaved<2>>>({.pp = 3}, true));
  check(loaded<strategy<mesh<pp>, fp64, interleaved<2>>>({.pp = 1}, true));
  check(loaded<strategy<mesh<pp>, fp64, zbv, zero3>>({.pp = 2}, true));
  check(loaded<strategy<mesh<pp>, fp64, zbv>>({.pp = 3}, true));
}

TEST_CASE("which layers a rank has, and who is before and after its virtual stages") {
  launch<strategy<mesh<pp>>>({.pp = 2}, [](context& ctx) {
    const stage_places v = stages_of<zbv>(ctx, 9);
    const int r = ctx.index<pp>().here();
    CHECK(v.count() == 4);
    CHECK(v.chunks() == 2);
    CHECK(v[0].index == r);
    CHECK(v[1].index == 3 - r);
    CHECK(v[0].begin == (r == 0 ? 0 : 2));
    CHECK(v[1].end == (r == 0 ? 9 : 6));
    CHECK(v.layers_before(2) == (r == 0 ? 5 : 4));
    CHECK(v.has_first() == (r == 0));
    CHECK(v.has_last() == (r == 0));
    CHECK(v[0].after == 1);
    CHECK(v[1].before == 1);
    CHECK(v[1].after == 0);  // of the last none is after: its own
    CHECK(v.chunk_at(2) == (r == 0 ? -1 : 1));
    CHECK(v.rank_of(2) == 1);
  });
}

namespace {
// What rank 0 of pp asks of the network in a step, in its order.
template <class S>
std::vector<trace_event> asked(const degrees& d, int micro_batches) {
  trace_log log(static_cast<int>(d.product()));
  std::size_t before = 0;
  launch<S>(d,
            [&](context& ctx) {
              llama<S> model(ctx, {.layers = 8, .hidden = 16, .heads = 2, .vocab = 32, .max_seq = 8});
              parameter_store<cpu_backend, fp32> store(ctx, model.registry(), config_of<typename S::sharding>());
              model.use(store);
              pipeline<llama<S>> stages(ctx, model);
              using ids = typename llama<S>::ids;
              for (int step = 0; step < 2; ++step) {
                if (ctx.is_first()) before = log.events(0).size();
                store.begin_step(micro_batches);
                stages.train(
                    micro_batches, 1,
                    [&](int) {
                      const auto x = generate<ids>(ctx, {2, 8}, [](std::int64_t i) { return i % 32; });
                      return token_batch<ids>{x, x};
                    },
                    [&](int) { store.end_micro_batch(); });
                store.finish_gradients();
              }
            },
            {.trace = &log, .check = false});
  return {log.events(0).begin() + static_cast<std::ptrdiff_t>(before), log.events(0).end()};
}
}  // namespace

TEST_CASE("a chunk's gradients are summed while another chunk is still to be backpropagated") {
  const auto events = asked<strategy<mesh<dp, pp>, interleaved<2>>>({.dp = 2, .pp = 2}, 4);
  std::size_t received = 0, early = 0;
  for (std::size_t i = 0; i < events.size(); ++i)
    if (events[i].operation == std::string("recv")) received = i;
  for (std::size_t i = 0; i < received; ++i) early += events[i].axis == "dp";
  CHECK(early == 2);  // the second chunk's two layers
}
TEST_CASE("zero3 gathers no unit of a chunk that isn't the next") {
  const auto events = asked<strategy<mesh<dp, pp>, zero3, interleaved<2>>>({.dp = 2, .pp = 2}, 4);
  int gathers = 0;
  for (const trace_event& e : events) gathers += e.operation == std::string("all_gather");
  CHECK(gathers ==
        32);  // of 40 uses; the others find the unit in its buffer. 39, where a chunk's end gathers the next's
}
