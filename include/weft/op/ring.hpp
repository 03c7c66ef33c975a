// Slices that change places along an axis. A type says how a tensor is sharded, not whose slice a rank holds, so these
// two stand apart from the conversions: nothing but a count of shifts tells where a slice is.
#pragma once

#include <weft/op/convert.hpp>
#include <weft/tensor/local_run.hpp>

namespace weft {
namespace detail {

/// The whole extent of the dimension that x is sharded along, and over how many ranks: of every axis that shards it.
struct dim_over_ranks {
  std::int64_t extent;
  int ranks;
};
template <any_tensor X>
dim_over_ranks over_shards(const X& x, on_axis at) {
  dim_over_ranks out{1, 1};
  [&]<class... Es>(dims<Es...>) {
    const int wanted = position_of<dims_of<X>>(at);
    int d = 0;
    ((d++ == wanted ? void(out = {untyped(x).whole[wanted], shards_of<layout_of<X>, tag_of<Es>>(*untyped(x).ctx)})
                    : void()),
     ...);
  }(dims_of<X>{});
  return out;
}

}  // namespace detail

/// Every rank's slice goes to the next rank along A, the last rank's to the first (a ring).
/// Placement stays, since a type can't say whose slice it is: a shift too many, or one less, is a rank's slice in
/// another's place. ring<axis>(x, f) counts them. Backward: the other way round. Throws where the ranks don't divide
/// the sharded dimension: its last slice, which is shorter, can't become another's.
template <mesh_axis A, any_tensor X>
X shift(const X& x, call_site at = call_site::here()) {
  static_assert(state_on<layout_of<X>, A>.kind == holds::shard,
                "weft: shift<axis>(x) sends slices on: x has to be sharded over that axis");
  using Backend = typename X::backend;
  using engine = detail::conversion<Backend>;
  constexpr on_axis cut = state_on<layout_of<X>, A>;
  const detail::dim_over_ranks all = detail::over_shards<X>(x, cut);
  require(all.extent % all.ranks == 0, "shift<", A::name, ">(x): dimension ", cut.dim->name, " has ", all.extent,
          " elements, which ", all.ranks,
          " ranks don't divide, so their slices can't change places; choose an extent or degrees that divide");
  return X(engine::forward(untyped(x), id_of<A>, detail::movers_of<Backend, movement::shift, movement::shift_back>(),
                           {}, {}, {"shift", dims_text<dims_of<X>>(), at},
                           engine::template vjp<typename X::element_type>));
}

/// Calls f(slice, owner) with the slice of every rank along A, each rank beginning with its own: `owner` is the index
/// of the rank whose slice it is. Between two calls the slices are shifted by one, degree - 1 times in all, so x itself
/// stays in its place. What f gathers is its own; a slice that it is given is another rank's, whatever its type says,
/// and is not to be kept beyond the call. All ranks call it. Backward: by that of the shifts. Throws as shift.
template <mesh_axis A, any_tensor X, class F>
requires std::invocable<F&, const X&, int>
void ring(const X& x, F&& f, call_site at = call_site::here()) {
  const int degree = untyped(x).ctx->template degree<A>();
  X slice = x;
  for (int step = 0;; ++step) {
    f(std::as_const(slice), (untyped(x).ctx->template index<A>().here() + degree - step) % degree);
    if (step + 1 == degree) return;
    slice = shift<A>(slice, at);
  }
}

}  // namespace weft
