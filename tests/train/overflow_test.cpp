// Runs under a loss scale: what no scale mends ends them, and a run that skipped steps goes on with fresh batches.
#include <vector>

#include "poisoned.hpp"

namespace {

using halves = strategy<mesh<dp, tp>, fp16_mixed>;

struct far_too_high : fp16_mixed {
  static constexpr double initial_loss_scale = 0x1p22;  // fp16 ends at 65504
};

// The steps that a text was asked for.
struct listed_text : text_dataset {
  std::vector<std::int64_t>* steps;
  listed_text(context& ctx, std::vector<std::int64_t>& to) : text_dataset(ctx, rhyme()), steps(&to) {}
  template <class Ids>
  token_batch<Ids> train(std::int64_t number, std::int64_t first, std::int64_t count, std::int64_t length) const {
    if (first == 0) steps->push_back(number);
    return text_dataset::train<Ids>(number, first, count, length);
  }
};

}  // namespace

TEST_CASE("gradients that are infinite under every loss scale end the run") {
  // Of steps 1 to 300 one weight's gradient is infinite, whatever the loss is multiplied by.
  for (const degrees& ranks : {degrees{}, degrees{.dp = 2}}) {
    const auto r = run_poisoned<halves>(ranks, 300, 1, never, 0, {}, infinity);
    check_says(r.error,
               "the gradient norm of step 21 is infinite, first seen in the backward of layer 1 (rank 0), in the "
               "gradient of layers.1.down, though the loss scale was halved in each of the 20 steps before it, down to "
               "0.000976562: no scale mends that; training stops there");
  }
  const auto soon = run_poisoned<halves>({}, 300, 1, never, 0, {.most_overflows = 3}, infinity);
  check_says(soon.error, "the gradient norm of step 4 is infinite");
  const auto floor = run_poisoned<halves>({}, 300, 1, never, 0, {.most_overflows = 0}, infinity);
  check_says(floor.error, "the gradient norm of step 35 is infinite");
  check_says(floor.error, "halved in each of the 34 steps before it, down to 5.96046e-08");
}

TEST_CASE("overflows beyond their number are skipped or zeroed where a run is told to, and count as not finite") {
  const auto skipped =
      run_poisoned<halves>({}, 4, 1, never, 0, {.on_non_finite = non_finite::skip, .most_overflows = 2}, infinity);
  CHECK(skipped.error.empty());
  const auto stopped = run_poisoned<halves>(
      {}, 300, 1, never, 0, {.on_non_finite = non_finite::skip, .most_in_a_row = 4, .most_overflows = 2}, infinity);
  check_says(stopped.error, "the gradient norm of step 7 is infinite");
  check_says(stopped.error, "the 4 steps before it were no better");
  CHECK_THROWS_WITH_AS(check(monitoring{.most_overflows = -1}), doctest::Contains("most_overflows is -1"), failure);
}

TEST_CASE("a good step between overflows begins their number anew") {
  // A scale that is far too high comes down in more than 3 steps; then every step is good.
  using S = strategy<mesh<dp, tp>, far_too_high, zero3>;
  const auto run = [](monitoring watch) {
    launch<S>({.dp = 2}, [&](context& ctx) {
      llama<S> model(ctx, tiny);
      trainer t(ctx, model, adamw{.lr = 1e-2});
      t.run(text_dataset(ctx, rhyme()), plan_of(12, watch));
    });
  };
  CHECK_NOTHROW(run({}));
  CHECK_THROWS_WITH_AS(run({.most_overflows = 1}), doctest::Contains("the gradient norm of step 2 is"), failure);
}

namespace {

// Optimizers that compute on the host, and count how often they were asked, by element and by matrix.
struct counting_descent {
  static constexpr int moments = 0;
  double lr = 1e-2;
  int* asked;
  void update(auto& share, const optimizer_step& step) const {
    ++*asked;
    using T = std::remove_cvref_t<decltype(share.weight[0])>;
    for (std::size_t i = 0; i < share.weight.size(); ++i)
      share.weight[i] -= T(step.lr) * T(step.grad_scale) * T(share.gradient[i]);
  }
};
struct counting_matrices {
  static constexpr int moments = 1;
  static constexpr bool whole_matrices = true;
  double lr = 1e-2;
  int* asked;
  template <class Share>
  void direction(const Share& s, typename Share::master* out, const optimizer_step& step) const {
    ++*asked;
    s.scaled_gradient(step.grad_scale, out);
    for (std::int64_t i = 0; i < s.count; ++i) out[i] = s.first[i] = s.first[i] / 2 + out[i];
  }
  template <class Matrices>
  void change(const Matrices&) const {}
  template <class Share>
  void update(const Share& s, const typename Share::master* part, std::int64_t, std::int64_t,
              const optimizer_step& step) const {
    s.move(step.lr, 0, step.lr, part);
  }
};

}  // namespace

TEST_CASE("an optimizer that computes on the host isn't asked for a step that overflows") {
  using S = strategy<mesh<dp, tp>, far_too_high>;
  const auto run = [](auto make, int each) {
    launch<S>({}, [&](context& ctx) {
      int asked = 0;
      llama<S> model(ctx, tiny);
      trainer t(ctx, model, make(&asked));
      const training_result r = t.run(text_dataset(ctx, rhyme()), plan_of(12, {}));
      CHECK(r.skipped > 2);
      CHECK(r.skipped < 12);
      CHECK(detail::is_finite(r.loss));
      CHECK(asked == each * (12 - r.skipped));
    });
  };
  const int all = 3 + 2 * 9;  // the embedding, the norm, the head; and of two layers 7 matrices and 2 norms
  run([](int* asked) { return counting_descent{.asked = asked}; }, all);
  run([](int* asked) { return by_shape{counting_matrices{.asked = asked}, counting_descent{.asked = asked}}; }, all);
}

TEST_CASE("a further run reads new batches, also where steps were skipped") {
  using S = strategy<mesh<dp, tp>, far_too_high>;
  std::vector<std::int64_t> steps;
  launch<S>({}, [&](context& ctx) {
    llama<S> model(ctx, tiny);
    trainer t(ctx, model, adamw{.lr = 1e-2});
    const listed_text data(ctx, steps);
    const auto first = t.run(data, plan_of(8, {}));
    CHECK(first.skipped >= 2);
    t.run(data, plan_of(4, {}));
  });
  std::vector<std::int64_t> expected;
  for (std::int64_t i = 1; i <= 12; ++i) expected.push_back(i);
  CHECK(steps == expected);
}

TEST_CASE("a further run after one that was stopped goes on behind its last batch") {
  std::vector<std::int64_t> steps;
  launch<one>({}, [&](context& ctx) {
    llama<one> model(ctx, tiny);
    for (parameter_record& p : model.registry().units()[1].parameters)
      if (p.name == "layers.0.attention_norm") p.init = {0, not_a_number};
    trainer t(ctx, model, {});
    const listed_text data(ctx, steps);
    CHECK_THROWS_AS(t.run(data, plan_of(4, {.locate = false})), failure);
    CHECK_THROWS_AS(t.run(data, plan_of(4, {.locate = true})), failure);
  });
  CHECK(steps == std::vector<std::int64_t>{1, 2, 2});  // looked at once more, to locate
}
