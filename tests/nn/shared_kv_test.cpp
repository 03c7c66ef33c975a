// Ranks along tp that share key and value heads, fewer than they are: the same losses and gradients as on one rank,
// step after step, and the same text.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/optim/muon.hpp>
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

// Three steps on one rank by Form, and by S on these meshes. Tolerances: rounding of fp64, which AdamW's first steps
// multiply; an error of placement is of order 1.
template <class S, class Form = dense, any_optimizer Optimizer = adamw>
void same_as_one_rank(const testing::training_task& task, std::initializer_list<degrees> meshes,
                      const Optimizer& optimizer = {.lr = 1e-2}) {
  const auto one = testing::train<strategy<mesh<dp>, fp64, Form>>({}, task, optimizer);
  for (const degrees& d : meshes) {
    CAPTURE(d.dp);
    CAPTURE(d.tp);
    CAPTURE(d.pp);
    for (const std::string& line : testing::disagreements(one, testing::train<S>(d, task, optimizer), 1e-12, 1e-10))
      FAIL_CHECK(line);
  }
}

}  // namespace

TEST_CASE("fewer key and value heads than ranks, as many, and more") {
  using S = strategy<mesh<dp, tp>, fp64, shared_kv<>>;
  same_as_one_rank<S>(with(2), {{}, {.tp = 2}, {.tp = 4}, {.dp = 2, .tp = 4}, {.tp = 8}});
  same_as_one_rank<S>(with(1), {{.tp = 2}, {.tp = 4}});
  same_as_one_rank<S>(with(8), {{.tp = 4}});
}

TEST_CASE("heads that ranks don't divide, nor the other way round, and a width that they don't divide") {
  using S = strategy<mesh<dp, tp>, zero1, fp64, shared_kv<>>;
  testing::training_task six = with(6, 6);  // six heads twice on four ranks; 6 elements of a head, and 2 of padding
  six.model.heads = 12;
  same_as_one_rank<S>(six, {{.tp = 2}, {.tp = 4}});
  same_as_one_rank<S>(with(1, 2), {{.tp = 4}});  // ranks that have padding only
  testing::training_task three = with(3);        // each of three heads on all four ranks; four heads on three ranks
  three.model.heads = 12;
  same_as_one_rank<S>(three, {{.tp = 4}});
  three.model.kv_heads = 4;
  same_as_one_rank<S>(three, {{.tp = 3}});
}

TEST_CASE("shared heads, with weights sharded, the sequence too, layers run again, and stages") {
  using all = strategy<mesh<dp, pp, tp>, zero3, sequence_parallel, checkpoint_full, fp64, shared_kv<>>;
  same_as_one_rank<all>(with(2), {{.dp = 2, .tp = 4}, {.tp = 4, .pp = 2}});
  same_as_one_rank<all>(with(1), {{.dp = 2, .tp = 2}});
  same_as_one_rank<strategy<mesh<dp, tp>, zero2, checkpoint_selective, fp64, shared_kv<>>>(with(1), {{.tp = 4}});
  same_as_one_rank<strategy<mesh<dp, pp, tp>, sequence_parallel, zb_h1, fp64, shared_kv<>>>(with(1),
                                                                                            {{.tp = 2, .pp = 2}});
}

TEST_CASE("shared heads: documents and a window") {
  testing::training_task apart = with(1);
  apart.model.document_end = 5, apart.model.window = 6;
  same_as_one_rank<strategy<mesh<dp, tp>, zero3, fp64, shared_kv<>>>(apart, {{.dp = 2, .tp = 4}});
}

TEST_CASE("shared heads: adapters, weights in few bits, and matrices") {
  using adapted = lora<3, 6>;
  same_as_one_rank<strategy<mesh<dp, tp>, zero2, fp64, shared_kv<adapted>>, adapted>(with(2), {{.dp = 2, .tp = 4}});
  testing::training_task stored = with(2, 32);
  stored.steps = 2, stored.model.hidden = 64, stored.model.ffn = 256;  // nf4's blocks have 64 neighbours
  stored.begin = [](const parameter_record& p) {
    std::vector<double> x;
    for (std::int64_t i = 0; i < p.global.elements(); ++i)
      x.push_back(std::sin(static_cast<double>(i * 7 + std::ssize(p.name))) / 8);
    return x;
  };
  same_as_one_rank<strategy<mesh<dp, tp>, zero3, fp64, nf4<shared_kv<adapted>>>, nf4<adapted>>(stored,
                                                                                               {{.dp = 2, .tp = 4}});
  same_as_one_rank<strategy<mesh<dp, tp>, fp64, int8<shared_kv<adapted>>>, int8<adapted>>(stored, {{.tp = 4}});
  same_as_one_rank<strategy<mesh<dp, tp>, zero1, fp64, shared_kv<>>>(with(1), {{.dp = 2, .tp = 4}},
                                                                     by_shape{muon{.lr = 1e-2}, adamw{.lr = 1e-2}});
}

TEST_CASE("shared heads in bf16: losses as near to fp64's as those of one rank") {
  const testing::training_task task = with(1);
  const auto exact = testing::train<strategy<mesh<dp>, fp64>>({}, task);
  using S = strategy<mesh<dp, tp>, zero3, bf16_mixed, shared_kv<>>;
  const auto many = testing::train<S>({.dp = 2, .tp = 4}, task);
  for (std::size_t i = 0; i < exact.losses.size(); ++i)  // a bf16 number's last place is 1/256 of it
    CHECK(many.losses[i] == doctest::Approx(exact.losses[i]).epsilon(1. / 256));
}

TEST_CASE("layers of which heads were pruned share theirs, where ranks divide the queries") {
  using S = strategy<mesh<dp, tp>, zero3, fp64, shared_kv<>>;
  testing::training_task pruned = with(4);
  pruned.model.layer_groups = {4, 2, 2};
  same_as_one_rank<S>(pruned, {{.tp = 4}});
  pruned.model.layer_groups = {4, 3, 2};
  CHECK_THROWS_WITH_AS(
      testing::train<S>({.tp = 4}, pruned),
      doctest::Contains("layer 1's query heads, 6 in 3 groups, don't divide among tp = 4 ranks; choose tp so that they "
                        "do, or prune other numbers of groups"),
      failure);
}

TEST_CASE("what a rank holds: a part of every head's weight, and whole heads of its queries") {
  using S = strategy<mesh<dp, tp>, shared_kv<>>;
  launch<S>({.tp = 4}, [](context& ctx) {
    llama<S> model(ctx, with(1).model);
    for (const parameter_unit& u : model.registry().units())
      for (const parameter_record& p : u.parameters) {
        if (!p.name.ends_with(".key") && !p.name.ends_with(".value")) continue;
        CHECK(p.global[0] == 1);
        CHECK(p.local.elements() * 4 == p.global.elements());
        REQUIRE(p.pending.size() == 1);  // as of every weight: over dp, and nothing over tp
        CHECK(p.pending[0] == id_of<dp>);
      }
  });
  using query_key_value = weft::query_key_value<S>;
  using x = basic_tensor<float, dims<batch, seq, hidden>, place<shard<batch, dp>, replicate<tp>>, cpu_backend>;
  const auto same = [](const auto& y) { return y; };
  using outputs = decltype(std::declval<query_key_value>()(std::declval<x>(), same, same));
  static_assert(state_on<layout_of<std::tuple_element_t<1, outputs>>, tp>.dim == id_of<kv_heads>);
  static_assert(state_on<layout_of<decltype(query_key_value{}.key.weight)>, tp>.dim == id_of<head_dim>);
}

TEST_CASE("without shared_kv the ranks divide the heads, and the sentence says what doesn't have to") {
  CHECK_THROWS_WITH_AS((testing::train<strategy<mesh<dp, tp>>>({.tp = 4}, with(2))),
                       doctest::Contains("2 kv_heads don't divide among tp = 4 ranks; choose tp or kv_heads so that "
                                         "they do, or a strategy with shared_kv<>, under which the ranks share every "
                                         "head"),
                       failure);
  CHECK_THROWS_WITH_AS((testing::train<strategy<mesh<dp, tp>, shared_kv<>>>({.tp = 3}, with(2))),
                       doctest::Contains("8 heads don't divide among tp = 3 ranks"), failure);
}
