#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <weft/comm/single_rank.hpp>
#include <weft/parallel/launch.hpp>
#include <weft/train/loop.hpp>

#include "../temporary.hpp"

using namespace weft;

namespace {

// A "model" whose every number is told, so that what the loop does with them can be seen.
struct told : trainable {
  double bad = 0;       // added to the loss of step 3
  double bad_norm = 0;  // and to its norm
  double norm_of_sums = 8;
  adamw optimizer;
  std::vector<adamw_step> updates;
  int validations = 0;
  bool scaled = false;  // whether a loss scale takes the blame for a norm that is not finite
  step_outcome last;
  loss_sums loss_of_step;

  virtual loss_sums loss(std::int64_t step) {
    return {(10.0 - static_cast<double>(step)) * 4 + (step == 3 ? bad : 0), 4};
  }
  void gradients(std::int64_t step) override { loss_of_step = loss(step); }
  void update(const step_rule& rule) override {
    const double norm = norm_of_sums + (updates.size() == 2 ? bad_norm : 0), squares = norm * norm;
    detail::step_numbers decided;
    detail::decide_step{&loss_of_step.sum, &squares, rule.clip_norm, 1, &decided}();
    const bool taken = detail::is_finite(decided.grad_scale);
    last = {loss_of_step, decided.gradient_norm, taken};
    if (taken) updates.push_back(optimizer.at(rule.number, rule.lr, decided.grad_scale));
  }
  step_outcome outcome() override { return last; }
  bool accept(bool finite) override { return finite || !scaled; }
  loss_sums validate() override { return ++validations, loss_sums{6, 4}; }
  std::vector<std::string> unit_names() const override { return {"only"}; }
};

training_result run(told& work, training plan, const adamw& optimizer = {}) {
  context ctx(any_communicator(), 1);
  plan.print = false;
  work.optimizer = optimizer;
  return train_loop(ctx, work, plan, optimizer.lr);
}

}  // namespace

TEST_CASE("the mean is over the global count, and clipping is by the norm of the mean") {
  told work;  // gradients: sums of norm 8 over 4 tokens, so a mean of norm 2
  const auto result = run(work, {.steps = 4, .schedule = {.warmup = 2}, .clip_norm = 1}, {.lr = 0.1});
  CHECK(result.first_loss == doctest::Approx(9));
  CHECK(result.loss == doctest::Approx(6));
  CHECK(result.validation_loss == doctest::Approx(1.5));
  REQUIRE(work.updates.size() == 4);
  for (const adamw_step& s : work.updates) CHECK(s.grad_scale.value() == doctest::Approx(0.5 / 4));
  CHECK(work.updates[0].lr == doctest::Approx(0.05));
  CHECK(work.updates[1].lr == doctest::Approx(0.1));
  CHECK(work.updates[3].lr < work.updates[2].lr);
  CHECK(work.updates[0].bias1 == doctest::Approx(0.1));  // 1 - 0.9^1: steps count from 1
  CHECK(detail::gradient_scale(2, 4, 0) == doctest::Approx(0.25));
  CHECK(detail::gradient_scale(2, 4, 3) == doctest::Approx(0.25));
  CHECK(detail::gradient_scale(0, 4, 1) == doctest::Approx(0.25));
}

TEST_CASE("a number that is none stops the run, names the step, and never reaches the weights") {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const auto expect = [](double loss, double norm, const char* sentence) {
    told work;
    work.bad = loss, work.bad_norm = norm;
    CHECK_THROWS_WITH_AS(run(work, {.steps = 5}), doctest::Contains(sentence), failure);
    CHECK(work.updates.size() == 2);
  };
  expect(nan, 0, "the loss of step 3 is not a number");
  expect(infinity, 0, "the loss of step 3 is infinite");
  expect(0, nan, "the gradient norm of step 3 is not a number");
  expect(0, infinity, "the gradient norm of step 3 is infinite");
  told work;
  CHECK_THROWS_AS(run(work, {.steps = 0}), failure);
}

TEST_CASE("files: a line a step, the ledger, the trace") {
  const weft_test::temporary_folder folder;
  told work;
  run(work, {.steps = 6, .validate_every = 2, .folder = folder.path()});
  CHECK(work.validations == 3);
  const std::string lines = read_file(folder / "metrics.jsonl");
  std::vector<nlohmann::json> all;
  for (std::size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1)
    all.push_back(nlohmann::json::parse(lines.substr(at, lines.find('\n', at) - at)));
  REQUIRE(all.size() == 6 + 3);
  CHECK(all[0].at("step") == 1);
  CHECK(all[0].at("loss").get<double>() == doctest::Approx(9));
  CHECK(all[0].at("gradient_norm").get<double>() == doctest::Approx(2));
  CHECK(all[0].at("tokens") == 4);
  for (const char* key : {"lr", "ms", "tokens_per_second", "peak_bytes"}) CHECK(all[0].contains(key));
  CHECK(all[2].at("step") == 2);
  CHECK(all[2].at("validation_loss").get<double>() == doctest::Approx(1.5));
  const auto ledger = nlohmann::json::parse(read_file(folder / "memory.json"));
  CHECK(ledger.at("ranks").at(0).at("categories").contains("optimizer"));
  CHECK(nlohmann::json::parse(read_file(folder / "trace.json")).at("traceEvents").size() > 3);
  CHECK_THROWS_WITH_AS(run(work, {.steps = 1, .folder = folder / "missing"}),
                       doctest::Contains("metrics.jsonl can't be written"), failure);
}

TEST_CASE("spikes are losses far above the last ones, and every rank counts the same") {
  loss_spikes two(2, 4);
  for (const double loss : {10.0, 90.0, 10.0, 11.0}) CHECK(!two.saw(loss));  // learned from, however they jump
  // Mean 30.25, deviation 34.5: a spike is above 99.3.
  loss_spikes same = two;
  CHECK(!same.saw(99.2));
  CHECK(!two.saw(std::nan("")));
  CHECK(two.saw(99.3));
  loss_spikes off(0, 4), level(3, 5);
  for (int i = 0; i < 20; ++i) CHECK(!off.saw(i == 15 ? 1e9 : 1));
  int spikes = 0;
  for (int i = 0; i < 40; ++i) spikes += level.saw((i < 20 ? 1 : 50) + i % 2 * 0.5);
  CHECK(spikes == 1);  // a level that stays is no more than one

  told work;  // losses 9, 8, ... but 7 + 100 in step 3
  work.bad = 400;
  const weft_test::temporary_folder folder;
  const auto result =
      run(work, {.steps = 5, .folder = folder.path(), .watch = {.spike_deviations = 3, .spike_window = 2}});
  CHECK(result.spikes == 1);
  CHECK(result.not_finite == 0);
  CHECK(work.updates.size() == 5);
  const std::string lines = read_file(folder / "metrics.jsonl");
  CHECK(lines.find("\"spike\":true") > lines.find("\"step\":3,\"loss\":107"));
  CHECK(lines.find("\"spike\":true") < lines.find("\"step\":4"));
  told calm;
  calm.bad = 400;
  CHECK(run(calm, {.steps = 5, .watch = {.spike_deviations = 0, .spike_window = 2}}).spikes == 0);
}

TEST_CASE("a run is told what to watch in numbers that make sense") {
  const auto refused = [](monitoring watch, const char* sentence) {
    told work;
    CHECK_THROWS_WITH_AS(run(work, {.steps = 1, .watch = watch}), doctest::Contains(sentence), failure);
  };
  refused({.every = -1}, "every -1 steps");
  refused({.every = 3}, "nowhere to go; give the run a folder");
  refused({.most_in_a_row = -2}, "most_in_a_row is -2");
  refused({.spike_deviations = -1}, "spike_deviations is -1");
  refused({.spike_deviations = std::nan("")}, "spike_deviations is nan");
  refused({.spike_window = 1}, "spike_window is 1");
}

TEST_CASE("skip and zero go on without what can't be said or mended") {
  for (const non_finite what : {non_finite::skip, non_finite::zero}) {
    told work;
    work.bad_norm = INFINITY;  // from the third step on
    CHECK(run(work, {.steps = 5, .watch = {.on_non_finite = what}}).skipped == 3);
    CHECK(work.updates.size() == 2);
    told again;
    again.bad = std::nan("");
    const auto result = run(again, {.steps = 5, .watch = {.on_non_finite = what, .most_in_a_row = 1}});
    CHECK(result.skipped == 1);
    CHECK(result.not_finite == 1);
    CHECK(again.updates.size() == 4);
    told longer;
    longer.bad_norm = INFINITY;
    CHECK_THROWS_WITH_AS(run(longer, {.steps = 5, .watch = {.on_non_finite = what, .most_in_a_row = 1}}),
                         doctest::Contains("step 4 is infinite; the 1 steps before it were no better"), failure);
  }
}

TEST_CASE("bad steps between good ones are not in a row") {
  struct every_other : told {
    loss_sums loss(std::int64_t step) override { return {step % 2 ? std::nan("") : 8, 4}; }
  } work;
  const auto result = run(work, {.steps = 7, .watch = {.on_non_finite = non_finite::skip, .most_in_a_row = 1}});
  CHECK(result.skipped == 4);
  CHECK(work.updates.size() == 3);
}

TEST_CASE("a step that overflows under a loss scale changes nothing, and the optimizer doesn't count it") {
  told work;
  work.scaled = true;
  work.bad_norm = INFINITY;
  const auto result = run(work, {.steps = 3});
  CHECK(result.skipped == 1);
  CHECK(result.not_finite == 0);
  REQUIRE(work.updates.size() == 2);
  struct first_overflows : told {
    void gradients(std::int64_t step) override {
      told::gradients(step);
      norm_of_sums = step == 1 ? INFINITY : 8;
    }
  } again;
  again.scaled = true;
  run(again, {.steps = 2});
  REQUIRE(again.updates.size() == 1);
  CHECK(again.updates[0].bias1 == doctest::Approx(1 - adamw{}.beta1));
}

TEST_CASE("a step without a token, and gradients that its count can't divide") {
  struct counted : told {
    double count = 0;
    loss_sums loss(std::int64_t) override { return {8 * count, count}; }
  } work;
  CHECK_THROWS_WITH_AS(run(work, {.steps = 1}), doctest::Contains("no token of step 1 has a target"), failure);
  const monitoring skip{.on_non_finite = non_finite::skip, .most_in_a_row = 2};
  CHECK(run(work, {.steps = 2, .watch = skip}).skipped == 2);
  CHECK_THROWS_WITH_AS(run(work, {.steps = 3, .watch = skip}),
                       doctest::Contains("the 2 steps before it were no better"), failure);
  work.count = 1e-310, work.norm_of_sums = 1e-311;
  CHECK_THROWS_WITH_AS(run(work, {.steps = 1}), doctest::Contains("can't be divided by its"), failure);
  CHECK(work.updates.empty());
}

TEST_CASE("a run that is asked to stop ends after the step that runs") {
  const weft_test::temporary_folder folder;
  std::atomic<bool> stop = false;
  struct stopped : told {
    std::atomic<bool>* stop;
    explicit stopped(std::atomic<bool>& asked) : stop(&asked) {}
    void gradients(std::int64_t step) override {
      *stop = step == 3;
      told::gradients(step);
    }
  } work(stop);
  const auto result = run(work, {.steps = 9, .folder = folder.path(), .stop = &stop});
  CHECK(result.stopped);
  CHECK(result.steps == 3);
  CHECK(work.updates.size() == 3);
  CHECK(work.validations == 0);
  const std::string lines = read_file(folder / "metrics.jsonl");
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 3);
  CHECK(read_file(folder / "memory.json").size() > 10);
  CHECK(read_file(folder / "trace.json").size() > 10);
  stop = false;
  told whole;
  const auto all = run(whole, {.steps = 9, .stop = &stop});
  CHECK(!all.stopped);
  CHECK(all.steps == 9);
}

TEST_CASE("callbacks hear of every step and validation in turn, may end the run, and the folder says why it ended") {
  const weft_test::temporary_folder folder;
  struct noting : training_callback {
    std::string* notes;
    std::int64_t end_at;
    noting(std::string& to, std::int64_t at) : notes(&to), end_at(at) {}
    void after_validation(std::int64_t step, double loss) override {
      *notes += detail::text("v", step, loss == 1.5 ? "" : "?", ' ');
    }
    std::string after_step(const step_report& r) override {
      *notes += detail::text("s", r.step, ' ');
      return r.step == end_at ? "it is good enough" : "";
    }
    void after_run(const training_result& r) override { *notes += "end: " + r.ended; }
  };
  std::string first, second;
  noting a(first, 0), b(second, 3);
  const auto result_of = [&](training plan) {
    told work;
    plan.folder = folder.path();
    const auto result = run(work, plan);
    const auto file = nlohmann::json::parse(read_file(folder / "result.json"));
    CHECK(file.at("ended") == result.ended);
    CHECK(file.at("steps") == result.steps);
    CHECK(file.contains("validation_loss") == (result.validation_loss >= 0));
    return result;
  };
  const auto early = result_of({.steps = 9, .validate_every = 2, .callbacks = {&a, &b}});
  CHECK(first == "s1 v2 s2 s3 end: it is good enough");
  CHECK(second == first);
  CHECK(early.steps == 3);
  CHECK(!early.stopped);
  first.clear();
  CHECK(result_of({.steps = 2, .callbacks = {&a}}).ended == "its last step is done");
  CHECK(first == "s1 v2 s2 end: its last step is done");
  std::atomic<bool> stop = true;
  const auto stopped = result_of({.steps = 5, .stop = &stop, .callbacks = {&b}});
  CHECK(stopped.ended == "it was asked to stop");
  CHECK(stopped.steps == 1);
  told wrong;
  wrong.bad = std::nan("");
  CHECK_THROWS_AS(run(wrong, {.steps = 5, .folder = folder.path()}), failure);
  CHECK(read_file(folder / "error.txt").find("the loss of step 3 is not a number") == 0);
}

TEST_CASE("what the guard remembers goes on with the next run") {
  told whole, parts;  // losses 9, 8, 7 + 100, ...: a spike after two
  whole.bad = parts.bad = 400;
  const monitoring watch{.spike_deviations = 3, .spike_window = 2};
  CHECK(run(whole, {.steps = 5, .watch = watch}).spikes == 1);
  CHECK(run(parts, {.steps = 2, .watch = watch}).spikes == 0);
  CHECK(run(parts, {.steps = 5, .begin = 2, .watch = watch}).spikes == 1);
  CHECK(parts.watched().losses.mean == whole.watched().losses.mean);
  told skips;
  skips.bad_norm = INFINITY;  // from the third step on
  const monitoring skip{.on_non_finite = non_finite::skip, .most_in_a_row = 2};
  run(skips, {.steps = 4, .watch = skip});
  CHECK_THROWS_WITH_AS(run(skips, {.steps = 5, .begin = 4, .watch = skip}), doctest::Contains("the 2 steps before it"),
                       failure);
}

TEST_CASE("one rank that is asked to stop ends the run on all") {
  std::atomic<bool> asked[2] = {false, false};
  launch<strategy<mesh<dp>>>({.dp = 2}, [&](context& ctx) {
    struct stopped : told {
      std::atomic<bool>* stop = nullptr;
      void gradients(std::int64_t step) override {
        if (stop) *stop = step == 2;
        told::gradients(step);
      }
    } work;
    if (!ctx.is_first()) work.stop = &asked[1];
    const training plan{.steps = 9, .print = false, .stop = &asked[ctx.rank().here()]};
    CHECK(train_loop(ctx, work, plan, 1e-3).steps == 2);
  });
}

TEST_CASE("the schedule counts steps beyond 2^31") {
  const warmup_cosine schedule{.warmup = 0, .floor = 0.1};
  const std::int64_t many = std::int64_t{1} << 33;
  CHECK(schedule(0, many) == doctest::Approx(1));
  CHECK(schedule(many / 2, many) == doctest::Approx(0.55));
  CHECK(schedule(many, many) == doctest::Approx(0.1));
}

TEST_CASE("a schedule of one's own takes the place of the cosine") {
  told work;
  run(work,
      {.steps = 4,
       .own_schedule = [](std::int64_t step,
                          std::int64_t steps) { return 1 - static_cast<double>(step) / static_cast<double>(steps); }},
      {.lr = 0.1});
  REQUIRE(work.updates.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(work.updates[i].lr == doctest::Approx(0.1 * (4 - double(i)) / 4));
  CHECK_THROWS_WITH_AS(run(work, {.steps = 2, .own_schedule = [](std::int64_t, std::int64_t) { return -1.0; }}),
                       doctest::Contains("own_schedule has to return a finite number"), failure);
}

TEST_CASE("a full disk costs the files that it doesn't take, and nothing else") {
  if (!std::filesystem::exists("/dev/full")) return;
  const weft_test::temporary_folder folder;
  for (const char* name : {"metrics.jsonl", "monitor.jsonl", "memory.json"})
    std::filesystem::create_symlink("/dev/full", folder / name);
  struct watched : told {
    std::vector<unit_statistics> statistics() override { return {{"only", {}}}; }
  } work;
  const auto result = run(work, {.steps = 4, .folder = folder.path(), .watch = {.every = 1}});
  CHECK(result.lost_files == 3);
  CHECK(result.loss == doctest::Approx(6));
  CHECK(work.updates.size() == 4);
  CHECK(read_file(folder / "trace.json").size() > 10);
}
