// Units whose backward runs in two parts, under every sharding policy: functions of a weight read it again when weights
// get their gradients, long after the unit's activations were backpropagated.
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

using numbers = std::vector<std::vector<float>>;  // gradients by parameter

constexpr int units = 3;  // one more than there are gather buffers

enum class way : std::uint8_t { whole, parts, parts_of_two };

// Units with two weights each, h -> f(h, first, second); two micro-batches. In parts_of_two both micro-batches are
// in flight at once, and weights get their gradients last.
template <class S, class F>
numbers train(F&& f, way how, bool recompute, trace_log* log = nullptr) {
  numbers out(2 * units);
  std::mutex lock;
  launch<S>({.dp = 2, .tp = S::mesh::template has<tp> ? 2 : 1},
            [&](context& ctx) {
              using x_type = tensor<float, dims<batch, hidden>, shard<batch, dp>>;
              parameter_registry registry;
              weight<S, dims<hidden>> w[2 * units];
              for (int i = 0; i < 2 * units; ++i) {
                if (i % 2 == 0) registry.begin_unit("unit " + std::to_string(i / 2));
                registry.add(ctx, w[i], "w" + std::to_string(i), {1, {40}}, {0.5, 1});
              }
              parameter_store<cpu_backend, fp32> store(ctx, registry, config_of<typename S::sharding>());
              const auto x = normal<x_type>(ctx, "x", {4, 40}).requires_grad();
              const auto forward = [&] {
                x_type h = x;
                for (int u = 0; u < units; ++u) {
                  const auto run = [&f, a = w[2 * u], b = w[2 * u + 1]](const x_type& in) -> x_type {
                    return f(in, a, b);
                  };
                  h = in_unit(
                      ctx, store, u, [&](const x_type& in) { return recompute ? checkpoint(run, in) : run(in); }, h);
                }
                return sum(square(h));
              };
              store.begin_step(2);
              tape recorded[2];
              for (int m = 0; m < 2; ++m) {
                const recording on(ctx, &recorded[m]);
                const auto loss = forward();
                if (how == way::whole) {
                  backward(loss, m + 1);
                } else {
                  detail::seed_loss(loss, m + 1);
                  recorded[m].backward_inputs(ctx);
                  if (how == way::parts) recorded[m].backward_weights(ctx);
                }
                if (how != way::parts_of_two) store.end_micro_batch();
              }
              if (how == way::parts_of_two)
                for (tape& t : recorded) t.backward_weights(ctx), store.end_micro_batch();
              store.finish_gradients();
              std::size_t i = 0;
              store.each_parameter([&](const parameter_record&, auto gradient, auto) {
                const std::lock_guard guard(lock);
                out[i++].assign(gradient.begin(), gradient.end());
              });
            },
            {.trace = log, .check = false});  // comparing gathers, too
  return out;
}

void same(const numbers& a, const numbers& b) {
  for (std::size_t p = 0; p < a.size(); ++p) {
    REQUIRE(a[p].size() == b[p].size());
    for (std::size_t i = 0; i < a[p].size(); ++i) CHECK(a[p][i] == doctest::Approx(b[p][i]).epsilon(1e-5));
  }
}

// In two parts: what one backward gives, bit for bit; under every policy the same but for the order of sums.
template <class S, class F>
void check_under(F f, const numbers& expected, bool recompute) {
  CAPTURE(S::sharding::name);
  const numbers whole = train<S>(f, way::whole, recompute);
  same(whole, expected);
  CHECK(train<S>(f, way::parts, recompute) == whole);
  same(train<S>(f, way::parts_of_two, recompute), expected);
}
template <class Mesh = mesh<dp>, class F>
void check(F f) {
  for (const bool recompute : {false, true}) {
    CAPTURE(recompute);
    const numbers expected = train<strategy<Mesh, replicated>>(f, way::whole, false);
    REQUIRE(std::abs(expected[0][0]) > 0);
    check_under<strategy<Mesh, replicated>>(f, expected, recompute);
    check_under<strategy<Mesh, zero1>>(f, expected, recompute);
    check_under<strategy<Mesh, zero2>>(f, expected, recompute);
    check_under<strategy<Mesh, zero3>>(f, expected, recompute);
  }
}
}  // namespace

TEST_CASE("a backward in two parts: a gate") {
  check([](const auto& h, const auto& a, const auto& b) { return h * sigmoid(a) + h * b; });
}
TEST_CASE("a backward in two parts: a product of two weights") {
  check([](const auto& h, const auto& a, const auto& b) { return h * (a * b); });
}
TEST_CASE("a backward in two parts: a quotient of two weights, and one of them squared") {
  check([](const auto& h, const auto& a, const auto& b) { return h * (square(a) / (b * b + square(b))); });
}
TEST_CASE("a backward in two parts: a norm of a weight") {
  check([](const auto& h, const auto& a, const auto& b) { return rms_norm(h, b) * rms_norm(a, b); });
}
TEST_CASE("a backward in two parts: a weight made partial, which on one rank copies nothing") {
  check<mesh<dp, tp>>(
      [](const auto& h, const auto& a, const auto& b) { return all_reduce<tp>(h * (b * convert<partial<tp>>(a))); });
}

TEST_CASE("weights are gathered again for their own gradients only where these need their values") {
  const auto gathers = [](auto f, way how) {
    trace_log log(2);
    train<strategy<mesh<dp>, zero3>>(f, how, false, &log);
    return log.total(0, "all_gather", "dp").calls;
  };
  const auto linear = [](const auto& h, const auto& a, const auto& b) { return h * a + rms_norm(h, b); };
  CHECK(gathers(linear, way::parts) == gathers(linear, way::whole));
  const auto gate = [](const auto& h, const auto& a, const auto& b) { return h * (sigmoid(a) * silu(b)); };
  CHECK(gathers(gate, way::parts) > gathers(gate, way::whole));
  CHECK(gathers(gate, way::parts) <= gathers(gate, way::whole) + 2 * units);  // once in each of two micro-batches
}
