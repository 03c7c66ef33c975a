// Which slot of a strategy a type is meant for, and what it lacks there: a misspelt member is named where the strategy
// is written, instead of the type being taken for something else and refused in other words much later.
// Invariant: a type whose slot's concept holds is never asked for anything more here.
#pragma once

#include <weft/core/refusal.hpp>
#include <weft/policy/checkpointing.hpp>
#include <weft/policy/precision.hpp>
#include <weft/policy/schedule.hpp>
#include <weft/policy/sharding.hpp>

namespace weft {

class threads;
struct cpu_backend;
struct sequence_parallel;

/// This policy, beside the sentence that says what is wrong with it.
template <class... P>
struct in_policy {};

namespace detail {

template <bool Bad, class P>
using wrong_in = std::conditional_t<Bad, in_policy<P>, in_policy<>>;

template <class P>
inline constexpr bool is_sharding = sharding_policy<P>;
template <class P>
inline constexpr bool is_precision = precision_policy<P>;
template <class P>
inline constexpr bool is_checkpointing = checkpointing_policy<P>;
template <class P>
inline constexpr bool is_schedule = schedule_policy<P>;
// A backend is told by its queue; the CPU's need not be included yet where a strategy is written.
template <class P>
inline constexpr bool is_backend = std::same_as<P, cpu_backend> || requires {
  typename P::queue;
};

// One question for each member. `has_name` is no sign of a slot, since every policy has one.
#define WEFT_DETAIL_HAS_VALUE(member, type)       \
  template <class P>                              \
  inline constexpr bool has_##member = requires { \
    type(P::member);                              \
  };
#define WEFT_DETAIL_HAS_NUMBERS(member)       \
  template <class P>                          \
  inline constexpr bool has_##member = false; \
  template <class P>                          \
  requires floating<typename P::member>       \
  inline constexpr bool has_##member<P> = true;
WEFT_DETAIL_HAS_VALUE(name, std::string_view)
WEFT_DETAIL_HAS_VALUE(shards_parameters, bool)
WEFT_DETAIL_HAS_VALUE(shards_gradients, bool)
WEFT_DETAIL_HAS_VALUE(shards_optimizer, bool)
WEFT_DETAIL_HAS_VALUE(prefetch, int)
WEFT_DETAIL_HAS_VALUE(recomputes, bool)
WEFT_DETAIL_HAS_VALUE(host_memory, bool)
WEFT_DETAIL_HAS_NUMBERS(compute)
WEFT_DETAIL_HAS_NUMBERS(gradient)
WEFT_DETAIL_HAS_NUMBERS(reduce)
WEFT_DETAIL_HAS_NUMBERS(master)
#undef WEFT_DETAIL_HAS_NUMBERS
#undef WEFT_DETAIL_HAS_VALUE
template <class P>
inline constexpr bool has_axis = false;
template <class P>
requires mesh_axis<typename P::axis>
inline constexpr bool has_axis<P> = true;
template <class P>
inline constexpr bool has_keeps = requires(const op_cost& cost) {
  bool(P::keeps(cost));
};
template <class P>
inline constexpr bool has_order = requires(int n, void (*emit)(pipeline_action)) {
  P::order(n, n, n, emit);
};
template <class P>
inline constexpr bool has_open = requires {
  P::open(1, 0, 1);
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
inline constexpr int like_schedule = has_order<P>;
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

#define WEFT_DETAIL_ASK(slot, member, says) \
  static_assert(none<wrong_in<!has_##member<P>, P>>, "weft: this " slot " policy has no member " #member ": " says)

/// Says what a type that fits no slot lacks in the slot that it is most like.
template <class P>
constexpr bool refuse_policy() {
  constexpr int sharding = like_sharding<P>, precision = like_precision<P>, checkpointing = like_checkpointing<P>,
                schedule = like_schedule<P>, backend = like_backend<P>;
  if constexpr (sharding > 0 && sharding >= precision && sharding >= checkpointing) {
    WEFT_DETAIL_ASK("sharding", shards_parameters, "add static constexpr bool shards_parameters = false;");
    WEFT_DETAIL_ASK("sharding", shards_gradients, "add static constexpr bool shards_gradients = false;");
    WEFT_DETAIL_ASK("sharding", shards_optimizer, "add static constexpr bool shards_optimizer = false;");
    WEFT_DETAIL_ASK("sharding", prefetch, "add static constexpr int prefetch = 0;");
    WEFT_DETAIL_ASK("sharding", axis, "add using axis = dp;");
    WEFT_DETAIL_ASK("sharding", name, "add static constexpr std::string_view name = \"mine\";");
  } else if constexpr (precision > 0) {
    WEFT_DETAIL_ASK("precision", compute, "add using compute = float; or bf16, fp16, double");
    WEFT_DETAIL_ASK("precision", gradient, "add using gradient = float; or bf16, fp16, double");
    WEFT_DETAIL_ASK("precision", reduce, "add using reduce = float; or bf16, fp16, double");
    WEFT_DETAIL_ASK("precision", master, "add using master = float; or double, where compute and gradient are double");
    WEFT_DETAIL_ASK("precision", name, "add static constexpr std::string_view name = \"mine\";");
  } else if constexpr (checkpointing > 0) {
    WEFT_DETAIL_ASK("checkpointing", recomputes, "add static constexpr bool recomputes = true;");
    WEFT_DETAIL_ASK("checkpointing", keeps, "add static constexpr bool keeps(const op_cost&) { return false; }");
    WEFT_DETAIL_ASK("checkpointing", name, "add static constexpr std::string_view name = \"mine\";");
  } else if constexpr (schedule > 0) {
    WEFT_DETAIL_ASK("schedule", name, "add static constexpr std::string_view name = \"mine\";");
  } else {
    static_assert(none<wrong_in<(backend > 0), P>>,
                  "weft: this backend has no member queue: add using queue = ...; the type that open(...) points to");
    static_assert(none<wrong_in<(backend == 0), P>>,
                  "weft: a type in strategy<mesh<...>, ...> fits no slot: name a sharding, precision, checkpointing or "
                  "schedule policy, a communicator or a backend; docs/policies/ says what each has");
  }
  return true;  // it was said
}
#undef WEFT_DETAIL_ASK

template <class P>
inline constexpr bool is_communicator = false;
template <class P>
requires(!is_sharding<P> && !is_precision<P> && !is_checkpointing<P> && !is_schedule<P> && !is_backend<P> &&
         !std::same_as<P, sequence_parallel>) inline constexpr bool is_communicator<P> =
    std::same_as<P, threads> || like_communicator<P> > 0;

/// Whether a type fits a slot; where it doesn't, a sentence says what it lacks.
template <class P>
constexpr bool fits_a_slot() {
  if constexpr (is_sharding<P> || is_precision<P> || is_checkpointing<P> || is_schedule<P> || is_backend<P> ||
                std::same_as<P, sequence_parallel> || is_communicator<P>) {
    if constexpr (is_precision<P>)
      static_assert(none<wrong_in<!can_train<P>, P>>,
                    "weft: a precision's optimizer computes in master, which is double where compute and gradient are "
                    "double, and float where both are float, bf16 or fp16: change one of them");
    return true;
  } else {
    return refuse_policy<P>();
  }
}

}  // namespace detail
}  // namespace weft
