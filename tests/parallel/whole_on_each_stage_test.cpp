// A model of one's own on a mesh whose pipeline axis has ranks: each stage would run all of it, and its gradients and
// its loss would be added up over the stages as if they had different layers.
#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

template <class S>
void store_one_weight(const degrees& ranks, bool by_stages) {
  launch<S>(ranks, [&](context& ctx) {
    parameter_registry registry;
    if (by_stages) registry.held_by_stages(id_of<pp>);
    weight<S, dims<hidden>> w;
    registry.begin_unit("only");
    registry.add(ctx, w, "w", {1, {8}}, {0, 1});
    parameter_store<cpu_backend, fp32> store(ctx, registry, config_of<typename S::sharding>());
  });
}

}  // namespace

TEST_CASE("a parameter store refuses a model that is whole on each stage") {
  using staged = strategy<mesh<dp, pp>, zero3>;
  CHECK_THROWS_WITH_AS(store_one_weight<staged>({.dp = 2, .pp = 2}, false),
                       doctest::Contains("every one of the 2 stages along pp holds the whole model"), failure);
  CHECK_THROWS_WITH_AS(store_one_weight<staged>({.pp = 2}, false), doctest::Contains("pp = 1"), failure);
  CHECK_NOTHROW(store_one_weight<staged>({.dp = 2, .pp = 2}, true));
  CHECK_NOTHROW(store_one_weight<staged>({.dp = 2}, false));
  CHECK_NOTHROW((store_one_weight<strategy<mesh<dp>>>({.dp = 2}, false)));
}
