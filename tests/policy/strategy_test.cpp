// Strategies pick their slots whatever the order, and take an alien policy where its concept holds; meshes and degrees.
#include <doctest/doctest.h>

#include <weft/policy/strategy.hpp>

namespace {

using namespace weft;

template <class A, class B>
constexpr bool same = std::same_as<A, B>;

// Alien policies, written against the concepts alone.
struct in_two_halves {
  static constexpr std::string_view name = "halves";
  static constexpr bool shards_parameters = true, shards_gradients = true, shards_optimizer = true;
  static constexpr int prefetch = 0;
  using axis = cp;
};
struct coarse {
  static constexpr std::string_view name = "coarse";
  using compute = fp16;
  using gradient = bf16;
  using reduce = double;
  using master = float;
};
struct keeps_all {
  static constexpr std::string_view name = "all";
  static constexpr bool recomputes = false;
  static constexpr bool keeps(const op_cost&) { return true; }
};
struct pigeons {  // a communicator, as far as a strategy looks
  int rank() const { return 0; }
};

static_assert(sharding_policy<replicated> && sharding_policy<zero3> && sharding_policy<in_two_halves>);
static_assert(precision_policy<fp32> && precision_policy<bf16_mixed> && precision_policy<fp64> &&
              precision_policy<coarse>);
static_assert(checkpointing_policy<checkpoint_none> && checkpointing_policy<checkpoint_full> &&
              checkpointing_policy<checkpoint_selective> && checkpointing_policy<keeps_all>);
static_assert(!sharding_policy<fp32> && !precision_policy<zero3> && !checkpointing_policy<pigeons> &&
              !precision_policy<int>);

using plain = strategy<mesh<dp>>;
static_assert(same<plain::sharding, replicated> && same<plain::precision, fp32> &&
              same<plain::checkpointing, checkpoint_none> && same<plain::communicator, threads> &&
              !plain::sequence_parallel && same<plain::mesh, weft::mesh<dp>>);

template <class S>
constexpr bool all_alien = same<typename S::sharding, in_two_halves>&& same<typename S::precision, coarse>&&
    same<typename S::checkpointing, keeps_all>&& same<typename S::communicator, pigeons>&& S::sequence_parallel;
using m = weft::mesh<dp, tp>;
static_assert(all_alien<strategy<m, in_two_halves, coarse, keeps_all, pigeons, sequence_parallel>>);
static_assert(all_alien<strategy<m, sequence_parallel, pigeons, keeps_all, coarse, in_two_halves>>);
static_assert(all_alien<strategy<m, coarse, sequence_parallel, in_two_halves, pigeons, keeps_all>>);

using some = strategy<m, checkpoint_full, zero3>;
static_assert(same<some::sharding, zero3> && same<some::checkpointing, checkpoint_full> &&
              same<some::precision, fp32> && same<some::communicator, threads>);

// Meshes.
struct rows : axis_tag {
  static constexpr std::string_view name = "rows";
};
struct columns : axis_tag {
  static constexpr std::string_view name = "columns";
};
using wide = mesh<dp, axis<tp, 4>, rows>;
static_assert(wide::ndim == 3 && same<wide::axes, tag_list<dp, tp, rows>>);
static_assert(wide::fixed[0] == 0 && wide::fixed[1] == 4 && wide::fixed[2] == 0);
static_assert(wide::ids[1] == id_of<tp> && wide::ids[2]->name == "rows" && wide::has<tp> && wide::has<rows> &&
              !wide::has<cp> && is_mesh<wide> && !is_mesh<dp>);

TEST_CASE("degrees of the library's axes and of a user's own") {
  const degrees d = degrees{.dp = 2, .tp = 3}.with<rows>(5).with<columns>(2).with<rows>(7);
  CHECK(d.of<dp>() == 2);
  CHECK(d.of<tp>() == 3);
  CHECK(d.of<pp>() == 1);
  CHECK(d.of<rows>() == 7);
  CHECK(d.of<columns>() == 2);
  CHECK(d.of<fsdp>() == 1);
  CHECK(d.product() == 2 * 3 * 7 * 2);
  CHECK(degrees{}.product() == 1);
  CHECK((d == d && !(d == degrees{})));
  CHECK((d.with<dp>(4) == degrees{.dp = 4, .tp = 3}.with<rows>(7).with<columns>(2)));
}

TEST_CASE("policies have the names that a user writes") {
  CHECK(replicated::name == "replicated");
  CHECK(zero3::name == "zero3");
  CHECK(fp32::name == "fp32");
  CHECK(bf16_mixed::name == "bf16");
  CHECK(checkpoint_none::name == "none");
  CHECK(checkpoint_full::name == "full");
}

template <int N>
struct numbered : axis_tag {
  static constexpr char letter[] = {char('a' + N)};
  static constexpr std::string_view name{letter, 1};
};
TEST_CASE("a fifth axis of one's own is refused") {
  const degrees four = degrees{}.with<rows>(1).with<columns>(1).with<numbered<0>>(1).with<numbered<1>>(1);
  CHECK_THROWS_WITH_AS(four.with<numbered<2>>(1), doctest::Contains("axis c is the fifth"), weft::failure);
}

}  // namespace
