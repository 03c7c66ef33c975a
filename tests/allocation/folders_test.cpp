// A folder is loaded and saved without a copy of it: a rank holds its share, and at most a tensor more.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include <weft/io/pretrained.hpp>
#include <weft/weft.hpp>

#include "../temporary.hpp"
#include "allocation/heap.hpp"

using namespace weft;
using weft_test::heap_counter;

namespace {

constexpr llama_config config{
    .layers = 4, .hidden = 256, .heads = 8, .kv_heads = 4, .ffn = 640, .vocab = 4096, .max_seq = 64};
constexpr long largest_tensor = 4096L * 256 * sizeof(float);
constexpr long whole = 2 * largest_tensor + 4 * (256L * (256 + 128 + 128 + 256) + 3 * 256L * 640) * sizeof(float);

// The bytes that all ranks take from the heap while f runs, and those that each takes from its arena above `before`.
template <class F>
void check_holds_no_more(context& ctx, F&& f) {
  const auto peak = [&] { return static_cast<long>(ctx.memory.ledger().peak_total); };
  const long before = peak(), held = static_cast<long>(ctx.memory.ledger().total);
  ctx.world.barrier().wait();
  if (ctx.is_first()) heap_counter::bytes = 0, heap_counter::on = true;
  ctx.world.barrier().wait();
  f();
  ctx.world.barrier().wait();
  if (ctx.is_first()) {
    heap_counter::on = false;
    CHECK(heap_counter::bytes > 0);
    CHECK(heap_counter::bytes < largest_tensor);
  }
  CHECK(peak() <= std::max(before, held + largest_tensor));
  CHECK(static_cast<long>(ctx.memory.ledger().total) == held);
}

template <class S>
void check_folder(const degrees& ranks) {
  const weft_test::temporary_folder here;
  const std::string folder = here / "model";
  launch<S>(ranks, [&](context& ctx) {
    llama<S> model(ctx, config);
    model.registry().freeze([](const parameter_record&) { return true; });
    parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(), config_of<typename S::sharding>());
    check_holds_no_more(ctx, [&] { save_pretrained(ctx, model, store, folder); });
    check_holds_no_more(ctx, [&] { load_weights(ctx, store, safetensors(folder), llama_weight_names); });
    // Shares add up to the model, and the weights that are gathered for use to no more than half of it.
    CHECK(static_cast<long>(ctx.memory.ledger().total) < whole / ctx.size() + whole / 2);
  });
}

}  // namespace

TEST_CASE("a rank holds its share of a folder that is loaded or saved, and at most a tensor more") {
  check_folder<strategy<mesh<dp, tp>, zero3>>({.dp = 4});
  check_folder<strategy<mesh<dp, tp>, zero3>>({.dp = 2, .tp = 2});
}
