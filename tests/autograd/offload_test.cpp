// Inputs of checkpointed functions in the host's memory between their two runs, behind queues that run as late as they
// may, or copy as early (lazy_queue.hpp): the bits of those that stay, what is held where, and what goes wrong.
#include <backend/cuda/lazy_queue.hpp>
#include <bit>
#include <set>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

using namespace weft;
using namespace weft_test;

namespace {
constexpr std::size_t activations = std::size_t(memory::activations);

using lazy = strategy<mesh<>, lazy_cuda_backend>;
using row = basic_tensor<float, dims<hidden>, place<>, lazy_cuda_backend>;
const auto f = [](const row& h) { return silu(h * h) + h; };

row leaf(context& ctx) { return normal<row>(ctx, "x", {100}, 0.1).requires_grad(); }
// The bits of its gradient, which it has no longer.
std::vector<std::uint32_t> gradient_of(row& x) {
  std::vector<std::uint32_t> out;
  for (const float g : local_share_on_host(x.grad())) out.push_back(std::bit_cast<std::uint32_t>(g));
  x.zero_grad();
  CHECK(std::set(out.begin(), out.end()).size() > 50);
  return out;
}
// The gradient of x through a chain of functions, each of which P checkpoints.
template <class P>
auto through(row& x, int functions, auto g) {
  row h = 2 * x;
  for (int i = 0; i < functions; ++i) h = checkpoint<P>(g, h);
  backward(sum(h));
  return gradient_of(x);
}
// The same of x as the function's own input.
template <class P>
auto of_leaf(row& x) {
  backward(sum(checkpoint<P>(f, x)));
  return gradient_of(x);
}
struct without_host_memory : lazy_cuda_backend {
  static memory_source pinned_memory() {
    return {[](std::size_t) -> void* { return nullptr; }, [](void*) {}};
  }
};
const auto written = doctest::Contains("checkpoint: the tensor that it was given was updated or written to");
}  // namespace

TEST_CASE("offloaded inputs: functions of one's own, also within others and with nothing to move") {
  for (const bool hasty : {false, true})
    launch<lazy>({}, [&](context& ctx) {
      ctx.queue<lazy_cuda_backend>().hasty_beside = hasty;
      row x = leaf(ctx);
      for (const int functions : {1, 2, 5})
        CHECK(through<offloaded<>>(x, functions, f) == through<checkpoint_full>(x, functions, f));
      CHECK(ctx.offload_ledger().peak_total == 5 * 448);
      const auto nested = []<class P>(P) { return [](const row& h) { return checkpoint<P>(f, f(h)) * h; }; };
      CHECK(through<offloaded<>>(x, 3, nested(offloaded<>())) ==
            through<checkpoint_full>(x, 3, nested(checkpoint_full())));
      CHECK(ctx.offload_ledger().peak_total == 5 * 448);
      CHECK(of_leaf<offloaded<>>(x) == of_leaf<checkpoint_full>(x));  // somebody else has it, too
      CHECK(ctx.offload_ledger().total == 0);
    });
}

TEST_CASE("offloaded inputs: what has no backward, or its backward after others'") {
  for (const bool hasty : {false, true})
    launch<lazy>({}, [&](context& ctx) {
      ctx.queue<lazy_cuda_backend>().hasty_beside = hasty;
      row x = leaf(ctx);
      const auto expected = through<checkpoint_full>(x, 4, f);
      for (int i = 0; i < 3; ++i) {
        {
          tape unused;
          const recording on(ctx, &unused);
          row h = 3 * x;
          for (int k = 0; k < 4; ++k) h = checkpoint<offloaded<>>(f, h);
        }
        CHECK(ctx.offload_ledger().total == 0);
        tape first;
        {
          const recording on(ctx, &first);
          row h = 2 * x;
          for (int k = 0; k < 4; ++k) h = checkpoint<offloaded<>>(f, h);
          const auto loss = sum(h);
          CHECK(ctx.offload_ledger().total == 4 * 448);
          tape second;
          {
            const recording within(ctx, &second);
            row y = leaf(ctx);
            CHECK(through<offloaded<>>(y, 4, f) == expected);
          }
          backward(loss);
        }
        CHECK(gradient_of(x) == expected);
      }
    });
}

TEST_CASE("offloaded inputs: those of another pass stay on the host") {
  launch<lazy>({}, [](context& ctx) {
    const auto held = [&] { return ctx.memory.ledger().current[activations]; };
    row x = leaf(ctx);
    tape first;
    const recording on(ctx, &first);
    const auto forward = [&](std::int64_t pass) {
      const scoped_value<std::int64_t> now(ctx.pass, pass);
      row h = 2 * x;
      for (int k = 0; k < 3; ++k) h = checkpoint<offloaded<>>(f, h);
      return sum(h);
    };
    const auto kept = forward(7);
    const std::size_t before = held();
    tape second;
    {
      const recording within(ctx, &second);
      backward(forward(8));
    }
    CHECK(held() == before - 448);  // the last one's input, which is copied by now
    const auto other = gradient_of(x);
    backward(kept);
    CHECK(gradient_of(x) == other);
  });
}

TEST_CASE("offloaded inputs: while a function runs again, the input of the one before is on its way") {
  launch<lazy>({}, [](context& ctx) {
    row x = leaf(ctx);
    std::vector<std::size_t> held;
    through<offloaded<>>(x, 4, [&](const row& h) {
      held.push_back(ctx.memory.ledger().current[activations]);
      return f(h);
    });
    REQUIRE(held.size() == 8);
    CHECK(held[5] == held[6]);  // of functions 2 and 1; nothing comes before function 0
    CHECK(held[6] == held[7] + 448);
  });
}

TEST_CASE("offloaded inputs: a backward that ended with an error leaves no copy that comes later") {
  for (const bool hasty : {false, true})
    launch<lazy>({}, [&](context& ctx) {
      ctx.queue<lazy_cuda_backend>().hasty_beside = hasty;
      row x = leaf(ctx);
      int runs = 0;
      {
        tape own;
        const recording on(ctx, &own);
        row h = 2 * x;
        for (int k = 0; k < 4; ++k)
          h = checkpoint<offloaded<>>(
              [&](const row& r) {
                require(++runs < 6, "the sixth run");
                return f(r);
              },
              h);
        CHECK_THROWS_WITH_AS(backward(sum(h)), "the sixth run", failure);
      }
      CHECK(ctx.offload_ledger().total == 0);
      std::vector<row> others;
      for (int k = 0; k < 8; ++k) others.push_back(full<row>(ctx, {100}, 3));
      x = leaf(ctx);
      CHECK(through<offloaded<>>(x, 4, f) == through<checkpoint_full>(x, 4, f));
      for (const row& r : others) CHECK(local_share_on_host(r)[99] == 3);
    });
}

TEST_CASE(
    "offloaded inputs: where the host has no more memory, the function throws, and the tape is as good as before") {
  launch<strategy<mesh<>, without_host_memory>>({}, [](context& ctx) {
    using short_row = basic_tensor<float, dims<hidden>, place<>, without_host_memory>;
    short_row x = normal<short_row>(ctx, "x", {100}).requires_grad();
    const auto doubled = [](const short_row& h) { return h + h; };
    const auto h = 3 * x;
    CHECK_THROWS_WITH_AS(checkpoint<offloaded<>>(doubled, h), doctest::Contains("out of memory"), failure);
    backward(sum(h));
    for (const float g : local_share_on_host(x.grad())) CHECK(g == 3);
    x.zero_grad();
    backward(sum(checkpoint(doubled, x)));
    for (const float g : local_share_on_host(x.grad())) CHECK(g == 2);
  });
}

TEST_CASE("offloaded inputs: a tape that outlives its launch") {
  tape kept;
  launch<lazy>({}, [&](context& ctx) {
    const recording on(ctx, &kept);
    row h = 2 * leaf(ctx);
    for (int k = 0; k < 3; ++k) h = checkpoint<offloaded<>>(f, h);
  });
}

TEST_CASE("offloaded inputs: one that is written to before it is copied is refused, afterwards the copy is read") {
  launch<lazy>({}, [&](context& ctx) {
    row x = leaf(ctx);
    const auto expected = of_leaf<checkpoint_full>(x);
    enum { nothing_else, then_another, behind_another };
    for (const auto when : {nothing_else, then_another, behind_another}) {
      x = leaf(ctx);
      optimizer_state state;
      backward(sum(f(x)));
      tape own;
      const recording on(ctx, &own);
      const auto loss = sum(checkpoint<offloaded<>>(f, x));
      const auto another = [&] { return checkpoint<offloaded<>>(f, leaf(ctx)); };
      row kept;
      if (when == behind_another) kept = another();
      optimizer_update(x, x.grad(), state, sgd{.lr = 1});
      if (when == then_another) kept = another();
      if (when == behind_another) {
        backward(loss);
        CHECK(gradient_of(x) == expected);
      } else {
        CHECK_THROWS_WITH_AS(backward(loss), written, failure);
      }
    }
  });
}
