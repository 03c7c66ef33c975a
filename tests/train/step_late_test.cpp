// A run on a queue that runs behind its host gives a step before it asks what became of the one before. All that a user
// sees is what it is on the CPU: now_and_late.hpp.
#include "now_and_late.hpp"

namespace {
using namespace weft_test;

TEST_CASE("a step ahead: of six steps the host waits for five with the next one behind them, and for the last") {
  const seen one = same<llama, mesh<dp>>({}, tiny, {.plan = steps(6)});
  CHECK(one.left.size() == 6);
  CHECK(ahead(one) == 5);
  CHECK(one.left.back() == 0);
}

TEST_CASE("a step ahead: a NaN is skipped, zeroed or ends the run, and the sentence names its step") {
  const std::string sentence = "the gradient norm of step 3 is not a number, first seen in the backward of layer 1";
  for (const bool locate : {true, false}) {
    const auto with = [&](non_finite what, std::vector<std::int64_t> bad) {
      return same<llama, mesh<dp>>({}, tiny, {.plan = steps(7, {.on_non_finite = what, .locate = locate}), .bad = bad});
    };
    for (const non_finite what : {non_finite::skip, non_finite::zero, non_finite::stop}) {
      const seen s = with(what, {3});
      CHECK((s.text.find(sentence) != std::string::npos) == locate);
      CHECK(s.text.find("the gradient norm of step 3 is not a number") != std::string::npos);
      CHECK((s.text.find("zeroed") != std::string::npos) == (what == non_finite::zero));
      CHECK(ahead(s) >= 2);
    }
    with(non_finite::skip, {1, 3, 4, 7});
    with(non_finite::zero, {1, 3, 4, 7});
  }
}

TEST_CASE("a step ahead: one without a target, and one whose data can't be read") {
  same<llama, mesh<dp>>({}, tiny, {.plan = steps(5, {.on_non_finite = non_finite::skip}), .empty = 3});
  const seen stopped = same<llama, mesh<dp>>({}, tiny, {.plan = steps(5), .empty = 3});
  CHECK(stopped.text.find("no token of step 3 has a target") != std::string::npos);
  const seen gone = same<llama, mesh<dp>>({}, tiny, {.plan = steps(5), .fails = 4});
  CHECK(gone.text.find("the data of step 4 is gone") != std::string::npos);
  CHECK(gone.text.find("\"step\":3") != std::string::npos);  // its line was written first
  // Behind a bad step: that is skipped and told, or is what ends the run.
  for (const bool locate : {true, false})
    for (const non_finite what : {non_finite::skip, non_finite::zero, non_finite::stop}) {
      const seen both = same<llama, mesh<dp>>(
          {}, tiny, {.plan = steps(5, {.on_non_finite = what, .locate = locate}), .bad = {3}, .fails = 4});
      CHECK(both.text.find(what == non_finite::stop ? "the gradient norm of step 3" : "the data of step 4") !=
            std::string::npos);
    }
}

TEST_CASE("a step ahead, as graphs: nobody waits for what is kept back, also where steps are bad and computed again") {
  const auto graphs = [](wanted w, const char* part = "") {
    w.graph = true;
    const seen s = same<llama, mesh<dp>>({}, tiny, w);
    CHECK(s.text.find(part) != std::string::npos);
    CHECK(s.graphs.flushes == 0);
    return s.graphs.launches;
  };
  CHECK(graphs({.plan = steps(2)}) == 0);
  CHECK(graphs({.plan = steps(6)}) == 4);
  CHECK(graphs({.plan = steps(9, {.every = 4})}, "layer 1") == 5);  // not 4 and 8, which are observed
  training validated = steps(9);
  validated.validate_every = 3, validated.validation_sequences = 8;
  CHECK(graphs({.plan = validated}, "validation_loss") == 7);
  for (const non_finite what : {non_finite::skip, non_finite::zero})
    // 3 and 5, behind which 4 and 6 were given in vain
    CHECK(graphs({.plan = steps(7, {.on_non_finite = what}), .bad = {3, 5}}, "backward of layer 1") == 5 + 2);
  graphs({.plan = steps(7), .bad = {5}}, "the gradient norm of step 5 is not a number, first seen in");
  CHECK(graphs({.plan = steps(7), .fails = 5}, "the data of step 5 is gone") == 3);
}

TEST_CASE("a step ahead: validations, statistics of the units, an end by a callback or when asked, drain it") {
  training plan = steps(9, {.every = 4});
  plan.validate_every = 3, plan.validation_sequences = 8;
  const seen s = same<llama, mesh<dp>>({}, tiny, {.plan = plan});
  CHECK(s.text.find("validation_loss") != std::string::npos);
  CHECK(ahead(s) == 5);  // not 3, 6 and 9, which validate, nor 7, before a step with statistics
  struct noting : training_callback {
    std::string* notes;
    std::int64_t end_at;
    bool late;
    void after_validation(std::int64_t step, double) override { *notes += detail::text("v", step, ' '); }
    std::string after_step(const step_report& r) override {
      *notes += detail::text("s", r.step, ' ');
      return r.step == end_at ? "it is good enough" : "";
    }
    bool may_come_late(std::int64_t) override { return late; }
    void after_run(const training_result& r) override { *notes += "end: " + r.ended; }
  };
  for (const bool late : {false, true}) {
    noting n;
    n.end_at = late ? 0 : 5, n.late = late;
    training ended = steps(7);
    const seen e = same<llama, mesh<dp>>({}, tiny, {.plan = ended, .callbacks = [&](std::string& to) {
                                                      n.notes = &to;
                                                      return std::vector<training_callback*>{&n};
                                                    }});
    CHECK(e.text.find(late ? "s6 s7 end" : "s4 s5 end: it is good enough") != std::string::npos);
    CHECK(ahead(e) == (late ? 6 : 0));
  }
  std::atomic<bool> stop = true;
  training asked = steps(7);
  asked.stop = &stop;
  CHECK(same<llama, mesh<dp>>({}, tiny, {.plan = asked}).text.find("it was asked to stop") != std::string::npos);
  // Of several ranks, those whose queues run behind have given one step more when they hear of it.
  const auto last_step = [&]<class S>(std::type_identity<S>) {
    const seen two = run<llama, S>({.dp = 2}, tiny, adamw{.lr = 1e-2}, {.plan = asked});
    CHECK(two.text.find("it was asked to stop") != std::string::npos);
    return two.text.find("\"step\":3") == std::string::npos ? two.text.find("\"step\":2") != std::string::npos ? 2 : 1
                                                            : 3;
  };
  CHECK(last_step(std::type_identity<strategy<mesh<dp>>>()) == 1);
  CHECK(last_step(std::type_identity<strategy<mesh<dp>, late_backend>>()) == 2);
}

}  // namespace
