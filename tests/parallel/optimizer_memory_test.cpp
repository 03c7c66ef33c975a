// The optimizer's state in an arena of its own, of the host's memory or of a file: the same bits, and not a byte of it
// in the rank's own arena.
#include <barrier>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <weft/io/file_memory.hpp>
#include <weft/nn/llama.hpp>
#include <weft/parallel/launch.hpp>
#include <weft/train/trainer.hpp>

#include "../temporary.hpp"

using namespace weft;

namespace {

enum class kept_in { own, host, file };

template <class S>
std::map<std::string, std::vector<float>> trained(const degrees& ranks, kept_in where, const std::string& folder) {
  std::map<std::string, std::vector<float>> out;
  std::mutex lock;
  launch<S>(ranks, [&](context& ctx) {
    if (where == kept_in::host) ctx.keep_optimizer_state_in({});
    if (where == kept_in::file) ctx.keep_optimizer_state_in(file_memory(folder));
    llama<S> model(ctx, {.layers = 2, .hidden = 32, .heads = 4, .ffn = 64, .vocab = 256, .max_seq = 16});
    trainer t(ctx, model, adamw{.lr = 1e-2});
    const text_dataset data(ctx, std::make_shared<const text_corpus>("words", std::string(2000, 'a') + "b"), 0);
    t.run(data, {.steps = 3, .batch = 8, .validation_sequences = 0, .print = false});
    const auto held = [](const memory_ledger& ledger) { return ledger.current[std::size_t(memory::optimizer)]; };
    std::size_t bytes = 0;
    t.store().each_stored([&](const stored_parameter& p) {
      bytes += static_cast<std::size_t>(p.first.bytes() + p.second.bytes() + p.weight.bytes());
    });
    CHECK(held(ctx.optimizer_ledger()) >= bytes);
    CHECK((held(ctx.memory.ledger()) == 0) == (where != kept_in::own));
    t.store().each_parameter([&](const parameter_record& p, auto, auto w) {
      const std::lock_guard guard(lock);
      auto& all = out[p.name + " on " + std::to_string(ctx.index<tp>().here())];
      all.assign(w.begin(), w.end());
    });
  });
  return out;
}

}  // namespace

TEST_CASE("the optimizer's state elsewhere: the same bits") {
  using S = strategy<mesh<dp, tp>, zero2, bf16_mixed>;
  const degrees four{.dp = 2, .tp = 2};
  const weft_test::temporary_folder folder;
  const auto own = trained<S>(four, kept_in::own, folder.path());
  CHECK(own.size() > 10);
  CHECK(trained<S>(four, kept_in::host, folder.path()) == own);
  CHECK(trained<S>(four, kept_in::file, folder.path()) == own);
}

TEST_CASE("ranks that share one file for their state each have a part of it of their own") {
  const memory_source one = file_memory("/tmp");
  constexpr std::size_t ranks = 4, chunks = 100, bytes = 4096;
  std::vector<std::vector<unsigned char*>> given(ranks);
  std::barrier<> all(ranks);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      all.arrive_and_wait();
      for (std::size_t i = 0; i < chunks; ++i)
        given[r].push_back(static_cast<unsigned char*>(one.place->allocate(bytes)));
    });
  for (std::thread& t : threads) t.join();
  for (std::size_t r = 0; r < ranks; ++r)
    for (unsigned char* chunk : given[r]) std::memset(chunk, static_cast<int>(r), bytes);
  for (std::size_t r = 0; r < ranks; ++r)
    for (unsigned char* chunk : given[r]) {
      REQUIRE(chunk[0] == r);
      REQUIRE(chunk[bytes - 1] == r);
      one.place->release(chunk);
    }
}

TEST_CASE("a folder that isn't there, and memory that the kernels can't address, are refused") {
  CHECK_THROWS_WITH_AS(file_memory("/no/such/folder"),
                       doctest::Contains("no file for memory can be made in the folder /no/such/folder"), failure);
  CHECK_THROWS_WITH_AS(file_memory(""), doctest::Contains("a folder without a name"), failure);
  const memory_source tiny = file_memory("/tmp");
  CHECK_THROWS_WITH_AS(tiny.place->allocate(std::size_t{1} << 60), doctest::Contains("can't grow from 0 MiB by"),
                       failure);
  memory_source devices;
  devices.allocate = [](std::size_t) -> void* { return nullptr; };
  context alone(single_rank{}, 1, devices);
  CHECK_THROWS_WITH_AS(alone.keep_optimizer_state_in({}), doctest::Contains("leave it in the device's memory"),
                       failure);
  for (const std::int64_t chunk : {0, -1})
    CHECK_THROWS_WITH_AS(alone.keep_optimizer_state_in({}, chunk), doctest::Contains("elements at a time"), failure);
}

TEST_CASE("another place for the state is refused while there is state in the one before") {
  context alone(single_rank{}, 1);
  alone.keep_optimizer_state_in(file_memory("/tmp"));
  alone.keep_optimizer_state_in({});  // nothing was there
  {
    const local_array state = alone.make_state(dtype::f32, shape{1, {4}});
    CHECK_THROWS_WITH_AS(alone.keep_optimizer_state_in({}), doctest::Contains("was called before"), failure);
    state.as<float>()[3] = 1;  // it lies where it was
    CHECK(alone.optimizer_ledger().total >= 16);
  }
  alone.keep_optimizer_state_in({});
}
