// A strategy: a mesh and one policy for each slot, in any order; a slot not named takes its default.
// Invariant: a combination that can't work does not compile, and one sentence says which.
#pragma once

#include <weft/policy/checkpointing.hpp>
#include <weft/policy/mesh.hpp>
#include <weft/policy/precision.hpp>
#include <weft/policy/schedule.hpp>
#include <weft/policy/sharding.hpp>

namespace weft {

class threads;
struct cpu_backend;

/// Between the blocks' contractions, activations are sharded along `seq` over tp (Korthikanti et al. 2022).
struct sequence_parallel {};

namespace detail {

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
template <class P>
inline constexpr bool is_communicator = !is_sharding<P> && !is_precision<P> && !is_checkpointing<P> &&
                                        !is_schedule<P> && !is_backend<P> && !std::same_as<P, sequence_parallel>;

// First of Ps that a predicate holds for, or Default.
#define WEFT_DETAIL_PICK(slot)                   \
  template <class Default, class... Ps>          \
  struct pick_##slot {                           \
    using type = Default;                        \
  };                                             \
  template <class Default, class P, class... Ps> \
  struct pick_##slot<Default, P, Ps...>          \
      : std::conditional_t<is_##slot<P>, pick_##slot<P>, pick_##slot<Default, Ps...>> {};
WEFT_DETAIL_PICK(sharding)
WEFT_DETAIL_PICK(precision)
WEFT_DETAIL_PICK(checkpointing)
WEFT_DETAIL_PICK(schedule)
WEFT_DETAIL_PICK(backend)
WEFT_DETAIL_PICK(communicator)
#undef WEFT_DETAIL_PICK

}  // namespace detail

/// `strategy<mesh<dp, tp>, zero3, bf16_mixed, checkpoint_full, threads>`. Defaults: replicated, fp32, checkpoint_none,
/// one_f_one_b, threads, and cpu_backend (the CUDA one is named as `cuda_backend`).
template <class Mesh, class... Policies>
struct strategy {
  static_assert(is_mesh<Mesh>, "weft: the first argument of a strategy is its mesh<axis...>");
  static_assert((0 + ... + int(detail::is_sharding<Policies>)) <= 1,
                "weft: a strategy names two sharding policies; keep one");
  static_assert((0 + ... + int(detail::is_precision<Policies>)) <= 1,
                "weft: a strategy names two precision policies; keep one");
  static_assert((0 + ... + int(detail::is_checkpointing<Policies>)) <= 1,
                "weft: a strategy names two checkpointing policies; keep one");
  static_assert((0 + ... + int(detail::is_schedule<Policies>)) <= 1,
                "weft: a strategy names two pipeline schedules; keep one");
  static_assert((0 + ... + int(detail::is_backend<Policies>)) <= 1, "weft: a strategy names two backends; keep one");
  static_assert((0 + ... + int(detail::is_communicator<Policies>)) <= 1,
                "weft: a strategy names two communicators, or a type that fits no policy concept; see policy/ for what "
                "each slot asks");

  using mesh = Mesh;
  using sharding = typename detail::pick_sharding<replicated, Policies...>::type;
  using precision = typename detail::pick_precision<fp32, Policies...>::type;
  using checkpointing = typename detail::pick_checkpointing<checkpoint_none, Policies...>::type;
  using schedule = typename detail::pick_schedule<one_f_one_b, Policies...>::type;
  using backend = typename detail::pick_backend<cpu_backend, Policies...>::type;
  using communicator = typename detail::pick_communicator<threads, Policies...>::type;
  static constexpr bool sequence_parallel = (std::same_as<Policies, weft::sequence_parallel> || ...);

  static_assert(!sequence_parallel || Mesh::template has<tp>,
                "weft: sequence_parallel shards the sequence over tp, which the mesh lacks");
};

}  // namespace weft
