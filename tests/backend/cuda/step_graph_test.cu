// A training whose steps are CUDA graphs beside the same without: losses and weights bit by bit, under a loss scale
// that overflows, dropout, a schedule, clipping, validation and whoever reads the weights in between; and what its
// steps call. Needs a GPU; what is called is counted on the device on the host.
#include <bit>
#include <cstdint>
#include <train/small_training.hpp>
#include <vector>

#include <weft/weft.cuh>

#include "device_calls.hpp"

namespace {
using namespace weft;
using weft_test::count_calls, weft_test::device_calls;

struct fp16_from_far_above : fp16_mixed {  // overflows in its first steps
  static constexpr double initial_loss_scale = 0x1p21;
};
using S = strategy<mesh<dp>, fp16_from_far_above, cuda_backend>;

// A table, dropout, a product.
class little_model : public model_base<S> {
 public:
  explicit little_model(context& ctx) : model_base<S>(ctx) {
    parameter_registry& all = registry();
    embedding_unit_ = all.begin_unit("embedding");
    all.add(ctx, table_, "table", {2, {256, 16}}, {0.3});
    head_unit_ = all.begin_unit("head");
    all.add(ctx, head_, "head", {2, {256, 16}}, {0.2});
  }
  auto operator()(const token_ids<S>& tokens) {
    const auto x = run_unit(
        embedding_unit_, [&](const auto& t) { return training_dropout(embedding(t, table_), 0.1, "table"); }, tokens);
    return run_unit(
        head_unit_, [&](const auto& h) { return contract<hidden>(h, head_); }, x);
  }

 private:
  int embedding_unit_, head_unit_;
  weight<S, dims<vocab, hidden>> table_, head_;
};

struct noting final : training_callback {
  std::vector<std::uint64_t> losses;
  std::int64_t first = 0, last = 0;  // between which calls are counted
  device_calls between{};
  std::int64_t reads = 0;  // the step behind which the weights are read
  trainer<little_model>* whose = nullptr;
  std::vector<std::uint64_t>* weights = nullptr;

  std::string after_step(const step_report& r) override {
    losses.push_back(std::bit_cast<std::uint64_t>(r.loss));
    if (r.step == first || r.step == last) count_calls(between);
    if (r.step == reads) read();
    return {};
  }
  bool may_come_late(std::int64_t step) override { return step != reads; }
  void read() {
    whose->store().each_parameter([&](const parameter_record&, auto, auto weight) {
      for (const auto x : weight) weights->push_back(std::bit_cast<std::uint64_t>(static_cast<double>(x)));
    });
  }
};

// A text of which one step can't be read, once.
struct failing_text : text_dataset {
  mutable std::int64_t fails;
  failing_text(context& ctx, std::int64_t step) : text_dataset(ctx, weft_test::rhyme()), fails(step) {}
  template <class Ids>
  token_batch<Ids> train(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t length) const {
    if (step == fails && first > 0) fails = 0, fail("step ", step, " is gone");
    return text_dataset::train<Ids>(step, first, count, length);
  }
};

struct outcome {
  std::vector<std::uint64_t> losses, weights;
  std::int64_t skipped = 0;
  double validation = 0;
  std::string error{};
  graph_counts graphs;
  device_calls between{};
};

struct settings {
  bool graph = false;
  std::int64_t chunk = 0;  // of the optimizer's state in the host's memory; 0: it is on the device
  std::int64_t steps = 14, validates = 0, reads = 0, fails = 0;
  int micro_batches = 1;
  bool more = false;      // another run behind it
  bool explodes = false;  // by the learning rate of a step
  bool check = false;     // what ranks hold is compared, for which the host waits inside a step
};

outcome run(const settings& s) {
  outcome out;
  launch<S>({},
            [&](context& ctx) {
              if (s.chunk > 0) ctx.keep_optimizer_state_in({}, s.chunk);
              little_model model(ctx);
              trainer<little_model> t(ctx, model, {.lr = 1e-2});
              const failing_text data(ctx, s.fails);
              noting notes;
              notes.first = s.steps - 5, notes.last = s.steps - 1;
              notes.reads = s.reads, notes.whose = &t, notes.weights = &out.weights;
              training plan{.steps = s.steps,
                            .batch = s.micro_batches == 1 ? 4 : s.micro_batches,
                            .micro_batches = s.micro_batches,
                            .seq = 8,
                            .schedule = {.warmup = 3, .floor = 0.1},
                            .clip_norm = 0.05,
                            .validate_every = s.validates,
                            .validation_sequences = s.validates ? 4 : 0,
                            .print = false,
                            .callbacks = {&notes},
                            .step_graph = s.graph};
              if (s.explodes)
                plan.own_schedule = [](std::int64_t step, std::int64_t) { return step == 10 ? 1e30 : 1.0; };
              for (int i = 0; i <= s.more; ++i) {
                try {
                  const training_result r = t.run(data, plan);
                  out.skipped += r.skipped;
                  out.validation += r.validation_loss;
                } catch (const failure& e) {
                  out.error += e.what();
                }
                CHECK(!ctx.queue<cuda_backend>().keeps_back());
              }
              notes.read();
              out.losses = notes.losses, out.between = notes.between;
              out.graphs = ctx.queue<cuda_backend>().graphs();
            },
            {.check = s.check});
  return out;
}

void check_same(const outcome& with, const outcome& without) {
  CHECK(without.graphs.launches == 0);
  CHECK(without.losses.size() > 9);
  CHECK(without.weights.size() > 8000);
  CHECK(with.losses == without.losses);
  CHECK(with.weights == without.weights);
  CHECK(with.skipped == without.skipped);
  CHECK((without.skipped > 3 || !without.error.empty()));
  CHECK(with.validation == without.validation);
  CHECK(with.error == without.error);
}

}  // namespace

TEST_CASE("steps as graphs: the same bits, one launch a step and nothing else") {
  const outcome without = run({.graph = false}), with = run({.graph = true});
  check_same(with, without);
  CHECK(with.graphs.launches >= 12);  // and those of steps that were given behind one that wasn't taken
  CHECK(with.graphs.instantiations == 1);
  CHECK(with.graphs.flushes == 0);
  if (device_calls none{}; !count_calls(none)) return;
  CHECK(without.between.plain > 4 * 10);
  CHECK(without.between.launches == 0);
  CHECK(with.between.launches == 4);
  CHECK(with.between.updates == 4);
  CHECK(with.between.instantiations == 0);
  CHECK(with.between.plain == 0);
  CHECK(with.between.captured == without.between.plain);
  CHECK(with.between.waits_captured == 0);
}

TEST_CASE("steps as graphs: validation and readers in between, a second run, micro-batches") {
  settings s{.validates = 4, .reads = 9, .micro_batches = 9, .more = true};  // 18 uploads a step
  const outcome without = run(s);
  s.graph = true;
  const outcome with = run(s);
  check_same(with, without);
  CHECK(with.graphs.flushes == 0);
  CHECK(with.graphs.instantiations == 1);
}

TEST_CASE("steps as graphs: copies beside the kernels join them") {
  settings s{.chunk = 1040};
  const outcome without = run(s);
  s.graph = true;
  const outcome with = run(s);
  check_same(with, without);
  CHECK(with.graphs.flushes == 0);
  CHECK(with.graphs.instantiations == 1);
}

TEST_CASE("steps as graphs: a host that waits inside a step has it begin, and goes on without") {
  settings s{.check = true};
  const outcome without = run(s);
  s.graph = true;
  const outcome with = run(s);
  check_same(with, without);
  CHECK(with.graphs.flushes == with.graphs.launches);
  CHECK(with.graphs.launches >= 12);
  CHECK(with.graphs.instantiations == 1);
}

TEST_CASE("steps as graphs: a step that can't be read ends a run, and the next goes on") {
  settings s{.fails = 9, .micro_batches = 2, .more = true};
  const outcome without = run(s);
  CHECK(without.error == "step 9 is gone");
  s.graph = true;
  const outcome with = run(s);
  check_same(with, without);
  CHECK(with.graphs.flushes == 0);
}

TEST_CASE("steps as graphs: one that isn't finite is computed again, one by one, and located") {
  settings s{.explodes = true};
  const outcome without = run(s);
  CHECK(without.error.find("of step 12 is not a number, ") != std::string::npos);
  s.graph = true;
  const outcome with = run(s);
  check_same(with, without);
  CHECK(with.graphs.flushes == 0);
}

TEST_CASE("steps as graphs are of one rank") {
  std::string said;
  try {
    launch<S>({.dp = 2}, [&](context& ctx) {
      little_model model(ctx);
      trainer<little_model> t(ctx, model);
      t.run(failing_text(ctx, 0), {.batch = 4, .seq = 8, .print = false, .step_graph = true});
    });
  } catch (const failure& e) {
    said = e.what();
  }
  INFO(said);
  CHECK(said.find("step_graph: there are 2 ranks, and their communicator's operations can't be part of a graph, as "
                  "nccl_mpi's can: take that, launch one rank, or leave training.step_graph out") != std::string::npos);
}
