// Frozen weights stored in few bits: a model under nf4<lora> or int8<lora> is the one under lora with the numbers that
// the codes stand for, on every mesh and under every sharding policy; and what it doesn't take.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/nn/gpt2.hpp>
#include <weft/testing/strategy.hpp>

#include "said_by.hpp"

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
      x[at] = static_cast<double>(detail::nf4_values[code] * scale);
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
  is_the_one_with_its_numbers<int8, format, replicated>({{}, {.dp = 2, .tp = 2}, {.tp = 4}});
  is_the_one_with_its_numbers<int8, format, zero3>({{.dp = 3}, {.dp = 2, .tp = 2}});
}
