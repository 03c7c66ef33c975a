// A Llama trained over processes: its losses and weights are those of as many threads, to the bit.
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/comm/mpi.hpp>
#include <weft/io/text_dataset.hpp>
#include <weft/train/trainer.hpp>
#include <weft/weft.hpp>

#include "comm/watch.hpp"
#include "world.hpp"

using namespace weft;

namespace {

/// What the rank called `rank` has: losses of three runs of four steps, then its weights as they are stored.
template <class S>
std::vector<double> trained(const degrees& along, int rank, bool check = false) {
  const auto text = std::make_shared<const text_corpus>("a rhyme", [] {
    std::string bytes;
    for (int i = 0; i < 40; ++i) bytes += "the weft runs across and holds the cloth together. ";
    return bytes;
  }());
  std::vector<double> all;
  launch<S>(along,
            [&](context& ctx) {
              llama<S> model(ctx, {.layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .vocab = 256, .max_seq = 16});
              const text_dataset data(ctx, text, 0.1);
              trainer t(ctx, model, {.lr = 1e-2});
              std::vector<double> own;
              for (int part = 0; part < 3; ++part) {
                const training_result r = t.run(data, {.steps = 4, .batch = 24, .micro_batches = 2, .print = false});
                own.push_back(r.first_loss);
                own.push_back(r.loss);
                own.push_back(r.validation_loss);
              }
              t.store().each_parameter([&](const parameter_record& p, auto, auto w) {
                for (std::int64_t i = 0; i < p.local.elements(); ++i) own.push_back(static_cast<double>(w[i]));
              });
              if (ctx.rank() == rank) all = std::move(own);
            },
            {.seed = 7, .check = check});
  return all;
}

template <class OverProcesses, class OverThreads>
void equal(const degrees& along) {
  const watchdog guard("training over processes", 300);
  const std::vector<double> one = trained<OverProcesses>(along, mpi::process_rank());
  CHECK(trained<OverProcesses>(along, mpi::process_rank(), true) == one);  // calls are compared, without an alarm
  const std::vector<double> other = trained<OverThreads>(along, mpi::process_rank());
  REQUIRE(one.size() > 1000);
  REQUIRE(one.size() == other.size());
  std::size_t differ = 0;
  for (std::size_t i = 0; i < one.size(); ++i) differ += std::memcmp(&one[i], &other[i], sizeof one[i]) != 0;
  INFO("losses ", one[1], " and ", other[1], ", at the end ", one[7], " and ", other[7]);
  CHECK(differ == 0);
  CHECK(one[7] < one[0]);
}

}  // namespace

TEST_CASE("bf16 under zero3: losses and weights over processes are those of threads") {
  const int ranks = processes();
  const degrees along = ranks % 2 ? degrees{.dp = ranks} : degrees{.dp = ranks / 2, .tp = 2};
  equal<strategy<mesh<dp, tp>, zero3, bf16_mixed, mpi>, strategy<mesh<dp, tp>, zero3, bf16_mixed>>(along);
}

TEST_CASE("fp32 in a pipeline: losses and weights over processes are those of threads") {
  const int ranks = processes();
  const degrees along = ranks % 2 ? degrees{.dp = ranks} : degrees{.dp = ranks / 2, .pp = 2};
  equal<strategy<mesh<dp, pp>, zero1, mpi>, strategy<mesh<dp, pp>, zero1>>(along);
}
