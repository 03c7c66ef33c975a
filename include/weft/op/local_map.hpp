// Kernels of a user's own: a function of what this rank holds of some tensors, which writes what it holds of others.
// Invariant: where the output's type says that a rank holds something else than the function wrote, nothing can tell;
// all else is known from the types: memory, extents, padding.
#pragma once

#include <array>
#include <span>
#include <tuple>

#include <weft/autograd/operate.hpp>
#include <weft/core/refusal.hpp>
#include <weft/op/create.hpp>
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
  /// How many elements of dimension D lie in memory, and how many of them are the tensor's; the rest is padding, whose
  /// numbers may be anything.
  template <dimension D>
  std::int64_t extent() const {
    static_assert(Dims::template has<D>, "weft: the tensor has no such dimension");
    return local_[Dims::template index<D>];
  }
  template <dimension D>
  std::int64_t valid_extent() const {
    static_assert(Dims::template has<D>, "weft: the tensor has no such dimension");
    return valid_[Dims::template index<D>];
  }

 private:
  T* data_;
  shape local_, valid_;
};

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

/// The global extents of a Y, each that of the first input which has the dimension.
template <class Y, class... Xs>
shape extents_from(const Xs&... xs) {
  shape out;
  [&]<class... Es>(dims<Es...>) {
    const auto add = [&]<class E>() {
      std::int64_t n = entry<E>::size;
      const auto look = [&]<class X>(const X& x) {
        if constexpr (dims_of<X>::template has<tag_of<E>>) {
          if (n == dynamic_extent) n = untyped(x).whole[dims_of<X>::template index<tag_of<E>>];
        }
      };
      (look(xs), ...);
      out.push_back(n);
    };
    (add.template operator()<Es>(), ...);
  }(dims_of<Y>{});
  return out;
}

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
  static constexpr bool ok = one_place && (plain || queued) && reachable && known;
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
/// types Ys, from the inputs; they are local_operands: y[i], x.size(), x.extent<hidden>(). For a queue's kernels f
/// takes the backend's queue before them. Shape: of each output as its type says, with the inputs' extents. Placement:
/// as Ys say, which is believed: partial where f writes an addend. It has no backward: throws where a gradient is
/// wanted (see custom_gradient). name: what errors and traces say. Cost: counted as an operation an element of the
/// inputs.
template <any_tensor... Ys, class F, any_tensor... Xs>
requires(sizeof...(Ys) > 0 && sizeof...(Xs) > 0) auto local_map(const char* name, const F& f, const Xs&... xs) {
  using Backend = typename std::tuple_element_t<0, std::tuple<Xs...>>::backend;
  using function = detail::local_function<F, Backend, tag_list<Ys...>, Xs...>;
  if constexpr (function::ok) {
    const value* const inputs[] = {&untyped(xs)...};
    detail::require_one_context(name, {&untyped(xs)...});
    context& ctx = *inputs[0]->ctx;
    detail::require_no_gradient(name, ctx, inputs);
    const shape whole[] = {detail::extents_from<Ys>(xs...)...};
    const shape local[] = {local_shape<Ys>(ctx, detail::extents_from<Ys>(xs...))...};
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
  }
}

}  // namespace weft

template <class T, class Dims>
inline constexpr bool std::ranges::enable_borrowed_range<weft::local_operand<T, Dims>> = true;  // as a std::span
