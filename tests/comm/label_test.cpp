// What a collective is for: labels as text, and how they are compared where ranks meet.
#include "weft/comm/label.hpp"

#include <functional>
#include <memory>

#include <doctest/doctest.h>

#include "watch.hpp"
#include "weft/comm/any.hpp"
#include "weft/comm/threads.hpp"
#include "weft/comm/traced.hpp"
#include "weft/core/tags.hpp"

namespace {

using weft::call_site;
using weft::collective_label;
using weft::dtype;
using weft::label_kind;
using weft::reduction;
using weft::threads;

std::string message_of(int ranks, const std::function<void(threads&)>& body) {
  const watchdog guard("ranks with labels that differ", 300);
  try {
    threads::launch(ranks, body);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing was thrown";
}
bool contains(const std::string& text, const char* part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

call_site asked_at(call_site at = call_site::here()) { return at; }

}  // namespace

TEST_CASE("a label as text") {
  CHECK(text_of(collective_label{}) == "");
  CHECK(text_of(collective_label{"weights", {}, "layer 3"}) == "weights of layer 3");
  CHECK(text_of(collective_label{"", weft::dims_text<weft::dims<weft::batch, weft::hidden>>(), "layer 3"}) ==
        "[batch, hidden] in layer 3");
  CHECK(text_of(collective_label{"all_reduce", "[batch]", "layer 3", 2, {"src/model.cpp", 7}}) ==
        "all_reduce of [batch] in layer 3, micro-batch 2 (model.cpp:7)");
  CHECK(text_of(collective_label{"contract", "[batch]", {}, -1, {}, label_kind::gradient}) ==
        "contract's gradient of [batch]");
  CHECK(text_of(collective_label{"contract", "[batch]", {}, -1, {}, label_kind::check}) ==
        "contract's check of [batch]");
  CHECK(weft::dims_text<weft::dims<>>() == "[]");
  CHECK(weft::dims_text<weft::dims<weft::extent<weft::ffn, 8>>>() == "[ffn]");
  const call_site here = asked_at();
  CHECK(here.line == __LINE__ - 1);
  CHECK(text_of(here) == "label_test.cpp:" + std::to_string(here.line));
}

TEST_CASE("labels are equal by what they say, not by where they lie") {
  const std::string layer = "layer 3";
  const collective_label label{"weights", {}, "layer 3", 1, {"a.cpp", 2}};
  CHECK(label == collective_label{"weights", {}, layer, 1, {"a.cpp", 2}});
  CHECK_FALSE(label == collective_label{"gradients", {}, "layer 3", 1, {"a.cpp", 2}});
  CHECK_FALSE(label == collective_label{"weights", {}, "layer 3", 1, {"a.cpp", 2}, label_kind::gradient});
  CHECK_FALSE(label == collective_label{"weights", "[batch]", "layer 3", 1, {"a.cpp", 2}});
  CHECK_FALSE(label == collective_label{"weights", {}, "layer 4", 1, {"a.cpp", 2}});
  CHECK_FALSE(label == collective_label{"weights", {}, "layer 3", 0, {"a.cpp", 2}});
  CHECK_FALSE(label == collective_label{"weights", {}, "layer 3", 1, {"b.cpp", 2}});
  CHECK_FALSE(label == collective_label{"weights", {}, "layer 3", 1, {"a.cpp", 3}});
}

TEST_CASE("bug: two collectives of equal size, swapped on one rank, add one thing to the other") {
  const std::string text = message_of(3, [](threads& c) {
    float a = 1, b = 2;
    const auto sum = [&](float& x, const char* name) {
      c.all_reduce(&x, &x, 1, dtype::f32, reduction::sum, {"gradients", {}, name}).wait();
    };
    if (c.rank() != 1) sum(a, "layer 1"), sum(b, "layer 2");
    if (c.rank() == 1) sum(b, "layer 2"), sum(a, "layer 1");
  });
  CHECK(text ==
        "The ranks of group 'world' disagree on their collective number 0: rank 0 calls all_reduce(1 fp32, sum) for "
        "gradients of layer 1; rank 1 calls all_reduce(1 fp32, sum) for gradients of layer 2; rank 2 calls "
        "all_reduce(1 fp32, sum) for gradients of layer 1. Every rank of a group has to call the same collectives in "
        "the same order.");
}

TEST_CASE("every operation compares labels") {
  const auto differs = [](auto call) {
    return message_of(2, [&](threads& c) {
      float x[8] = {}, y[8] = {};
      call(c, x, y, collective_label{"", {}, c.rank() == 0 ? "layer 1" : "layer 2"});
    });
  };
  using label = const collective_label&;
  const char* both[] = {" for layer 1; rank 1 calls ", " for layer 2. "};
  for (const char* part : both) {
    CHECK(contains(differs([](threads& c, float* x, float* y, label l) { c.all_gather(x, y, 4, l).wait(); }), part));
    CHECK(contains(differs([](threads& c, float* x, float* y, label l) { c.all_to_all(x, y, 4, l).wait(); }), part));
    CHECK(contains(differs([](threads& c, float* x, float* y, label l) {
                     c.reduce_scatter(x, y, 1, dtype::f32, reduction::max, l).wait();
                   }),
                   part));
    CHECK(contains(differs([](threads& c, float* x, float*, label l) { c.broadcast(x, 4, 0, l).wait(); }), part));
    CHECK(contains(differs([](threads& c, float*, float*, label l) { c.barrier(l).wait(); }), part));
    CHECK(contains(differs([](threads& c, float* x, float* y, label l) {
                     if (c.rank() == 0) c.send(x, 4, 1, 0, l).wait();
                     if (c.rank() == 1) c.recv(y, 4, 0, 0, l).wait();
                   }),
                   part));
  }
}

TEST_CASE("a rank that polls for what one that has returned never called is told") {
  CHECK(contains(message_of(2,
                            [](threads& c) {
                              if (c.rank() == 1) return;
                              auto all = c.barrier({"the end"});
                              while (!all.test()) std::this_thread::yield();
                            }),
                 "rank 0 tests for barrier() of group 'world' for the end, and rank 1 has returned without calling it. "
                 "Every rank of a group has to call the same collectives in the same order."));
}

TEST_CASE("a label and none differ") {
  CHECK(contains(message_of(2,
                            [](threads& c) {
                              if (c.rank() == 0) c.barrier({"the end"}).wait();
                              if (c.rank() == 1) c.barrier().wait();
                            }),
                 "rank 0 calls barrier() for the end; rank 1 calls barrier(). Every"));
}

TEST_CASE("a rank that waits for ever says what for") {
  CHECK(contains(message_of(2,
                            [](threads& c) {
                              if (c.rank() == 0) c.barrier({"the end"}).wait();
                            }),
                 "rank 0 waits for barrier() of group 'world' for the end, which still has to be called by rank 1"));
}

TEST_CASE("a rank to itself") {
  int x = 1, y = 0;
  weft::single_rank alone;
  auto sent = alone.send(&x, sizeof x, 0, 0, {"activation", {}, {}, 1});
  CHECK_THROWS_WITH_AS((void)alone.recv(&y, sizeof y, 0, 0, {"activation", {}, {}, 2}),
                       "a rank sends itself \"activation, micro-batch 1\" and receives \"activation, micro-batch 2\"; "
                       "receive what is sent, in its order, with its label.",
                       weft::failure);
  alone.recv(&y, sizeof y, 0, 0, {"activation", {}, {}, 1}).wait();
  sent.wait();
  CHECK(y == 1);
}

TEST_CASE("any_communicator and traced pass labels on") {
  weft::trace_log log(2);
  const std::string text = message_of(2, [&](threads& c) {
    weft::any_communicator any(c);
    weft::traced<weft::any_communicator> world(any, log);
    int x = 1;
    world.all_reduce(&x, &x, 1, dtype::i32, reduction::sum, {"gradients", {}, "layer 1"}).wait();
    world.barrier().wait();
    any.barrier({"", {}, c.rank() == 0 ? "layer 3" : "layer 4"}).wait();
  });
  CHECK(contains(text, "rank 0 calls barrier() for layer 3; rank 1 calls barrier() for layer 4"));
  for (int rank : {0, 1}) {
    REQUIRE(log.events(rank).size() == 2);
    CHECK(log.events(rank)[0].label == "gradients of layer 1");
    CHECK(log.events(rank)[1].label == "");
  }
}

TEST_CASE("what a label names may be freed by a rank that is thrown out") {
  // compared while its owner unwinds: a sanitizer would see it
  for (int round = 0; round < 200; ++round) {
    CHECK_THROWS_AS(threads::launch(3,
                                    [&](threads& c) {
                                      const auto name = std::make_unique<std::string>("a layer with a long name, 1");
                                      float x = 0;
                                      auto sum = c.all_reduce(&x, &x, 1, dtype::f32, reduction::sum, {"", {}, *name});
                                      if (c.rank() == round % 3) throw weft::failure("mine");
                                      sum.wait();
                                    }),
                    weft::failure);
  }
}
