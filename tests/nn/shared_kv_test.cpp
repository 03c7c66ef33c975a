// Ranks along tp that share key and value heads, fewer than they are: the same losses and gradients as on one rank,
// step after step, and the same text.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/testing/strategy.hpp>

using namespace weft;

namespace {

// Eight query heads; an odd width of heads would be none, 6 is one that four ranks don't divide.
testing::training_task with(std::int64_t kv_heads, std::int64_t head_dim = 8) {
  return {{.steps = 3, .micro_batches = 2},
          {.layers = 3,
           .hidden = 16,
           .heads = 8,
           .kv_heads = kv_heads,
           .head_dim = head_dim,
           .ffn = 24,
           .vocab = 47,
           .max_seq = 16,
           .qkv_bias = true,
           .qk_norm = true}};
}

// Three steps of AdamW on one rank by dense projections, and on these meshes. Tolerances: rounding of fp64, as
// check_strategy's.
template <class S>
void same_as_one_rank(const testing::training_task& task, std::initializer_list<degrees> meshes) {
  const auto one = testing::train<strategy<mesh<dp>, fp64>>({}, task);
  for (const degrees& d : meshes) {
    CAPTURE(d.dp);
    CAPTURE(d.tp);
    CAPTURE(d.pp);
    for (const std::string& line : testing::disagreements(one, testing::train<S>(d, task), 1e-12, 1e-10))
      FAIL_CHECK(line);
  }
}

}  // namespace

TEST_CASE("two, one and three key and value heads on more ranks than they are") {
  using S = strategy<mesh<dp, tp>, fp64, shared_kv<>>;
  same_as_one_rank<S>(with(2), {{}, {.tp = 2}, {.tp = 4}, {.dp = 2, .tp = 4}, {.tp = 8}});
  same_as_one_rank<S>(with(1), {{.tp = 2}, {.tp = 4}});
}
