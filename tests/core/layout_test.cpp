// Layouts and dimensions as an algebra of types: canonical form, replacement, duals, several axes on one dimension,
// static extents. Invariant tested throughout: equal placements are equal types, however they were written.
#include <doctest/doctest.h>

#include <weft/core/layout.hpp>

namespace {

using namespace weft;

template <class A, class B>
constexpr bool same = std::same_as<A, B>;

// A user's own tags, one of which sorts before all of the library's.
struct aisle : dim_tag {
  static constexpr std::string_view name = "aisle";
};
struct rows : axis_tag {
  static constexpr std::string_view name = "rows";
};

// Canonical form: the order in which placements are written doesn't matter, nor what is invariant.
static_assert(same<place<>, layout<>>);
static_assert(same<place<invariant<dp, tp>>, layout<>>);
static_assert(same<place<shard<batch>>, layout<>>, "a shard over no axis is nothing");
static_assert(same<place<partial<>, replicate<>>, layout<>>);
static_assert(same<place<shard<seq, cp>, shard<batch, dp>>, place<shard<batch, dp>, shard<seq, cp>>>);
static_assert(
    same<place<partial<tp>, replicate<cp>, shard<batch, dp>>, place<shard<batch, dp>, replicate<cp>, partial<tp>>>);
static_assert(same<place<partial<tp, dp>>, place<partial<dp>, partial<tp>>> &&
              same<place<partial<tp, dp>>, place<partial<dp, tp>>>);
static_assert(same<place<replicate<tp, dp, cp>>, place<replicate<cp>, replicate<dp>, replicate<tp>>>);
static_assert(same<place<shard<aisle, rows>, shard<batch, dp>>, layout<shard<aisle, rows>, shard<batch, dp>>>);
static_assert(same<place<shard<batch, dp>, invariant<tp>>, layout<shard<batch, dp>>>);
static_assert(detail::is_canonical<place<partial<tp>, shard<seq, dp>>>);
static_assert(!detail::is_canonical<layout<partial<tp>, shard<seq, dp>>> &&
              !detail::is_canonical<layout<partial<tp, dp>>>);

// Every order of four placements is one type.
using four = place<shard<batch, dp>, shard<heads, tp>, replicate<cp>, partial<ep>>;
static_assert(same<four, place<partial<ep>, replicate<cp>, shard<heads, tp>, shard<batch, dp>>>);
static_assert(same<four, place<replicate<cp>, shard<batch, dp>, partial<ep>, shard<heads, tp>>>);
static_assert(same<four, place<shard<heads, tp>, partial<ep>, shard<batch, dp>, replicate<cp>>>);

// Several axes on one dimension: outermost first, and the order is part of the type.
static_assert(same<place<shard<seq, cp>, shard<seq, tp>>, place<shard<seq, cp, tp>>>);
static_assert(!same<place<shard<seq, tp, cp>>, place<shard<seq, cp, tp>>>);
static_assert(same<shard_axes<place<shard<seq, cp, tp>, shard<batch, dp>>, seq>, tag_list<cp, tp>>);
static_assert(same<shard_axes<place<shard<seq, cp, tp>>, batch>, tag_list<>>);
static_assert(same<shard_axes<place<partial<cp>, shard<seq, tp>>, seq>, tag_list<tp>>);

// Which dimension a tag is lies in objects of several compilers, and is the same in all.
static_assert(id_of<batch>.type == "weft::batch" && id_of<batch> != id_of<seq>);

// What a layout says of an axis.
static_assert(state_on<four, dp> == on_axis{holds::shard, id_of<batch>} &&
              state_on<four, tp> == on_axis{holds::shard, id_of<heads>});
static_assert(state_on<four, cp> == on_axis{holds::replicate} && state_on<four, ep> == on_axis{holds::partial});
static_assert(state_on<four, pp> == on_axis{} && state_on<layout<>, dp> == on_axis{});
static_assert(state_on<place<shard<seq, cp, tp>>, cp> == on_axis{holds::shard, id_of<seq>});
static_assert(state_on<place<shard<seq, cp, tp>>, tp> == on_axis{holds::shard, id_of<seq>});
static_assert(has_partial<four> && !has_partial<place<replicate<tp>>> && !has_partial<layout<>>);
static_assert(same<axes_of<place<shard<seq, cp, tp>, partial<dp>>>, tag_list<cp, tp, dp>> &&
              same<axes_of<layout<>>, tag_list<>>);
static_assert(same<axes_of_all<place<shard<seq, cp, tp>>, place<partial<tp>, replicate<dp>>>, tag_list<cp, tp, dp>>);

// Sharding axes come first, each layout's in its own order, whichever layout names an axis first.
static_assert(same<axes_of_all<place<replicate<dp>>, place<shard<seq, tp, dp>>>, tag_list<tp, dp>>);
static_assert(
    same<axes_of_all<place<partial<cp>, shard<batch, ep>>, place<shard<seq, tp, dp>>>, tag_list<ep, tp, dp, cp>>);

// replaced: one axis changes, the others stay; the newly sharded axis is the innermost of its dimension.
static_assert(same<replaced<layout<>, tp, shard<seq, tp>>, place<shard<seq, tp>>>);
static_assert(same<replaced<place<shard<seq, cp>>, tp, shard<seq, tp>>, place<shard<seq, cp, tp>>>);
static_assert(same<replaced<place<shard<seq, cp, tp>>, tp, invariant<tp>>, place<shard<seq, cp>>>);
static_assert(same<replaced<place<shard<seq, cp, tp>>, cp, replicate<cp>>, place<shard<seq, tp>, replicate<cp>>>);
static_assert(same<replaced<place<partial<tp>, shard<batch, dp>>, tp, invariant<tp>>, place<shard<batch, dp>>>);
static_assert(same<replaced<place<partial<tp, dp>>, tp, shard<seq, tp>>, place<shard<seq, tp>, partial<dp>>>);
static_assert(same<replaced<place<shard<seq, tp>>, tp, shard<heads, tp>>, place<shard<heads, tp>>>);

template <class L>
constexpr bool replaced_laws() {
  const auto one = []<class A>(A) {
    // Replacing twice is replacing once, and every placement that is put is found again.
    return same<replaced<replaced<L, A, partial<A>>, A, replicate<A>>, replaced<L, A, replicate<A>>> &&
           state_on<replaced<L, A, partial<A>>, A> == on_axis{holds::partial} &&
           state_on<replaced<L, A, invariant<A>>, A> == on_axis{} &&
           state_on<replaced<L, A, shard<ffn, A>>, A> == on_axis{holds::shard, id_of<ffn>} &&
           detail::is_canonical<replaced<L, A, shard<ffn, A>>>;
  };
  return one(dp{}) && one(tp{}) && one(cp{}) && one(rows{});
}
static_assert(replaced_laws<layout<>>() && replaced_laws<four>() && replaced_laws<place<shard<ffn, dp, tp, cp>>>() &&
              replaced_laws<place<replicate<dp, rows>, partial<tp>>>());

// The dual: an involution that keeps the canonical form, and acts on each axis alone.
template <class L>
constexpr bool dual_laws() {
  const auto one = []<class A>(A) {
    constexpr on_axis here = state_on<L, A>, there = state_on<dual_layout<L>, A>;
    return there.kind == dual(here.kind) && there.dim == here.dim;
  };
  return same<dual_layout<dual_layout<L>>, L> && detail::is_canonical<dual_layout<L>> && one(dp{}) && one(tp{}) &&
         one(cp{}) && one(ep{});
}
static_assert(dual_laws<layout<>>() && dual_laws<four>() && dual_laws<place<shard<seq, cp, tp>, partial<dp>>>() &&
              dual_laws<place<replicate<dp, cp>, partial<ep, tp>>>() && dual_laws<place<partial<dp>, replicate<tp>>>());
static_assert(same<dual_layout<place<replicate<tp>, partial<cp>>>, place<partial<tp>, replicate<cp>>>);

// Dimensions.
using d = dims<batch, extent<hidden, 384>, seq>;
static_assert(d::ndim == 3 && dims<>::ndim == 0);
static_assert(d::index<batch> == 0 && d::index<hidden> == 1 && d::index<seq> == 2 && d::index<ffn> == -1);
static_assert(d::has<hidden> && !d::has<ffn> && !dims<>::has<batch>);
static_assert(d::static_extents[0] == dynamic_extent && d::static_extents[1] == 384 &&
              d::static_extents[2] == dynamic_extent);
static_assert(d::names[0] == "batch" && d::names[1] == "hidden" && d::names[2] == "seq");
static_assert(same<tag_of<extent<hidden, 384>>, hidden> && same<tag_of<hidden>, hidden>);
static_assert(same<dims_without<d, seq, batch>, dims<extent<hidden, 384>>> && same<dims_without<d>, d> &&
              same<dims_without<d, ffn>, d>);
static_assert(same<dims_without<d, batch, hidden, seq>, dims<>>);
static_assert(same<dims_missing<dims<batch, ffn, vocab>, d>, dims<ffn, vocab>> && same<dims_missing<d, d>, dims<>>);
static_assert(same<dims_missing<d, dims<>>, d>);
static_assert(same<dims_concat<dims<batch>, dims<>, dims<extent<seq, 2>, ffn>>, dims<batch, extent<seq, 2>, ffn>> &&
              same<dims_concat<dims<>>, dims<>>);
static_assert(same<dims_renamed<d, hidden, ffn>, dims<batch, extent<ffn, 384>, seq>> &&
              same<dims_renamed<d, batch, ffn>, dims<ffn, extent<hidden, 384>, seq>>);
static_assert(is_dims<d> && is_dims<dims<>> && !is_dims<layout<>> && !is_dims<int>);

TEST_CASE("axes have identities of their own, one for the whole program") {
  CHECK(id_of<dp> == id_of<dp>);
  CHECK(id_of<dp> != id_of<tp>);
  CHECK(id_of<rows> != id_of<tp>);
}

TEST_CASE("names of placements are those of the design") {
  CHECK(name_of(holds::invariant) == "invariant");
  CHECK(name_of(holds::replicate) == "replicate");
  CHECK(name_of(holds::partial) == "partial");
  CHECK(name_of(holds::shard) == "shard");
}

}  // namespace
