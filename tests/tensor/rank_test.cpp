// A tensor belongs to a rank: another rank's thread neither uses nor copies it, since copies count their owners there.
#include <atomic>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

using namespace weft;

TEST_CASE("a rank that copies another rank's tensor is told, and the counter of its owners is left alone") {
  using X = tensor<float, dims<batch>>;
  std::atomic<const X*> shown{nullptr};
  std::atomic<int> refused{0};
  launch<strategy<mesh<dp>>>({.dp = 3}, [&](context& ctx) {
    const X own = full<X>(ctx, {4}, ctx.rank().here());
    if (ctx.rank() == 0) shown = &own;
    while (!shown) std::this_thread::yield();
    if (ctx.rank() != 0) {
      const auto refuses = [&](auto&& f) {
        CHECK_THROWS_WITH_AS(f(), doctest::Contains("a tensor of another rank is used"), failure);
        ++refused;
      };
      const X& other = *shown;
      for (int i = 0; i < 1000; ++i) refuses([&] { const X copy = other; });
      X assigned = own;
      refuses([&] { assigned = other; });
      CHECK(assigned.local_share()[0] == float(ctx.rank().here()));
    }
    while (refused < 2002) std::this_thread::yield();
    CHECK(own.local_share()[3] == float(ctx.rank().here()));
  });
}

TEST_CASE("a copy may be made when the launch has ended: only its use is refused") {
  using X = tensor<float, dims<batch>>;
  X kept;
  launch<strategy<mesh<dp>>>({}, [&](context& ctx) { kept = full<X>(ctx, {4}, 1); });
  const X copy = kept;
  CHECK_THROWS_WITH_AS(copy.local_share(), doctest::Contains("after its launch ended"), failure);
}

TEST_CASE("what was read of a tensor in place is refused after its launch ended") {
  local_share<float> kept;
  launch<strategy<mesh<dp>>>({}, [&](context& ctx) {
    kept = full<tensor<float, dims<batch>>>(ctx, {4}, 1).local_share();
    CHECK(kept[3] == 1);
  });
  CHECK(kept.size() == 4);
  CHECK_THROWS_WITH_AS(kept[0], doctest::Contains("read after its launch ended"), failure);
  CHECK_THROWS_WITH_AS(kept.begin(), doctest::Contains("read after its launch ended"), failure);
}
