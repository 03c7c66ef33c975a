// Groups along several axes, and storage sharded over them: the same numbers as one rank, and each rank's equal share.
#include <weft/optim/sgd.hpp>

#include "banked_model.hpp"

namespace {
using namespace weft_test;

struct over_both : zero3 {  // dense weights over dp times ep
  static constexpr std::string_view name = "over_both";
  using axis = along<dp, ep>;
};
struct optimizer_over_both : zero1 {
  static constexpr std::string_view name = "optimizer_over_both";
  using axis = along<dp, ep>;
};
struct whole_everywhere : replicated {
  static constexpr std::string_view name = "whole_everywhere";
  using axis = along<dp, ep>;
};
template <class Sharding>
using wider = strategy<mesh<dp, ep, tp>, Sharding, fp64>;
template <class Sharding>
using experts = banked_model<wider<Sharding>, ep, dp>;

constexpr sgd plain{.lr = 0.5};

}  // namespace

TEST_CASE("a group along several axes has their ranks in order, the first axis outermost, whatever their degrees") {
  for (const degrees& along_axes : {degrees{.dp = 2, .tp = 2, .ep = 3}, degrees{.dp = 2}, degrees{.tp = 2, .ep = 2}})
    launch<strategy<mesh<dp, ep, tp>>>(along_axes, [&](context& ctx) {
      const int dp_index = ctx.index<dp>().here(), ep_index = ctx.index<ep>().here();
      axis_group& both = ctx.along<dp, ep>();
      CHECK(both.degree == along_axes.dp * along_axes.ep);
      CHECK(both.index == dp_index * along_axes.ep + ep_index);
      CHECK(both.comm.size() == both.degree);
      CHECK(&both == &ctx.along<dp, ep>());
      axis_group& reversed = ctx.along<ep, dp>();
      CHECK(reversed.index == ep_index * along_axes.dp + dp_index);
      const std::int32_t mine = 10 * dp_index + ep_index;
      std::vector<std::int32_t> all(static_cast<std::size_t>(both.degree));
      both.comm.all_gather(&mine, all.data(), sizeof mine).wait();
      for (int r = 0; r < both.degree; ++r)
        CHECK(all[static_cast<std::size_t>(r)] == r / along_axes.ep * 10 + r % along_axes.ep);
      CHECK(ctx.along<cp>().degree == 1);  // not in the mesh
      CHECK(ctx.along<tp, cp>().degree == ctx.degree<tp>());
    });
}

TEST_CASE("storage over two axes equals one rank, and each rank keeps its share of both") {
  const numbers one = train_by_hand<small_model<wider<whole_everywhere>>>({}, plain);
  for (const degrees& ranks : {degrees{.dp = 2, .ep = 2}, degrees{.dp = 3}, degrees{.dp = 1, .tp = 2, .ep = 2}}) {
    const auto shares = [&](context& ctx, auto& store) {
      store.each_stored([&](const stored_parameter& p) {
        CHECK(p.storage.size() == (ranks.dp > 1) + (ranks.ep > 1));
        CHECK(p.weight.elements() <= p.record.local.elements());
      });
      const memory_ledger& ledger = ctx.memory.ledger();
      const auto kept = ledger.current[static_cast<std::size_t>(memory::gradients)];
      const std::int64_t of_tp = 2 * 256 * 32 / ctx.degree<tp>(), rest = 3 * 32 * 64 + 32;
      CHECK(static_cast<std::int64_t>(kept) <= 8 * ((of_tp + rest) / (ranks.dp * ranks.ep) + 4 * 16));
    };
    CHECK(worst(one, train_by_hand<small_model<wider<over_both>>>(ranks, plain, nothing{}, shares)) < 1e-12);
    CHECK(worst(one, train_by_hand<small_model<wider<optimizer_over_both>>>(ranks, plain)) < 1e-12);
    CHECK(worst(one, train_by_hand<small_model<wider<whole_everywhere>>>(ranks, plain)) < 1e-12);
  }
}

TEST_CASE("experts, which differ along one of the axes of the storage, are stored along the others") {
  const numbers one = train_by_hand<experts<whole_everywhere>>({}, plain);
  const auto kept = [](context& ctx, auto& store) {
    store.each_stored([&](const stored_parameter& p) {
      const bool bank = p.record.name == "bank";
      CHECK(p.storage.has(id_of<ep>) == (!bank && ctx.degree<ep>() > 1));
      CHECK(p.storage.has(id_of<dp>) == (ctx.degree<dp>() > 1));
    });
  };
  for (const degrees& ranks :
       {degrees{.dp = 2, .ep = 2}, degrees{.ep = 3}, degrees{.dp = 3}, degrees{.dp = 2, .tp = 2, .ep = 2}}) {
    CHECK(worst(one, train_by_hand<experts<over_both>>(ranks, plain, nothing{}, kept)) < 1e-12);
    CHECK(worst(one, train_by_hand<experts<optimizer_over_both>>(ranks, plain)) < 1e-12);
  }
}
