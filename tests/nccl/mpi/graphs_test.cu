// What processes give NCCL while their queues keep a graph back: it is part of the graph, with the same numbers, and
// nobody waits for what another keeps back. Needs a GPU for each of two processes or more.
#include <atomic>

#include <doctest/doctest.h>

#include <weft/backend/nccl_mpi.cuh>
#include <weft/comm/any.hpp>
#include <weft/testing/communicator.hpp>
#include <weft/testing/watchdog.hpp>
#include <weft/weft.cuh>

#include "../../backend/cuda/device_calls.hpp"
#include "../../backend/cuda/in_device_memory.hpp"
#include "../../mpi/world.hpp"
#include "../../said_by.hpp"
#include "../../train/small_training.hpp"
#include "../floats.cuh"

using namespace weft;
using namespace weft_test;
using weft::testing::watchdog;

namespace {

// f(communicator behind the rank's queue, the queue) in each process.
template <class F>
void on_ranks(const F& f) {
  const watchdog guard("graphs with operations over NCCL", 100);
  nccl_mpi::launch(processes(), [&](nccl_mpi& world) {
    const auto q = cuda_backend::open(world.size(), world.rank(), 1);
    any_communicator all = any_communicator(world).behind(queue_ref(*q));
    f(all, *q);
  });
  if (auto* const live = of_stand_in<int()>("weft_nccl_live")) CHECK(live() == 0);
}

}  // namespace

TEST_CASE("nccl in graphs: operations obey the laws of communicators") {
  static_assert(joins_graphs<nccl_mpi> && joins_graphs<checked<nccl_mpi>> && !joins_graphs<threads>);
  weft::testing::check_communicator<in_device_memory<cuda_backend, nccl_mpi, true>>(processes());
}

TEST_CASE("nccl in graphs: a step's kernels and operations are one launch, and the next step has its executable") {
  const int ranks = processes(), steps = 6;
  std::vector<std::vector<float>> plain;
  for (const bool graph : {false, true}) {
    std::vector<std::vector<float>> got;
    on_ranks([&](any_communicator& all, gpu::stream& q) {
      const int r = all.rank();
      const queue_ref order(q);
      const float own = float(r);
      floats x(q, 100, own), sum(q, 100, 0), most(q, 100, 0), every(q, 100 * ranks, 0), left(q, 100, 0);
      device_calls between{};
      for (int step = 0; step < steps; ++step) {
        if (step == 2) count_calls(between);
        if (graph && step > 0) q.begin_graph();  // the first connects the ranks
        x.set(0.5f, own + float(step));
        request reduced = all.all_reduce(x.data(), sum.data(), 100, dtype::f32, reduction::sum);
        request sent = all.send(x.data(), 400, (r + 1) % ranks, 3),
                received = all.recv(left.data(), 400, (r + ranks - 1) % ranks, 3);
        reduced.wait(order);
        sum.set(2, 1);
        all.all_reduce(sum.data(), most.data(), 100, dtype::f32, reduction::max).wait(order);
        received.wait(order), sent.wait(order);
        left.set(3, own);
        all.all_gather(left.data(), every.data(), 400).wait(order);
        x.set(1, 0.25f);
        if (graph) q.launch_graph();
        if (step == 1) q.synchronize();
        if (step == 4) count_calls(between);
      }
      got = {x.all(), sum.all(), most.all(), every.all(), left.all()};
      if (!graph) return;
      CHECK(q.graphs().launches == steps - 1);
      CHECK(q.graphs().instantiations == 1);
      CHECK(q.graphs().flushes == 0);
      if (!of_stand_in<int()>("weft_nccl_live")) return;
      CHECK(between.launches == 3);
      CHECK(between.plain == 0);
      CHECK(between.waits_captured == 0);
      CHECK(between.captured >= 3u * (ranks > 1 ? 10 : 8));
    });
    if (graph)
      CHECK(got == plain);
    else
      plain = got;
  }
  CHECK(plain[0][7] > 0);
}

TEST_CASE("nccl in graphs: a lane's first operation is in none, and what comes behind it goes one by one") {
  on_ranks([&](any_communicator& all, gpu::stream& q) {
    const queue_ref order(q);
    floats x(q, 64, 1);
    q.begin_graph();
    x.set(2, 0);
    all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum).wait(order);
    CHECK(!q.keeps_back());
    CHECK(q.graphs().flushes == 1);
    x.set(1, 1);
    q.begin_graph();
    all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum).wait(order);
    CHECK(q.keeps_back());
    q.launch_graph();
    const float ranks = float(all.size());
    CHECK(x.all()[63] == (2 * ranks + 1) * ranks);
    CHECK(q.graphs().flushes == 1);
  });
}

TEST_CASE("nccl in graphs: a queue that outlives its launch keeps no operation from which communicators end") {
  std::shared_ptr<gpu::stream> kept;
  nccl_mpi::launch(processes(), [&](nccl_mpi& world) {
    kept = cuda_backend::open(world.size(), world.rank(), 1);
    any_communicator all = any_communicator(world).behind(queue_ref(*kept));
    floats x(*kept, 64, 1);
    for (int step = 0; step < 3; ++step) {
      if (step > 0) kept->begin_graph();
      all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum).wait(queue_ref(*kept));
      kept->launch_graph();
    }
    CHECK(x.all()[9] == float(all.size() * all.size() * all.size()));
  });
  floats x(*kept, 64, 1);
  kept->begin_graph();
  x.set(2, 1);
  kept->launch_graph();
  CHECK(x.all()[9] == 3);
}

TEST_CASE("nccl in graphs: who waits for another rank's words has what others may wait for launched first") {
  if (processes() < 2) return;
  on_ranks([&](any_communicator& all, gpu::stream& q) {
    const int r = all.rank(), last = all.size() - 1;
    const queue_ref order(q);
    floats x(q, 64, 1), y(q, 64, 0);
    const auto sum = [&] { all.all_reduce(x.data(), y.data(), 64, dtype::f32, reduction::sum).wait(order); };
    sum();
    q.begin_graph();
    sum();
    std::int64_t word = 7;
    if (r == last) {
      CHECK(y.all()[5] == float(all.size()));  // in which rank 0 has a part
      all.host().send(&word, sizeof word, 0, 2).wait();
    } else if (r == 0) {
      word = 0;
      all.host().recv(&word, sizeof word, last, 2).wait();
      CHECK(word == 7);
      CHECK(!q.keeps_back());
    }
    CHECK(y.all()[5] == float(all.size()));
  });
}

TEST_CASE("nccl in graphs: none begins or is launched while a message is under way") {
  if (processes() < 2) return;
  for (const int when : {0, 1, 2}) {  // before a graph begins, before it is launched, or where its receiver's end waits
    CAPTURE(when);
    const auto words = said_by([&] {
      on_ranks([&](any_communicator& all, gpu::stream& q) {
        const int r = all.rank(), peer = r ^ 1;
        if (peer == all.size()) return;
        const queue_ref order(q);
        floats x(q, 64, 1), y(q, 64, 0);
        const auto swap = [&] { return std::pair(all.send(x.data(), 256, peer, 1), all.recv(y.data(), 256, peer, 1)); };
        {
          auto [sent, received] = swap();
          sent.wait(order), received.wait(order);
        }
        if (when > 0) q.begin_graph();
        auto [sent, received] = swap();
        if (when == 2) return;
        received.wait(order);
        when == 0 ? q.begin_graph() : q.launch_graph();
        sent.wait(order);
      });
    });
    CAPTURE(words);
    CHECK(words.find("while 1 of its messages are under way") != std::string::npos);
  }
}

TEST_CASE("nccl in graphs: all ranks end where one can't launch its graph, whoever catches that") {
  if (processes() < 2) return;
  for (const bool waits : {false, true}) {
    CAPTURE(waits);
    const auto words = said_by([&] {
      on_ranks([&](any_communicator& all, gpu::stream& q) {
        const int r = all.rank();
        floats x(q, 64, 1);
        const auto sum = [&] { return all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum); };
        sum().wait(queue_ref(q));
        if (r == 0) q.begin_graph();
        auto summed = sum();
        if (!waits || r > 0) summed.wait(queue_ref(q));
        if (r == 0) {
          cudaStreamSynchronize(q.get());  // which a capture doesn't bear
          CHECK_THROWS_AS(q.launch_graph(), failure);
          if (!waits) return;
        }
        waits ? summed.wait() : void();
        x.all();
      });
    });
    CAPTURE(words);
    CHECK(words.find("a graph, which is kept back here, can't have this") != std::string::npos);
  }
}

TEST_CASE("nccl: what another rank's failure left undone isn't read") {
  if (processes() < 2) return;
  for (const bool in_graph : {false, true}) {
    CAPTURE(in_graph);
    std::atomic<bool> read = false;
    const auto words = said_by([&] {
      on_ranks([&](any_communicator& all, gpu::stream& q) {
        floats x(q, 64, 1);
        const auto sum = [&] { all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum).wait(queue_ref(q)); };
        sum();
        require(all.rank() != 1, "the disk is full");
        if (in_graph) q.begin_graph();
        sum();
        x.all();
        read = true;
      });
    });
    CAPTURE(words);
    CHECK(!read);
    CHECK(words.find("the disk is full") != std::string::npos);
  }
}

TEST_CASE("nccl in graphs: a rank that fails while it keeps a graph back, or NCCL, ends the others") {
  if (processes() < 2) return;
  for (const bool of_nccl : {false, true}) {
    CAPTURE(of_nccl);
    auto* const fail_after = of_stand_in<void(int, int)>("weft_nccl_fail_after");
    if (of_nccl && !fail_after) continue;
    const auto words = said_by([&] {
      on_ranks([&](any_communicator& all, gpu::stream& q) {
        floats x(q, 64, 1);
        const auto sum = [&] { all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum).wait(queue_ref(q)); };
        sum();
        if (of_nccl && all.rank() == 0) fail_after(2, 3);
        for (int step = 0; step < 3; ++step) {
          q.begin_graph();
          sum();
          x.set(1, 1);
          sum();
          require(of_nccl || step < 2 || all.rank() != 1, "the disk is full");
          q.launch_graph();
        }
        q.synchronize();
        all.barrier().wait();
      });
    });
    CAPTURE(words);
    const std::string part = of_nccl ? "remote process exited or there was a network error" : "the disk is full";
    CHECK(words.find(part) != std::string::npos);
  }
}

TEST_CASE("nccl in graphs: a training of several ranks whose steps are graphs has the bits of one without") {
  using S = strategy<mesh<pp, dp, tp>, zero3, bf16_mixed, cuda_backend, nccl_mpi>;
  const llama_config tiny{.layers = 2, .hidden = 16, .heads = 2, .kv_heads = 2, .ffn = 24, .vocab = 256, .max_seq = 8};
  const auto run = [&](const degrees& mesh, bool graph) {
    const watchdog guard("a training whose steps are graphs", 100);
    std::vector<std::uint64_t> bits;
    launch<S>(mesh,
              [&](context& ctx) {
                llama<S> model(ctx, tiny);
                trainer t(ctx, model, adamw{.lr = 1e-2});
                const text_dataset data(ctx, rhyme());
                const auto result = t.run(data, {.steps = 8,
                                                 .batch = 4 * processes(),
                                                 .micro_batches = 2,
                                                 .seq = 8,
                                                 .clip_norm = 0.5,
                                                 .print = false,
                                                 .step_graph = graph});
                bits.push_back(std::bit_cast<std::uint64_t>(result.loss));
                t.store().each_parameter([&](const parameter_record&, auto, auto weight) {
                  for (const auto x : weight) bits.push_back(std::bit_cast<std::uint64_t>(static_cast<double>(x)));
                });
                const graph_counts graphs = ctx.queue<cuda_backend>().graphs();
                CHECK(graphs.launches == (graph ? 6 : 0));
                CHECK(graphs.instantiations == (graph ? 1 : 0));
                CHECK(graphs.flushes == 0);
              },
              {.check = false});
    return bits;
  };
  std::vector<degrees> meshes{{.dp = processes()}};
  if (processes() % 2 == 0) meshes.push_back({.tp = processes() / 2, .pp = 2});
  for (const degrees& mesh : meshes) {
    const auto plain = run(mesh, false);
    CHECK(plain.size() > 100);
    CHECK(run(mesh, true) == plain);
  }
}
