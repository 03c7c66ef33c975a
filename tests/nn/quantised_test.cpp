// Frozen weights stored in few bits: a model under nf4<lora> or int8<lora> is the one under lora with the numbers that
// the codes stand for, on every mesh and under every sharding policy; and what it doesn't take.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/nn/gpt2.hpp>
#include <weft/testing/strategy.hpp>
#include <weft/train/trainer.hpp>

#include "../said_by.hpp"

using namespace weft;

namespace {

using numbers = std::vector<double>;

const testing::training_task task{
    {.steps = 3, .micro_batches = 2},
    {.layers = 2, .hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 32, .ffn = 128, .vocab = 47, .max_seq = 16}};

bool is_projection(const std::string& name) {
  for (const char* end : {"query", "key", "value", "out", "gate", "up", "down", "qkv"})
    if (name.ends_with(std::string(".") + end)) return true;
  return false;
}

// A parameter's numbers, by its name.
numbers born(const parameter_record& p) {
  std::uint64_t seed = 1;
  for (const char c : p.name) seed = seed * 131 + static_cast<std::uint64_t>(c);
  const bool norm = p.name.find("norm") != std::string::npos;
  numbers out;
  for (std::int64_t i = 0; i < p.global.elements(); ++i)
    out.push_back(static_cast<double>(static_cast<float>(philox{seed, 5}.normal(static_cast<std::uint64_t>(i)) / 8)) +
                  (norm ? 1 : 0));
  return out;
}

// What a projection's numbers become, by the definition; of others nothing changes. row: of a weight [..., In].
numbers stored(weight_format format, const parameter_record& p) {
  numbers x = born(p);
  if (!is_projection(p.name)) return x;
  const bool two = p.name.ends_with("out");  // [hidden, heads, head_dim], the last two being its input
  const std::int64_t row = p.global[p.global.ndim - 1] * (two ? p.global[p.global.ndim - 2] : 1);
  const std::vector<float> given(x.begin(), x.end());
  detail::quantiser q(format, p.global.elements(), row);
  CHECK(q.see(0, p.global.elements(), given.data()) == -1);
  const std::vector<float> scales = q.scales();
  for (std::int64_t i = 0; i < p.global.elements(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::uint8_t code = q.code(i, given[at]);
    if (format == weight_format::int8) {
      volatile float scaled =
          static_cast<float>(static_cast<std::int8_t>(code)) * scales[static_cast<std::size_t>(i / row)];
      x[at] = static_cast<double>(scaled * (1.0f / 127));
    } else {
      volatile float product = scales[q.level(i)] * scales[static_cast<std::size_t>(257 + i / (64 * 256))];
      volatile float scale = product + scales[256];
      x[at] = static_cast<double>(detail::nf4_values.at[code] * scale);
    }
  }
  return x;
}

testing::training_task begun(numbers (*f)(const parameter_record&)) {
  testing::training_task t = task;
  t.begin = f;
  return t;
}

template <template <class> class Few, weight_format Format, class Sharding, class... More>
void is_the_one_with_its_numbers(std::initializer_list<degrees> meshes) {
  static const auto plain = testing::train<strategy<mesh<dp>, replicated, fp64, lora<3, 6>>>(
      {}, begun([](const parameter_record& p) { return stored(Format, p); }));
  using S = strategy<mesh<dp, pp, tp>, Sharding, fp64, Few<lora<3, 6>>, More...>;
  for (const degrees& d : meshes) {
    CAPTURE(d.dp);
    CAPTURE(d.tp);
    CAPTURE(d.pp);
    for (const std::string& line : testing::disagreements(plain, testing::train<S>(d, begun(born)), 1e-11, 1e-10))
      FAIL_CHECK(line);
  }
}

}  // namespace

TEST_CASE("nf4<lora>: losses and adapters' gradients are those of the numbers that the codes stand for") {
  constexpr auto format = weight_format::nf4;
  is_the_one_with_its_numbers<nf4, format, replicated>({{}, {.dp = 2}, {.tp = 2}, {.pp = 2}});
  is_the_one_with_its_numbers<nf4, format, zero3>({{.dp = 2}, {.dp = 3}, {.dp = 2, .tp = 2}, {.dp = 2, .pp = 2}});
  is_the_one_with_its_numbers<nf4, format, zero3, sequence_parallel, checkpoint_full>({{.dp = 2, .tp = 2}});
  is_the_one_with_its_numbers<nf4, format, zero2, checkpoint_selective>({{.dp = 2}});
}
TEST_CASE("int8<lora>: the same") {
  constexpr auto format = weight_format::int8;
  is_the_one_with_its_numbers<int8, format, replicated>({{}, {.dp = 2, .tp = 2}, {.dp = 3}});
  is_the_one_with_its_numbers<int8, format, zero3>({{.dp = 3}, {.dp = 2, .tp = 2}});
}

TEST_CASE("a GPT-2's projections, and fused queries, keys and values") {
  const gpt2_config small{.layers = 2, .hidden = 128, .heads = 4, .vocab = 47, .max_seq = 16};
  const auto as = [](const parameter_record& p) { return stored(weight_format::nf4, p); };
  using plain = strategy<mesh<dp>, fp64, fused_qkv<lora<3>>>;
  using few = strategy<mesh<dp, tp>, fp64, zero3, fused_qkv<nf4<lora<3>>>>;
  const auto one = testing::train_model<gpt2<plain>>({}, small, begun(as));
  for (const std::string& line : testing::disagreements(
           one, testing::train_model<gpt2<few>>({.dp = 2, .tp = 2}, small, begun(born)), 1e-11, 1e-10))
    FAIL_CHECK(line);
}

TEST_CASE("in bf16, a rank keeps a third of the bytes, and not more for being one of several") {
  const auto kept = []<class S>(S, const degrees& d) {
    std::int64_t most = 0;
    launch<S>(d, [&](context& ctx) {
      llama<S> model(ctx, {.layers = 4, .hidden = 256, .heads = 4, .ffn = 1024, .vocab = 32, .max_seq = 16});
      parameter_store<cpu_backend, bf16_mixed> store(ctx, model.registry(), config_of<typename S::sharding>());
      if (ctx.is_first())
        most = static_cast<std::int64_t>(ctx.memory.ledger().current[std::size_t(memory::parameters)]);
    });
    return static_cast<double>(most);
  };
  const double whole = kept(strategy<mesh<dp>, bf16_mixed, lora<4>>{}, {});
  CHECK(kept(strategy<mesh<dp>, bf16_mixed, int8<lora<4>>>{}, {}) < 0.53 * whole);
  CHECK(kept(strategy<mesh<dp>, bf16_mixed, nf4<lora<4>>>{}, {}) < 0.29 * whole);
  CHECK(kept(strategy<mesh<dp>, bf16_mixed, zero3, nf4<lora<4>>>{}, {.dp = 4}) < 0.1 * whole);
}

TEST_CASE("what can't be stored in few bits is refused with the way out") {
  using weft_test::said_by;
  const auto said = [](auto s, const degrees& d, const llama_config& config, auto&& numbers) {
    using S = decltype(s);
    return said_by([&] {
      launch<S>(d, [&](context& ctx) {
        llama<S> model(ctx, config);
        trainer t(ctx, model);
        t.store().load_parameters(numbers);
      });
    });
  };
  llama_config odd = task.model;
  odd.ffn = 96;
  CHECK(said(strategy<mesh<dp>, fp32, nf4<>>{}, {}, task.model, born)
            .find("parameter layers.0.query is stored as nf4, and what is stored in few bits can't be trained: take "
                  "nf4<lora<16>>, whose adapters are") != std::string::npos);
  CHECK(said(strategy<mesh<tp>, fp32, nf4<lora<2>>>{}, {.tp = 2}, odd, born)
            .find("parameter layers.0.down is stored as nf4, in blocks of 64 elements, and a rank has 48 neighbours of "
                  "96") != std::string::npos);
  CHECK(said(strategy<mesh<tp>, fp32, int8<lora<2>>>{}, {.tp = 2}, odd, born) == "nothing");
  CHECK(said(strategy<mesh<dp>, fp32, nf4<lora<2>>>{}, {}, odd, born) == "nothing");
  CHECK(said(strategy<mesh<dp>, fp32, int8<lora<2>>>{}, {.dp = 2}, task.model, [](const parameter_record& p) {
          numbers x = born(p);
          if (p.name == "layers.1.gate") x[300] = NAN;
          return x;
        }).find("parameter layers.1.gate is stored as int8, and its number 300 is not finite") != std::string::npos);
  CHECK(said(strategy<mesh<dp>, fp32, int8<lora<2>>>{}, {.dp = 2}, task.model, [](const parameter_record& p) {
          numbers x = born(p);
          if (p.name == "layers.1.gate") x[301] = 2.8e36;  // finite, and 127 times of it isn't
          return x;
        }).find("number 301 is not finite, or above 2.65") != std::string::npos);
}

TEST_CASE("int8 of the smallest numbers: nearest codes, and zeros stay zeros") {
  detail::quantiser q(weight_format::int8, 8, 4);
  const float tiny = 1e-38f, x[8] = {tiny, 0, -tiny, tiny / 2, 0, 0, 0, 0};
  CHECK(q.see(0, 8, x) == -1);
  const auto code = [&](int i) { return static_cast<int>(static_cast<std::int8_t>(q.code(i, x[i]))); };
  CHECK(code(0) == 127);
  CHECK(code(1) == 0);
  CHECK(code(2) == -127);
  CHECK((code(3) == 63 || code(3) == 64));
  CHECK(code(5) == 0);
}

TEST_CASE("check finds scales that differ between ranks") {
  using S = strategy<mesh<dp>, fp32, int8<lora<2>>>;
  const std::string said = weft_test::said_by([] {
    launch<S>({.dp = 2},
              [](context& ctx) {
                llama<S> model(ctx, task.model);
                trainer t(ctx, model);
                t.store().load_parameters([&](const parameter_record& p) {
                  numbers x = born(p);
                  if (p.name == "layers.1.up" && !ctx.is_first())
                    for (double& n : x) n *= 2;  // the same codes
                  return x;
                });
                t.store().each_parameter([](const parameter_record&, auto, auto) {});
              },
              {.check = true});
  });
  CHECK(said.find("the scales of layers.1.up") != std::string::npos);
}

TEST_CASE("a unit's statistics count what codes stand for") {
  using few = strategy<mesh<dp, tp>, fp64, zero3, nf4<lora<2>>>;
  using plain = strategy<mesh<dp>, fp64, lora<2>>;
  const auto weights = []<class S>(S, const degrees& d, numbers (*f)(const parameter_record&)) {
    double squares = 0, elements = 0;
    launch<S>(d, [&](context& ctx) {
      llama<S> model(ctx, task.model);
      trainer t(ctx, model);
      t.store().load_parameters(f);
      measured_parts parts;
      detail::measure_stored(ctx, t.store(), 1, parts, statistics_of<cpu_backend>);
      for (const unit_statistics& u : parts.gather(ctx))
        if (ctx.is_first() && u.unit == "layer 1")
          squares = u[measured::weight].squares, elements = static_cast<double>(u[measured::weight].elements);
    });
    return std::pair(squares, elements);
  };
  const auto one = weights(plain{}, {}, [](const parameter_record& p) { return stored(weight_format::nf4, p); });
  const auto all = weights(few{}, {.dp = 2, .tp = 2}, born);
  CHECK(one.first > 0);
  CHECK(all.first == doctest::Approx(one.first).epsilon(1e-10));
  CHECK(all.second == one.second);
}
