// Rotary position embedding (Su et al. 2021) in the half-split form that Llama uses: dimension i turns with i +
// head_dim/2. Invariant: positions are global; a rank that holds a slice of the sequence starts at its own first
// position.
#pragma once

#include <weft/autograd/operate.hpp>
#include <weft/backend/concept.hpp>
#include <weft/core/refusal.hpp>
#include <weft/op/kv_cache.hpp>
#include <weft/op/placed.hpp>
#include <weft/tensor/local_run.hpp>

namespace weft {

/// Cosines and sines of every position and frequency: [positions, head_dim/2], in accumulate_t<T>. A rank's own, not a
/// tensor. make_rope_table<T>(ctx, frequencies_of(...), positions) makes one (nn/rope_scaling.hpp).
struct rope_table {
  local_array cos, sin;
  context_ref ctx = {};  // the rank's that made it
};

namespace detail {

template <class Backend, class T>
struct rope_operator {
  struct attributes {
    std::int64_t first;
  };
  static value forward(const value& x, const rope_table& given, const dimension_run& positions, kv_cache* cache);
  // Each sequence from its own position on.
  static value with_cache(const value& x, const rope_table& table, const kv_cache& cache) {
    context& ctx = *x.ctx;
    const shape& sizes = x.held().shape;
    require_of_cache("rope", ctx, cache, sizes[0], sizes[1]);
    return operate_like<T>(
        x, {"rope", nullptr, 3.0 * static_cast<double>(sizes.elements())}, {&x},
        [&](const local_array& y) {
          Backend::copy_bytes(ctx.queue<Backend>(), x.held().data, y.data, y.bytes());
          const std::int64_t each = sizes[1] * sizes[2] * sizes[3];
          for (std::int64_t i = 0; i < cache.sequences(); ++i) {
            if (cache.added(i) == 0) continue;
            const local_array own = seen(y, i * each, {4, {1, cache.added(i), sizes[2], sizes[3]}});
            turn(ctx, own, table.cos, table.sin, cache.length(i), false, own.template as<T>(), false);
          }
        },
        [](tape_node&) {});
  }
  // Tells a function that runs twice the first position and, by the last one's angles, the frequencies.
  static void give_angles(replay& twice, const rope_table& table, std::int64_t first, std::int64_t end) {
    const auto seed = static_cast<std::uint64_t>(first);
    twice.given(end > 0 ? angles_at(table, end - 1, seed) : seed);
  }
  // Stands for the frequencies: a hash of one position's cosines, where the host can read them.
  static std::uint64_t angles_at(const rope_table& table, std::int64_t position, std::uint64_t seed) {
    if constexpr (Backend::host_memory) {
      const std::int64_t width = table.cos.shape[1];
      return hash_bytes(table.cos.template as<accumulate_t<T>>() + position * width,
                        static_cast<std::size_t>(width) * sizeof(accumulate_t<T>), seed);
    } else {
      return seed;
    }
  }
  static local_array longer(context& ctx, const local_array& table, std::int64_t rows) {
    return with_padding<Backend>(ctx, local_array(table.data, table.type, {2, {rows, table.shape[1]}}), table.shape);
  }
  static void vjp(context& ctx, tape_node& node) {
    compute_gradient<Backend, T>(ctx, node, 0, [&](T* dx, bool add) {
      turn(ctx, node.output_gradient(), node.saved(0), node.saved(1), node.template get<attributes>().first, true, dx,
           add);
    });
  }
  static void turn(context& ctx, const local_array& x, const local_array& cos, const local_array& sin,
                   std::int64_t first, bool inverse, T* y, bool add) {
    using A = accumulate_t<T>;
    Backend::rope(ctx.queue<Backend>(), x.shape[0], x.shape[1], x.shape[2], x.shape[3], x.template as<T>(),
                  cos.template as<A>(), sin.template as<A>(), first, inverse, y, add);
  }
};

template <class Backend, class T>
value rope_operator<Backend, T>::forward(const value& x, const rope_table& given, const dimension_run& positions,
                                         kv_cache* cache) {
  context& ctx = *x.ctx;
  require(!given.ctx || given.ctx == x.ctx,
          "rope: the table is of another launch or another rank, and its memory with it: make_rope_table makes one on "
          "every rank of a launch");
  const std::int64_t first = positions.first;
  const std::int64_t end = cache ? cache->longest() : positions.valid > 0 ? first + positions.valid : 0;
  rope_table table = given;
  require(table.cos.shape[0] >= end, "rope: the table has ", table.cos.shape[0], " positions and the sequence needs ",
          end, "; raise max_seq");
  require(table.cos.type == dtype_of<accumulate_t<T>> && table.cos.shape[1] * 2 == x.held().shape[3],
          "rope: the table is of ", name_of(table.cos.type), " for heads of width ", table.cos.shape[1] * 2,
          " and the tensor's heads have ", x.held().shape[3], ", turned in ", name_of(dtype_of<accumulate_t<T>>),
          "; make it for this tensor");
  if (cache) return with_cache(x, table, *cache);
  if (first + positions.local > table.cos.shape[0])  // padding turns too, by whatever
    for (local_array* part : {&table.cos, &table.sin}) *part = longer(ctx, *part, first + positions.local);
  if (ctx.replay) give_angles(*ctx.replay, table, first, end);
  return operate_like<T>(
      x, {"rope", vjp, 3.0 * static_cast<double>(x.held().elements())}, {&x},
      [&](const local_array& y) { turn(ctx, x.held(), table.cos, table.sin, first, false, y.template as<T>(), false); },
      [&](tape_node& node) {
        node.set(attributes{first}), node.save(table.cos), node.save(table.sin);
        if (ctx.check) [[unlikely]]
          node.numbers = angles_at(given, given.cos.shape[0] - 1, 0);
      });
}

}  // namespace detail

/// Shape: x [batch, Seq, heads, Width], out the same; Seq and Width are found by their tags, in this order, and the
/// other two are of any. Placement: any, but Width whole. Linear: pending sums pass. Cost: 3 operations an element.
/// cache: x is of its sequences' next tokens, [batch, ...] of which stand behind those that it has; Seq is whole then.
/// Throws when the table is shorter than the sequence or made for another width.
template <dimension Seq = seq, dimension Width = head_dim, any_tensor X>
X rope(const X& x, const rope_table& table, kv_cache* cache = nullptr) {
  using in = dims_of<X>;
  using lacks = detail::lacked<in, Seq, Width>;
  static_assert(detail::none<lacks>,
                "weft: rope(x, table) doesn't find its dimensions in x, [batch, seq, heads, head_dim]: name x's own, "
                "rope<seq, head_dim>(x, table), or rename<from, to>(x)");
  constexpr bool ordered = in::ndim == 4 && in::template index<Seq> == 1 && in::template index<Width> == 3;
  static_assert(
      !detail::none<lacks> || ordered,
      "weft: rope(x, table) takes x as [batch, seq, heads, head_dim]: permute<batch, seq, heads, head_dim>(x) "
      "brings the four dimensions into this order");
  static_assert(detail::none<integers_in<X>>, "weft: rope(x, table) takes floating elements: cast<float>(x) first");
  constexpr bool whole = shard_axes<layout_of<X>, Width>::size == 0;
  static_assert(whole, "weft: rope(x, table) needs head_dim whole on every rank: all_gather<axis>(x) it");
  if constexpr (ordered && whole && floating<typename X::element_type>) {
    const dimension_run positions = run_of<layout_of<X>, Seq>(*untyped(x).ctx, x.template global_extent<Seq>());
    require(!cache || positions.local == x.template global_extent<Seq>(),
            "rope: with a kv_cache the sequence is whole on every rank: all_gather<axis>(x) it first");
    return X(detail::rope_operator<typename X::backend, typename X::element_type>::forward(untyped(x), table, positions,
                                                                                           cache));
  } else {
    return x;
  }
}

}  // namespace weft
