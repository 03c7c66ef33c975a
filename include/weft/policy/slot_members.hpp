// Which members of a strategy's slots a type has: of the right kind, of any kind, with a value while compiling.
// Invariant: a type is only asked; what is wrong is said in slots.hpp.
#pragma once

#include <weft/core/queue.hpp>
#include <weft/core/refusal.hpp>
#include <weft/policy/checkpointing.hpp>
#include <weft/policy/loss.hpp>
#include <weft/policy/precision.hpp>
#include <weft/policy/projections.hpp>
#include <weft/policy/schedule.hpp>
#include <weft/policy/sharding.hpp>

namespace weft {

namespace detail {

template <class P>
inline constexpr bool is_sharding = sharding_policy<P>;
template <class P>
inline constexpr bool is_precision = precision_policy<P>;
template <class P>
inline constexpr bool is_checkpointing = checkpointing_policy<P>;
template <class P>
inline constexpr bool is_schedule = schedule_policy<P>;
template <class P>
inline constexpr bool is_projections = projections_policy<P>;
template <class P>
inline constexpr bool is_loss_policy = loss_policy<P>;
// A backend is told by its queue.
template <class P>
inline constexpr bool is_backend = requires {
  typename P::queue;
};

// True, where the value is known while compiling.
template <class T>
constexpr bool read_now(T) {
  return true;
}

// Whether a member of type T may stand for a Kind: a function or an array would be a bool that is true, whatever it
// says, and any number an enumeration.
template <class T, class Kind>
concept reads_as = (!std::is_arithmetic_v<Kind> ||
                    !std::is_pointer_v<std::decay_t<T>>)&&(!std::is_enum_v<Kind> ||
                                                           std::is_same_v<std::remove_cv_t<T>, Kind>);

// Three questions for each member: is it of the kind that the slot's concept asks for, does the type have anything of
// that name, and can a value be read while compiling. `has_name` is no sign of a slot, since every policy has one.
#define WEFT_DETAIL_NAMES(member)                   \
  template <class P>                                \
  inline constexpr bool names_##member = requires { \
    &P::member;                                     \
  }                                                 \
  || requires { P::member; }                        \
  || requires { typename P::member; };
#define WEFT_DETAIL_HAS_VALUE(member, type)                          \
  template <class P>                                                 \
  inline constexpr bool has_##member = requires {                    \
    type(P::member);                                                 \
    requires reads_as<decltype(P::member), type>;                    \
  };                                                                 \
  template <class P>                                                 \
  inline constexpr bool constant_##member = requires {               \
    typename std::bool_constant<read_now<type>(P::member)>;          \
    requires reads_as<decltype(P::member), type>;                    \
    requires !std::is_member_object_pointer_v<decltype(&P::member)>; \
  };                                                                 \
  WEFT_DETAIL_NAMES(member)
#define WEFT_DETAIL_HAS_NUMBERS(member)         \
  template <class P>                            \
  inline constexpr bool has_##member = false;   \
  template <class P>                            \
  requires floating<typename P::member>         \
  inline constexpr bool has_##member<P> = true; \
  WEFT_DETAIL_NAMES(member)
WEFT_DETAIL_HAS_VALUE(name, std::string_view)
WEFT_DETAIL_HAS_VALUE(shards_parameters, bool)
WEFT_DETAIL_HAS_VALUE(shards_gradients, bool)
WEFT_DETAIL_HAS_VALUE(shards_optimizer, bool)
WEFT_DETAIL_HAS_VALUE(prefetch, int)
WEFT_DETAIL_HAS_VALUE(keeps_vectors, bool)
WEFT_DETAIL_HAS_VALUE(recomputes, bool)
WEFT_DETAIL_HAS_VALUE(offloads_inputs, bool)
WEFT_DETAIL_HAS_VALUE(chunks, int)
WEFT_DETAIL_HAS_VALUE(adapts, bool)
WEFT_DETAIL_HAS_VALUE(fuses_qkv, bool)
WEFT_DETAIL_HAS_VALUE(shares_kv, bool)
WEFT_DETAIL_HAS_VALUE(in_float8, bool)
WEFT_DETAIL_HAS_VALUE(stored_as, weight_format)
WEFT_DETAIL_HAS_VALUE(loss_chunks, int)
WEFT_DETAIL_HAS_VALUE(host_memory, bool)
WEFT_DETAIL_HAS_VALUE(initial_loss_scale, double)
WEFT_DETAIL_HAS_VALUE(dropout, double)
WEFT_DETAIL_HAS_NUMBERS(compute)
WEFT_DETAIL_HAS_NUMBERS(gradient)
WEFT_DETAIL_HAS_NUMBERS(reduce)
WEFT_DETAIL_HAS_NUMBERS(master)
WEFT_DETAIL_NAMES(moment)
WEFT_DETAIL_NAMES(axis)
WEFT_DETAIL_NAMES(keeps)
#undef WEFT_DETAIL_HAS_NUMBERS
#undef WEFT_DETAIL_HAS_VALUE
#undef WEFT_DETAIL_NAMES
template <class P>
inline constexpr bool has_moment = requires {
  typename P::moment;
};
template <class P>
inline constexpr bool has_axis = false;
template <class P>
requires(axes_along<typename P::axis>::size > 0) inline constexpr bool has_axis<P> = true;
template <class P>
inline constexpr bool has_keeps = requires(const op_cost& cost) {
  bool(P::keeps(cost));
};
template <class P>
inline constexpr bool has_order = requires(int n, any_emit emit) {
  P::order(n, n, n, emit);
};
template <class P>
inline constexpr bool names_order = has_order<P> || requires(int n, any_emit emit) {
  P::order(n, n, emit);
}
|| requires { &P::order; }
|| requires { &P::template order<any_emit>; };
template <class P>
inline constexpr bool has_open = requires {
  P::open(1, 0, 1);
};
template <class P>
inline constexpr bool has_memory = requires {
  P::memory();
};

// How many of a slot's members a type has, the name not counted.
template <class P>
inline constexpr int like_sharding =
    has_shards_parameters<P> + has_shards_gradients<P> + has_shards_optimizer<P> + has_prefetch<P> + has_axis<P>;
template <class P>
inline constexpr int like_precision = has_compute<P> + has_gradient<P> + has_reduce<P> + has_master<P>;
template <class P>
inline constexpr int like_checkpointing = has_recomputes<P> + has_keeps<P>;
template <class P>
inline constexpr int like_schedule = names_order<P>;
template <class P>
inline constexpr int like_projections = has_adapts<P> + has_fuses_qkv<P>;
template <class P>
inline constexpr int like_loss = names_loss_chunks<P>;
template <class P>
inline constexpr int like_backend = has_host_memory<P> + has_open<P>;
template <class P>
inline constexpr int like_communicator = requires(void (*f)(P&)) {
  P::launch(1, f);
}
+ requires(P c) {
  c.rank();
}
+ requires(P c) {
  c.size();
}
+ requires(P c) {
  c.barrier();
};

}  // namespace detail
}  // namespace weft
