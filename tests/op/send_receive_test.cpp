// Tensors sent between neighbours along an axis, by ranks that are at different places of their programs.
#include <doctest/doctest.h>

#include <weft/op/send_receive.hpp>
#include <weft/op/to_host.hpp>
#include <weft/parallel/launch.hpp>

using namespace weft;

namespace {
using rows = tensor<float, dims<batch, hidden>>;
using slices = tensor<float, dims<seq, hidden>, shard<seq, tp>>;

bool all_are(const std::vector<float>& numbers, float wanted, std::size_t count) {
  return numbers == std::vector<float>(count, wanted);
}
}  // namespace

TEST_CASE("a stage's tensor reaches the next stage, and the one before") {
  launch<strategy<mesh<pp>>>({.pp = 3}, [](context& ctx) {
    const int stage = ctx.index<pp>().here();
    const auto mine = [&](std::int64_t) { return float(stage); };
    const auto x = generate<rows>(ctx, {2, 3}, mine);
    request onward, back;
    if (stage < 2) onward = send<movement::shift>(x);
    if (stage > 0) back = send<movement::shift_back>(x);
    if (stage > 0) {
      const auto y = receive<movement::shift, rows>(ctx, untyped(x).whole);
      require(all_are(on_host(y), float(stage - 1), 6), "not the tensor of the stage before");
    }
    if (stage < 2) {
      const auto y = receive<movement::shift_back, rows>(ctx, untyped(x).whole);
      require(all_are(on_host(y), float(stage + 1), 6), "not the tensor of the next stage");
    }
    if (stage < 2) onward.wait();
    if (stage > 0) back.wait();
  });
}

TEST_CASE("slices reach the next rank whole, padding too") {
  launch<strategy<mesh<tp>>>({.tp = 2}, [](context& ctx) {
    const auto numbers = [](std::int64_t i) { return float(i); };
    const auto x = generate<slices>(ctx, {3, 2}, numbers);  // two rows, and one and padding
    if (ctx.index<tp>() == 0) {
      request sent = send_slice<movement::shift, tp>(x);
      sent.wait();
    } else {
      const auto before = receive_slice<movement::shift, tp, slices>(ctx, untyped(x).whole);
      require(local_share_on_host(before) == std::vector<float>{0, 1, 2, 3}, "not the slice of the rank before");
    }
  });
}

TEST_CASE("at the ends there is nobody to send to, or to receive from") {
  launch<strategy<mesh<pp>>>({.pp = 2}, [](context& ctx) {
    const auto x = zeros<rows>(ctx, {2, 3});
    if (ctx.index<pp>() == 0)
      CHECK_THROWS_WITH_AS((receive<movement::shift, rows>(ctx, untyped(x).whole)),
                           doctest::Contains("receive_slice: this rank has no neighbour on that side of the axis"),
                           failure);
    else
      CHECK_THROWS_WITH_AS((void)send<movement::shift>(x),
                           doctest::Contains("send_slice: this rank has no neighbour on that side of the axis"),
                           failure);
  });
}
