// Randomness is a function of (seed, name, global index): the same tensor, bit for bit, under every sharding.
#include <cstring>

#include <doctest/doctest.h>

#include <weft/backend/cpu.hpp>
#include <weft/op/create.hpp>
#include <weft/op/to_host.hpp>

#include "ranks.hpp"

namespace {

using namespace weft;
using namespace laws;
using d3 = dims<batch, seq, hidden>;
constexpr std::int64_t B = 24, S = 6, H = 48;  // shared evenly on every mesh here, the middle one along no axis

template <class X>
std::vector<typename X::element_type> numbers(const X& x) {
  return local_share_on_host(x);
}

template <class T, class... Ps>
void same_as_whole(bool uniform_numbers) {
  const auto make = [=]<class X>(context& ctx, X) {
    return uniform_numbers ? uniform<X>(ctx, "w", {B, S, H}, -3, 5) : normal<X>(ctx, "w", {B, S, H}, 0.02);
  };
  using X = tensor<T, d3, Ps...>;
  std::vector<T> whole;
  on_ranks({}, [&](context& ctx) { whole = numbers(make(ctx, tensor<T, d3>{})); });
  for (const degrees& mesh : meshes)
    on_ranks(mesh, [&](context& ctx) {
      const X x = make(ctx, X{});
      const X copied = from_global<X>(ctx, {B, S, H}, whole);
      require(
          x.local_elements() * shards_of<layout_of<X>, batch>(ctx) * shards_of<layout_of<X>, hidden>(ctx) == B * S * H,
          "a rank holds more or less than its share");
      require(std::memcmp(x.local_share().data(), copied.local_share().data(),
                          std::size_t(x.local_share().size()) * sizeof(T)) == 0,
              "rank ", ctx.rank().here(), " made other numbers than one rank does");
    });
}

TEST_CASE("bug: random tensors change with the sharding") {
  for (bool u : {false, true}) {
    same_as_whole<float>(u);
    same_as_whole<float, shard<batch, dp>, shard<hidden, tp>>(u);
    same_as_whole<double, shard<hidden, dp, tp>>(u);
    same_as_whole<double, shard<hidden, tp, dp>>(u);
    same_as_whole<bf16, shard<hidden, tp>, replicate<dp>>(u);
  }
}

TEST_CASE("another seed, another name: other numbers") {
  std::vector<float> a, b, c, again;
  const auto draw = [](std::uint64_t seed, const char* name, std::vector<float>& out) {
    on_ranks({}, [&](context& ctx) {
      ctx.seed = seed;
      out = numbers(normal<tensor<float, dims<hidden>>>(ctx, name, {64}));
    });
  };
  draw(1, "a", a), draw(2, "a", b), draw(1, "b", c), draw(1, "a", again);
  CHECK(a == again);
  int equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) equal += (a[i] == b[i]) + (a[i] == c[i]) + (b[i] == c[i]);
  CHECK(equal == 0);
}

}  // namespace
