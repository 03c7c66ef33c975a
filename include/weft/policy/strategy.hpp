// A strategy: a mesh and one policy for each slot, in any order; a slot not named takes its default.
// Invariant: a combination that can't work does not compile, and one sentence says which.
#pragma once

#include <weft/policy/mesh.hpp>
#include <weft/policy/schedules.hpp>
#include <weft/policy/slots.hpp>

namespace weft {

class threads;  // the communicator and the backend of a strategy that names none
struct cpu_backend;

/// Between the blocks' contractions, activations are sharded along `seq` over tp (Korthikanti et al. 2022).
struct sequence_parallel {};

namespace detail {

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
WEFT_DETAIL_PICK(projections)
WEFT_DETAIL_PICK(loss_policy)
WEFT_DETAIL_PICK(backend)
WEFT_DETAIL_PICK(communicator)
#undef WEFT_DETAIL_PICK

}  // namespace detail

/// `strategy<mesh<dp, tp>, zero3, bf16_mixed, checkpoint_full, threads>`. Defaults: replicated, fp32, checkpoint_none,
/// one_f_one_b, dense, whole_loss, threads, and cpu_backend (the CUDA one is named as `cuda_backend`).
template <class Mesh, class... Policies>
struct strategy {
  static_assert(is_mesh<Mesh>, "weft: the first argument of a strategy is its mesh<axis...>");
  static_assert((detail::fits_a_slot<Policies>() && ...));
  static_assert((0 + ... + int(detail::is_sharding<Policies>)) <= 1,
                "weft: a strategy names two sharding policies; keep one");
  static_assert((0 + ... + int(detail::is_precision<Policies>)) <= 1,
                "weft: a strategy names two precision policies; keep one");
  static_assert((0 + ... + int(detail::is_checkpointing<Policies>)) <= 1,
                "weft: a strategy names two checkpointing policies; keep one");
  static_assert((0 + ... + int(detail::is_schedule<Policies>)) <= 1,
                "weft: a strategy names two pipeline schedules; keep one");
  static_assert((0 + ... + int(detail::is_projections<Policies>)) <= 1,
                "weft: a strategy names two projections policies; keep one");
  static_assert((0 + ... + int(detail::is_loss_policy<Policies>)) <= 1,
                "weft: a strategy names two loss policies; keep one");
  static_assert((0 + ... + int(detail::is_backend<Policies>)) <= 1, "weft: a strategy names two backends; keep one");
  static_assert((0 + ... + int(detail::is_communicator<Policies>)) <= 1,
                "weft: a strategy names two communicators; keep one");

  using mesh = Mesh;
  using sharding = typename detail::pick_sharding<replicated, Policies...>::type;
  using precision = typename detail::pick_precision<fp32, Policies...>::type;
  using checkpointing = typename detail::pick_checkpointing<checkpoint_none, Policies...>::type;
  using schedule = typename detail::pick_schedule<one_f_one_b, Policies...>::type;
  using projections = typename detail::pick_projections<dense, Policies...>::type;
  using loss = typename detail::pick_loss_policy<whole_loss, Policies...>::type;
  using backend = typename detail::pick_backend<cpu_backend, Policies...>::type;
  using communicator = typename detail::pick_communicator<threads, Policies...>::type;
  static constexpr bool sequence_parallel = (std::same_as<Policies, weft::sequence_parallel> || ...);

  static_assert(!sequence_parallel || Mesh::template has<tp>,
                "weft: sequence_parallel shards the sequence over tp, which the mesh lacks");
};

namespace detail {
template <class Mesh, class Backend, class Kept, class... Policies>
struct with_backend;
template <class Mesh, class Backend, class... Kept>
struct with_backend<Mesh, Backend, tag_list<Kept...>> {
  using type = strategy<Mesh, Kept..., Backend>;
};
template <class Mesh, class Backend, class... Kept, class P, class... Ps>
struct with_backend<Mesh, Backend, tag_list<Kept...>, P, Ps...>
    : with_backend<Mesh, Backend, std::conditional_t<is_backend<P>, tag_list<Kept...>, tag_list<Kept..., P>>, Ps...> {};
template <class S, class Backend>
struct on_backend;
template <class Mesh, class... Policies, class Backend>
struct on_backend<strategy<Mesh, Policies...>, Backend> : with_backend<Mesh, Backend, tag_list<>, Policies...> {};
}  // namespace detail

/// The strategy S with its tensors on another backend.
template <class S, class Backend>
using on_backend = typename detail::on_backend<S, Backend>::type;

}  // namespace weft
