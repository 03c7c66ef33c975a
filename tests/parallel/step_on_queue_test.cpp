// A step by hand, decided and taken behind the host: what a trainer does, call by call.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

#include "../backend/late_backend.hpp"

namespace {
using namespace weft;
using weft_test::late_backend;

// The weights and moments' effect on each rank after three steps, of which the second is told that its loss is not a
// number. Within a step no rank waits for its queue: neither for kernels, nor for a collective or a message between
// stages, which begin when the queue is as far, whoever moves them.
template <class Backend>
std::vector<std::vector<float>> three_steps(const degrees& ranks) {
  using S = strategy<mesh<pp, dp, tp>, Backend>;
  using M = llama<S>;
  std::vector<std::vector<float>> all(static_cast<std::size_t>(ranks.product()));
  launch<S>(ranks,
            [&](context& ctx) {
              M model(ctx, {.layers = 2, .hidden = 16, .heads = 2, .vocab = 32, .max_seq = 8});
              parameter_store<Backend, fp32> store(ctx, model.registry(), config_of<replicated, sgd>());
              model.use(store);
              pipeline<M> stages(ctx, model);
              auto& queue = ctx.template queue<Backend>();
              detail::decided_step<Backend> decided(ctx);
              const auto waits = [&] {
                if constexpr (Backend::queue::runs_behind) return queue.waits();
                return 0L;
              };
              for (int step = 1; step <= 3; ++step) {
                const long before = waits();
                const auto ids =
                    generate<typename M::ids>(ctx, {2, 8}, [&](std::int64_t i) { return (step * 7 + i * i) % 32; });
                store.begin_step(2);
                auto& loss = stages.train(
                    2, 1,
                    [&](int) {
                      return token_batch<typename M::ids>{ids, ids};
                    },
                    [&](int) { store.end_micro_batch(); });
                store.finish_gradients();
                loss.template finish<typename pipeline<M>::loss_tensor>();
                if (step == 2) Backend::once(queue, [at = const_cast<double*>(loss.in_memory())] { *at = NAN; });
                decided.decide(loss.in_memory(), store.squared_norm(), 0.5, 1);
                store.update(sgd{.nesterov = true}, {step, 0.1, decided.grad_scale()});
                CHECK(waits() == before);
                const loss_sums sums = loss;
                CHECK(sums.count == 32);
                CHECK(std::isnan(sums.sum) == (step == 2));
                CHECK(waits() == before + Backend::queue::runs_behind);
                const detail::step_numbers is = decided.read();
                CHECK(is.gradient_norm == store.gradient_norm() / 32);
                CHECK(std::isnan(is.grad_scale) == (step == 2));
                if (step != 2) CHECK(is.grad_scale == clip_factor(is.gradient_norm, 0.5) / 32);
              }
              auto& out = all[static_cast<std::size_t>(ctx.rank().here())];
              store.each_parameter([&](const parameter_record&, auto, auto weight) {
                out.insert(out.end(), weight.begin(), weight.end());
              });
              model.release();
            },
            {.check = false});
  return all;
}

TEST_CASE("a step by hand waits for nothing, and one that is decided against changes nothing") {
  for (const degrees& ranks : {degrees{}, degrees{.dp = 2, .tp = 2}, degrees{.dp = 2, .pp = 2}}) {
    CAPTURE(ranks.product());
    CAPTURE(ranks.pp);
    const auto late = three_steps<late_backend>(ranks);
    for (const auto& weights : late) CHECK(weights.size() > 1000);
    CHECK((late == three_steps<cpu_backend>(ranks)));
  }
}

TEST_CASE("weights that are loaded are on every backend") {
  using S = strategy<mesh<dp>, zero3, bf16_mixed, late_backend>;
  launch<S>({.dp = 2}, [&](context& ctx) {
    llama<S> model(ctx, {.layers = 1, .hidden = 16, .heads = 2, .vocab = 32, .max_seq = 8});
    parameter_store<late_backend, bf16_mixed> store(ctx, model.registry(), config_of<zero3>());
    store.load_parameters([](const parameter_record& p) {
      std::vector<double> numbers(static_cast<std::size_t>(p.global.elements()));
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
      return numbers;
    });
    int seen = 0;
    store.each_parameter([&](const parameter_record& p, auto, auto weight) {
      REQUIRE(weight.size() == p.local.elements());
      bool right = true;
      for (std::int64_t i = 0; i < weight.size(); ++i) right = right && weight[i] == static_cast<float>(i);
      CHECK(right);
      ++seen;
    });
    CHECK(seen > 8);
  });
}

TEST_CASE("a kernel's number: given, or where it lies") {
  const kernel_number two = 2;
  CHECK(two.value() == 2);
  CHECK(!two.lies_in_memory());
  CHECK((two.writes() && two.gate(5).writes()));
  CHECK(two.gate(5).value() == 5);
  double there = 3;
  const auto three = kernel_number::in_memory(&there);
  CHECK(three.lies_in_memory());
  CHECK(three.where() == &there);
  CHECK((three.writes() && three.value() == 3 && three.gate(5).value() == 5));
  there = NAN;
  CHECK(!three.writes());
  CHECK(!three.gate(5).writes());
  CHECK(kernel_number(NAN).writes());  // whoever gives NaN means it
}

TEST_CASE("squares of parameters, each over its own axes, add up behind the host") {
  using S = strategy<mesh<dp, tp>, late_backend>;
  launch<S>({.dp = 2, .tp = 2}, [&](context& ctx) {
    auto& queue = ctx.queue<late_backend>();
    const local_array x = ctx.make(dtype::f32, {1, {3}}, memory::buffers);
    const local_array whole = ctx.make(dtype::f32, {1, {1}}, memory::buffers);
    late_backend::fill(queue, x, 1 + ctx.index<tp>().here());
    late_backend::fill(queue, whole, 3);
    gradient_norm_parts<late_backend> parts(ctx);
    parts.expect({id_of<tp>}, {});
    if (ctx.rank() == 0) parts.expect({id_of<tp>}, axis_set{id_of<dp>});  // all ranks hear of it
    parts.agree();
    for (int again = 0; again < 2; ++again) {
      parts.clear();
      parts.add(3, x.as<const float>(), {id_of<tp>}, {});                   // 3 * (1 + 4)
      parts.add(1, x.as<const float>(), {id_of<tp>}, axis_set{id_of<dp>});  // 2 * (1 + 4)
      parts.add(1, whole.as<const float>(), {}, {});
      const long before = queue.waits();
      const kernel_number total = parts.total();
      CHECK(queue.waits() == before);
      CHECK(detail::number_on_host<late_backend>(queue, total) == 15 + 10 + 9);
    }
  });
}

}  // namespace
