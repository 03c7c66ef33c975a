// Kernels of a user's own: a function of what this rank holds of some tensors, which writes what it holds of others.
// Invariant: what a type can tell of a function that it doesn't know is asked of the types: that no output is the same
// on all ranks where an input isn't, that dimensions lie alike, that sums don't pend in what isn't linear.
#pragma once

#include <array>
#include <span>
#include <tuple>

#include <weft/autograd/operate.hpp>
#include <weft/core/refusal.hpp>
#include <weft/op/create.hpp>
#include <weft/op/formula_says.hpp>
#include <weft/op/placed.hpp>

namespace weft {

/// What this rank holds of a tensor, as a function given to local_map sees it: row-major; T is const for an input.
/// Lives as long as the function runs.
template <class T, class Dims>
class local_operand {
 public:
  local_operand(T* data, const shape& local, const shape& valid) : data_(data), local_(local), valid_(valid) {}
  T* data() const { return data_; }
  std::int64_t size() const { return local_.elements(); }
  T& operator[](std::int64_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size(); }
  /// Element i in the type that sums of it are computed in, float for bf16 and fp16; and sets it to a number, rounded
  /// once.
  auto number(std::int64_t i) const {
    if constexpr (floating<std::remove_const_t<T>>)
      return static_cast<accumulate_t<std::remove_const_t<T>>>(data_[i]);
    else
      return data_[i];
  }
  template <class N>
  void set(std::int64_t i, N number) const {
    data_[i] = static_cast<T>(number);
  }
  /// How many elements of dimension D lie in this rank's memory, and how many of them, the first, are the tensor's; the
  /// rest is padding, whose numbers may be anything: x.extent(hidden{}), x.extent<hidden>().
  template <dimension D>
  std::int64_t extent(D = {}) const {
    static_assert(Dims::template has<D>, "weft: the tensor has no such dimension");
    return local_[Dims::template index<D>];
  }
  template <dimension D>
  std::int64_t valid_extent(D = {}) const {
    static_assert(Dims::template has<D>, "weft: the tensor has no such dimension");
    return valid_[Dims::template index<D>];
  }

 private:
  T* data_;
  shape local_, valid_;
};

/// A kernel that is linear in those of its inputs that are pending sums: a backward is, in its output's gradient.
template <class F>
struct linear_kernel : F {
  static constexpr linearity linear = linearity::joint;
};
template <class F>
linear_kernel(F) -> linear_kernel<F>;

namespace detail {

template <any_tensor X>
using operand_of = local_operand<const typename X::element_type, dims_of<X>>;
template <any_tensor Y>
using written_operand = local_operand<typename Y::element_type, dims_of<Y>>;

template <class D, class... Xs>
inline constexpr bool dimension_of_one = (dims_of<Xs>::template has<D> || ...);
/// Y's dimensions whose extent neither an input nor Y's type says.
template <class Y, class... Xs>
constexpr auto unknown_extents() {
  return []<class... Es>(dims<Es...>) {
    return as_no_dimension(
        typename join_lists<std::conditional_t<entry<Es>::size != dynamic_extent || dimension_of_one<tag_of<Es>, Xs...>,
                                               tag_list<>, tag_list<tag_of<Es>>>...>::type{});
  }(dims_of<Y>{});
}

template <any_tensor X>
inline constexpr std::span<const dim_id> ids_of{dims_of<X>::ids, std::size_t{dims_of<X>::ndim}};
/// An input's dimensions, and the extents that they have.
struct extents_of_input {
  std::span<const dim_id> ids;
  const shape& whole;
};
/// The global extents of these dimensions, of which some are fixed: those of the inputs that have them. Throws where
/// two inputs differ in one.
WEFT_LINKED shape extents_from(const char* name, std::span<const dim_id> wanted, const std::int64_t* fixed,
                               std::span<const extents_of_input> inputs) {
  const auto look = [&](const dim_id& of, std::int64_t n) {
    for (const extents_of_input& x : inputs)
      for (std::size_t d = 0; d < x.ids.size(); ++d) {
        const std::int64_t here = x.whole[static_cast<int>(d)];
        if (!(x.ids[d] == of)) continue;
        require(n == dynamic_extent || n == here, name, ": dimension ", of.name, " has ", n,
                " elements in one of its tensors and ", here, " in another");
        n = here;
      }
    return n;
  };
  for (const extents_of_input& x : inputs)
    for (const dim_id& d : x.ids) look(d, dynamic_extent);
  shape out;
  for (const dim_id& d : wanted) out.push_back(look(d, fixed[out.ndim]));
  return out;
}

// What a type can tell of a function that it doesn't know.
template <class Axes, class Xs, class Ys>
struct placed_by_function;
template <class... As, class... Xs, class... Ys>
struct placed_by_function<tag_list<As...>, tag_list<Xs...>, tag_list<Ys...>> {
  template <class X, class A, holds K>
  static constexpr bool has = state_on<layout_of<X>, A>.kind == K;
  template <class A, holds K>
  static constexpr bool one_has = (has<Xs, A, K> || ...);
  template <class A>
  static constexpr bool differs = one_has<A, holds::shard> || one_has<A, holds::partial>;
  template <class Y, class A>
  static constexpr bool can_be = has<Y, A, holds::shard> || has<Y, A, holds::partial> ||
                                 (!differs<A> && (has<Y, A, holds::replicate> || !one_has<A, holds::replicate>));
  template <class Y>
  static constexpr bool whole_where_alike = (can_be<Y, As> && ...);
  static constexpr bool right_outputs = (whole_where_alike<Ys> && ...);
  template <class A>
  static constexpr bool sums_stay = !one_has<A, holds::partial> || (has<Ys, A, holds::partial> && ...);
  static constexpr bool pending = (one_has<As, holds::partial> || ...), right_sums = (sums_stay<As> && ...);
};
template <class X, class Y, class D>
inline constexpr bool lies_alike = true;
template <class X, class Y, class... Es>
inline constexpr bool lies_alike<X, Y, dims<Es...>> =
    ((!dims_of<Y>::template has<tag_of<Es>> ||
      std::same_as<shard_axes<layout_of<X>, tag_of<Es>>, shard_axes<layout_of<Y>, tag_of<Es>>>)&&...);
template <class X, class... All>
inline constexpr bool lies_as_all = (lies_alike<X, All, dims_of<X>> && ...);

WEFT_LINKED void require_no_gradient(const char* name, const context& ctx, std::span<const value* const> inputs) {
  for (const value* x : inputs)
    require(
        !ctx.tape || !x->slot || x->slot->frozen, name,
        ": local_map knows no backward of its function, and a gradient is wanted: call it in forward of a struct that "
        "custom_gradient(f, x) is given, or of detach(x) where none is wanted");
}

template <bool Unasked, class F, class... Args>
inline constexpr bool invocable_unless = false;
template <class F, class... Args>
inline constexpr bool invocable_unless<false, F, Args...> = std::invocable<const F&, Args...>;

template <class F, class Backend, class Ys, class... Xs>
struct local_function;
template <class F, class Backend, class... Ys, class... Xs>
struct local_function<F, Backend, tag_list<Ys...>, Xs...> {
  static constexpr bool plain = std::invocable<const F&, written_operand<Ys>..., operand_of<Xs>...>;
  static constexpr bool on_host = plain && Backend::host_memory;
  static constexpr bool queued =
      invocable_unless<on_host, F, typename Backend::queue&, written_operand<Ys>..., operand_of<Xs>...>;
  static constexpr bool one_place =
      (std::same_as<typename Ys::backend, Backend> && ...) && (std::same_as<typename Xs::backend, Backend> && ...);
  static_assert(one_place, "weft: local_map<Y>(name, f, x, ...) takes and makes tensors of one backend");
  static_assert(plain || queued,
                "weft: local_map<Y>(name, f, x, ...) calls f(y, ..., x, ...) with what this rank holds: write it as "
                "[](auto y, auto x) { ... y[i] = x[i] ... }, which changes nothing that it captures");
  static constexpr bool reachable = on_host || queued || !plain;
  static_assert(reachable,
                "weft: these tensors lie on a device: let local_map's f take the backend's queue before them, [](auto& "
                "queue, auto y, auto x) { ... }, and launch a kernel there");
  static constexpr bool known = (none<decltype(unknown_extents<Ys, Xs...>())> && ...);
  static_assert(known,
                "weft: local_map<Y>(name, f, x, ...) takes the extents of Y from x, ...: give a dimension that none of "
                "them has its extent in Y, as extent<hidden, 3>");
  using placed = placed_by_function<typename join_lists<axes_of<layout_of<Ys>>..., axes_of<layout_of<Xs>>...>::type,
                                    tag_list<Xs...>, tag_list<Ys...>>;
  static constexpr bool alike = (lies_as_all<Xs, Xs..., Ys...> && ...);
  static_assert(alike,
                "weft: a dimension of local_map's tensors is sharded in one and lies otherwise in another, so f would "
                "meet elements that don't belong together: split<dim, axis>(x) or all_gather<axis>(x) one of them, or "
                "rename<from, to>(x) its dimension");
  static constexpr bool linear = !placed::pending || linearity_of<F>() != linearity::none;
  static_assert(
      linear && placed::right_sums,
      "weft: local_map is given a pending sum, and a function of a sum is the sum of the functions only where "
      "it is linear: all_reduce<axis>(x) it first, or say that it is, linear_kernel{f}, and let Y be partial "
      "too");
  static_assert(placed::right_outputs || !placed::right_sums,
                "weft: what local_map's f makes of slices or of addends isn't the same on all ranks: let Y be sharded "
                "there, or partial where f writes an addend, and all_reduce<axis>(y) it then; of what is replicate it "
                "makes no invariant");
  static constexpr bool ok = one_place && (plain || queued) && reachable && known && alike && linear &&
                             placed::right_sums && placed::right_outputs;
};

/// f of the operands, where and when the backend's kernels run.
template <class Backend, class Function, class F, class Operands>
void run_local(context& ctx, const F& f, const Operands& operands) {
  [[maybe_unused]] auto& queue = ctx.queue<Backend>();
  if constexpr (!computes<Backend>)
    return;
  else if constexpr (Function::on_host)
    Backend::once(queue, [f, operands] { std::apply(f, operands); });
  else
    std::apply([&](const auto&... o) { f(queue, o...); }, operands);
}

}  // namespace detail

/// What a kernel of the caller's own makes of what this rank holds: f(y, ..., x, ...) writes each of the outputs, of
/// types Ys, whose memory may hold anything before, from the inputs; they are local_operands: y[i], x.number(i),
/// x.size(), x.extent(hidden{}). For a queue's kernels f takes the backend's queue before them. Shape: of each output
/// as its type says, with the inputs' extents, which agree. Placement: as Ys say, partial where f writes an addend;
/// what is made of slices or addends is sharded or partial there, a dimension is sharded alike in all, and pending sums
/// want a linear_kernel. It has no backward: throws where a gradient is wanted (see custom_gradient). name: what errors
/// and traces say. Cost: counted as an operation an element of the inputs.
template <any_tensor... Ys, class F, any_tensor... Xs>
requires(sizeof...(Ys) > 0 && sizeof...(Xs) > 0) auto local_map(const char* name, const F& f, const Xs&... xs) {
  using Backend = typename std::tuple_element_t<0, std::tuple<Xs...>>::backend;
  using function = detail::local_function<F, Backend, tag_list<Ys...>, Xs...>;
  if constexpr (function::ok) {
    const value* const inputs[] = {&untyped(xs)...};
    detail::require_one_context(name, {&untyped(xs)...});
    context& ctx = *inputs[0]->ctx;
    detail::require_no_gradient(name, ctx, inputs);
    const detail::extents_of_input known[] = {detail::extents_of_input{detail::ids_of<Xs>, untyped(xs).whole}...};
    const shape whole[] = {detail::extents_from(name, detail::ids_of<Ys>, dims_of<Ys>::static_extents, known)...};
    shape local[sizeof...(Ys)];
    std::size_t of = 0;
    ((local[of] = local_shape<Ys>(ctx, whole[of]), ++of), ...);
    constexpr dtype types[] = {dtype_of<typename Ys::element_type>...};
    double elements = 0;
    for (const value* x : inputs) elements += static_cast<double>(x->sizes().elements());
    return [&]<std::size_t... J, std::size_t... More>(std::index_sequence<J...>, std::index_sequence<More...>) {
      local_array made[sizeof...(Ys)];
      const auto compute = [&](const local_array& y) {
        made[0] = y;
        for (std::size_t j = 1; j < sizeof...(Ys); ++j) made[j] = ctx.make(types[j], local[j]);
        detail::run_local<Backend, function>(
            ctx, f,
            std::tuple(detail::written_operand<Ys>(made[J].template as<typename Ys::element_type>(), local[J],
                                                   detail::valid_part(Ys(value{&ctx, whole[J], made[J], {}})))...,
                       detail::operand_of<Xs>(untyped(xs).held().template as<typename Xs::element_type>(),
                                              untyped(xs).sizes(), detail::valid_part(xs))...));
      };
      value y = detail::operate({name, nullptr, elements}, types[0], &ctx, whole[0], local[0], {&untyped(xs)...},
                                compute, [](tape_node&, const value&) {}, {&made[More + 1]...});
      made[0] = y.data;
      const auto made_by = y.made_by;
      std::tuple<Ys...> all{Ys(value{&ctx, whole[J], made[J], {}})...};
      ((untyped(std::get<J>(all)).made_by = made_by), ...);
      if constexpr (sizeof...(Ys) == 1)
        return std::get<0>(all);
      else
        return all;
    }
    (std::index_sequence_for<Ys...>{}, std::make_index_sequence<sizeof...(Ys) - 1>{});
  } else {
    return std::tuple_element_t<
        0, std::conditional_t<sizeof...(Ys) == 1, std::tuple<Ys...>, std::tuple<std::tuple<Ys...>>>>();
  }
}

}  // namespace weft

template <class T, class Dims>
inline constexpr bool std::ranges::enable_borrowed_range<weft::local_operand<T, Dims>> = true;  // as a std::span