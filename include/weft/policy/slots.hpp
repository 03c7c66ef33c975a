// Which slot of a strategy a type is meant for, and what it lacks there: a misspelt member is named where the strategy
// is written, instead of the type being taken for something else and refused in other words much later.
// Invariant: a type whose slot's concept holds is asked for no further member; only for values that make sense.
#pragma once

#include <limits>

#include <weft/core/refusal.hpp>
#include <weft/policy/slot_members.hpp>

namespace weft {

struct sequence_parallel;

/// This policy, beside the sentence that says what is wrong with it.
template <class... P>
struct in_policy {};

namespace detail {

template <bool Bad, class P>
using wrong_in = std::conditional_t<Bad, in_policy<P>, in_policy<>>;

#define WEFT_DETAIL_ASK(slot, member, kind, says)                                   \
  static_assert(none<wrong_in<!has_##member<P> && !names_##member<P>, P>>,          \
                "weft: this " slot " policy has no member " #member ": add " says); \
  static_assert(none<wrong_in<!has_##member<P> && names_##member<P>, P>>,           \
                "weft: this " slot " policy's " #member " is not " kind ": write " says)
#define WEFT_DETAIL_ASK_NAME(slot) \
  WEFT_DETAIL_ASK(slot, name, "a string", "static constexpr std::string_view name = \"mine\";")

/// Says what a type that fits no slot lacks in the slot that it is most like.
template <class P>
constexpr bool refuse_policy() {
  constexpr int sharding = like_sharding<P>, precision = like_precision<P>, checkpointing = like_checkpointing<P>,
                schedule = like_schedule<P>, projections = like_projections<P>, loss = like_loss<P>,
                backend = like_backend<P>;
  if constexpr (sharding > 0 && sharding >= precision && sharding >= checkpointing) {
    WEFT_DETAIL_ASK("sharding", shards_parameters, "a bool", "static constexpr bool shards_parameters = false;");
    WEFT_DETAIL_ASK("sharding", shards_gradients, "a bool", "static constexpr bool shards_gradients = false;");
    WEFT_DETAIL_ASK("sharding", shards_optimizer, "a bool", "static constexpr bool shards_optimizer = false;");
    WEFT_DETAIL_ASK("sharding", prefetch, "an int", "static constexpr int prefetch = 0;");
    WEFT_DETAIL_ASK("sharding", axis, "a mesh axis", "using axis = dp;");
    WEFT_DETAIL_ASK_NAME("sharding");
  } else if constexpr (precision > 0) {
    WEFT_DETAIL_ASK("precision", compute, "a floating type", "using compute = float; or bf16, fp16, double");
    WEFT_DETAIL_ASK("precision", gradient, "a floating type", "using gradient = float; or bf16, fp16, double");
    WEFT_DETAIL_ASK("precision", reduce, "a floating type", "using reduce = float; or bf16, fp16, double");
    WEFT_DETAIL_ASK("precision", master, "a floating type",
                    "using master = float; or double, where compute and gradient are double");
    WEFT_DETAIL_ASK_NAME("precision");
  } else if constexpr (checkpointing > 0) {
    WEFT_DETAIL_ASK("checkpointing", recomputes, "a bool", "static constexpr bool recomputes = true;");
    WEFT_DETAIL_ASK("checkpointing", keeps, "a static function of an op_cost that returns a bool",
                    "static constexpr bool keeps(const op_cost&) { return false; }");
    WEFT_DETAIL_ASK_NAME("checkpointing");
  } else if constexpr (schedule > 0) {
    WEFT_DETAIL_ASK("schedule", order, "a static template of (stage, stages, micro_batches, emit), for any emit",
                    "template <class Emit> static constexpr void order(int stage, int stages, int micro_batches, "
                    "Emit&& emit)");
    WEFT_DETAIL_ASK_NAME("schedule");
  } else if constexpr (projections > 0) {
    WEFT_DETAIL_ASK("projections", adapts, "a bool", "static constexpr bool adapts = false;");
    WEFT_DETAIL_ASK("projections", fuses_qkv, "a bool", "static constexpr bool fuses_qkv = false;");
    WEFT_DETAIL_ASK_NAME("projections");
  } else if constexpr (loss > 0) {
    WEFT_DETAIL_ASK("loss", loss_chunks, "an int", "static constexpr int loss_chunks = 8;");
    WEFT_DETAIL_ASK_NAME("loss");
  } else {
    static_assert(none<wrong_in<(backend > 0), P>>,
                  "weft: this backend has no member queue: add using queue = ...; the type that open(...) points to");
    static_assert(none<wrong_in<(backend == 0), P>>,
                  "weft: a type in strategy<mesh<...>, ...> fits no slot: name a sharding, precision, checkpointing, "
                  "schedule, projections or loss policy, a communicator or a backend; docs/policies/ says what each "
                  "has");
  }
  return true;  // it was said
}
#undef WEFT_DETAIL_ASK_NAME
#undef WEFT_DETAIL_ASK

template <class P>
inline constexpr bool is_communicator = false;
template <class P>
requires(!is_sharding<P> && !is_precision<P> && !is_checkpointing<P> && !is_schedule<P> && !is_projections<P> &&
         !is_loss_policy<P> && !is_backend<P> &&
         !std::same_as<P, sequence_parallel>) inline constexpr bool is_communicator<P> = like_communicator<P> > 0;

// A concept sees a member's type alone, so one that isn't static, or isn't known while compiling, is asked for here.
#define WEFT_DETAIL_CONSTANT(slot, member, says)          \
  static_assert(none<wrong_in<!constant_##member<P>, P>>, \
                "weft: this " slot "'s " #member " is not a static constant: write static constexpr " says)

// One that may be left out: `kind` is what it is, `without` what holds then.
#define WEFT_DETAIL_OPTION(slot, member, kind, says, without)                                     \
  if constexpr (has_##member<P>) WEFT_DETAIL_CONSTANT(slot, member, says);                        \
  static_assert(none<wrong_in<!has_##member<P> && names_##member<P>, P>>,                         \
                "weft: this " slot "'s " #member " is not " kind ": write static constexpr " says \
                " or leave it out where " without)

// As a C++ conversion would cut it, where an int can't hold it.
template <class T>
constexpr bool is_int(T number) {
  const auto n = static_cast<long double>(number);
  return n >= std::numeric_limits<int>::min() && n <= std::numeric_limits<int>::max() && n == static_cast<int>(n);
}
#define WEFT_DETAIL_INT(slot, member)                  \
  static_assert(none<wrong_in<!is_int(P::member), P>>, \
                "weft: this " slot "'s " #member       \
                " is not a whole number of an int's range: write static constexpr int " #member " = ...;")

template <class P>
constexpr bool fits_sharding() {
  constexpr bool constant = constant_shards_parameters<P> && constant_shards_gradients<P> &&
                            constant_shards_optimizer<P> && constant_prefetch<P>;
  static_assert(
      none<wrong_in<!constant, P>>,
      "weft: this sharding policy's shards_parameters, shards_gradients, shards_optimizer and prefetch aren't "
      "all static constants: write static constexpr bool shards_parameters = ...; and so each of them");
  if constexpr (constant) {
    WEFT_DETAIL_INT("sharding policy", prefetch);
    WEFT_DETAIL_OPTION("sharding policy", keeps_vectors, "a bool", "bool keeps_vectors = true;",
                       "vectors are sharded as matrices are");
    return coherent<P>() && batch_axes<P>::ok;
  }
  return true;  // it was said
}

template <class P>
constexpr bool fits_precision() {
  static_assert(none<wrong_in<!can_train<P>, P>>,
                "weft: a precision's optimizer computes in master, which is double where compute and gradient are "
                "double, and float where both are float, bf16 or fp16: change one of them");
  static_assert(
      none<wrong_in<!can_keep_moments<P>, P>>,
      "weft: a precision's moments are kept in its master type, or in bf16 beside float master weights: leave "
      "moment out, or write using moment = bf16;");
  static_assert(none<wrong_in<!has_moment<P> && names_moment<P>, P>>,
                "weft: this precision policy's moment is not a type: write using moment = bf16; or leave it out where "
                "moments are kept in master");
  WEFT_DETAIL_OPTION("precision policy", initial_loss_scale, "a number", "double initial_loss_scale = 1024;",
                     "nothing is scaled");
  if constexpr (constant_initial_loss_scale<P>) return initial_loss_scale<P> >= 0;
  return true;
}

template <class P>
constexpr bool fits_constant_projections() {
  if constexpr (bool(P::adapts)) {
    constexpr bool has = requires {
      int(P::rank);
      double(P::scale);
    };
    static_assert(
        none<wrong_in<!has, P>>,
        "weft: this projections policy adapts, and lacks rank or scale: add static constexpr int rank = 8; and "
        "static constexpr double scale = 2;");
    if constexpr (has)
      static_assert(none<wrong_in<!(P::rank >= 1 && P::scale - P::scale == 0 && P::scale != 0), P>>,
                    "weft: a projections policy's rank is at least 1, and its scale a finite number other than 0");
  }
  WEFT_DETAIL_OPTION("projections policy", dropout, "a number", "double dropout = 0.05;", "nothing is dropped");
  if constexpr (constant_dropout<P>)
    static_assert(none<wrong_in<!(P::dropout >= 0 && P::dropout < 1), P>>,
                  "weft: a projections policy's dropout is a rate from 0 to below 1");
  WEFT_DETAIL_OPTION("projections policy", shares_kv, "a bool", "bool shares_kv = true;", "each rank has whole heads");
  if constexpr (constant_shares_kv<P>)
    static_assert(none<wrong_in<bool(P::shares_kv) && bool(P::fuses_qkv), P>>,
                  "weft: this projections policy fuses keys and values with queries, which lie by whole heads, and "
                  "shares them by their width: leave out fused_qkv or shared_kv");
  WEFT_DETAIL_OPTION("projections policy", in_float8, "a bool", "bool in_float8 = true;",
                     "nothing is rounded to 8 bits");
  WEFT_DETAIL_OPTION("projections policy", stored_as, "a weight_format", "auto stored_as = weight_format::int8;",
                     "weights lie in full");
  return true;
}

template <class P>
constexpr bool fits_projections() {
  WEFT_DETAIL_CONSTANT("projections policy", adapts, "bool adapts = false;");
  WEFT_DETAIL_CONSTANT("projections policy", fuses_qkv, "bool fuses_qkv = false;");
  if constexpr (constant_adapts<P> && constant_fuses_qkv<P>) return fits_constant_projections<P>();
  return true;  // it was said
}

template <class P>
constexpr bool fits_checkpointing() {
  WEFT_DETAIL_CONSTANT("checkpointing policy", recomputes, "bool recomputes = true;");
  WEFT_DETAIL_OPTION("checkpointing policy", offloads_inputs, "a bool", "bool offloads_inputs = true;",
                     "inputs stay where they are");
  return true;
}

template <class P>
constexpr bool fits_schedule() {
  WEFT_DETAIL_OPTION("schedule policy", chunks, "an int", "int chunks = 2;", "a rank's layers are one");
  if constexpr (constant_chunks<P>) {
    WEFT_DETAIL_INT("schedule policy", chunks);
    static_assert(none<wrong_in<(int(P::chunks) < 1), P>>,
                  "weft: a schedule policy's chunks is into how many chunks a rank's layers are cut, at least 1");
  }
  return true;
}

template <class P>
constexpr bool fits_loss() {
  WEFT_DETAIL_CONSTANT("loss policy", loss_chunks, "int loss_chunks = 8;");
  if constexpr (constant_loss_chunks<P>) {
    WEFT_DETAIL_INT("loss policy", loss_chunks);
    static_assert(none<wrong_in<(int(P::loss_chunks) < 0), P>>,
                  "weft: a loss policy's loss_chunks is how many pieces of the sequence the loss is computed in, at "
                  "least 1, or 0 for the whole at once");
  }
  return true;
}

template <class P>
constexpr bool fits_backend() {
  static_assert(none<wrong_in<!has_open<P>, P>>,
                "weft: this backend has no static open(ranks, rank, threads), which makes a rank's queue: "
                "docs/policies/backend.md says what a backend has");
  static_assert(none<wrong_in<has_open<P> && !has_memory<P>, P>>,
                "weft: this backend has no static memory(), the memory_source of its tensors: "
                "docs/policies/backend.md says what a backend has");
  if constexpr (has_open<P> && has_memory<P>) WEFT_DETAIL_CONSTANT("backend", host_memory, "bool host_memory = true;");
  constexpr bool ordered = requires { requires ordered_queue<typename P::queue>; };
  static_assert(none<wrong_in<has_open<P> && has_memory<P> && !ordered, P>>,
                "weft: this backend's queue lacks runs_behind, enqueue(f) or synchronize(): core/queue.hpp says what "
                "they are, and cpu_backend::queue is one that has them");
  if constexpr (ordered && has_host_memory<P>)
    static_assert(none<wrong_in<bool(P::host_memory) && P::queue::runs_behind, P>>,
                  "weft: this backend's queue runs behind its host, so the host can't read tensors at any time: write "
                  "static constexpr bool host_memory = false;");
  return true;
}
#undef WEFT_DETAIL_INT
#undef WEFT_DETAIL_OPTION
#undef WEFT_DETAIL_CONSTANT

/// Whether a type fits a slot; where it doesn't, a sentence says what it lacks.
template <class P>
constexpr bool fits_a_slot() {
  if constexpr (is_sharding<P>) (void)fits_sharding<P>();
  if constexpr (is_precision<P>) (void)fits_precision<P>();
  if constexpr (is_checkpointing<P>) (void)fits_checkpointing<P>();
  if constexpr (is_schedule<P>) (void)fits_schedule<P>();
  if constexpr (is_projections<P>) (void)fits_projections<P>();
  if constexpr (is_loss_policy<P>) (void)fits_loss<P>();
  if constexpr (is_backend<P>) (void)fits_backend<P>();
  if constexpr (is_sharding<P> || is_precision<P> || is_checkpointing<P> || is_schedule<P> || is_projections<P> ||
                is_loss_policy<P> || is_backend<P> || std::same_as<P, sequence_parallel> || is_communicator<P>)
    return true;
  else
    return refuse_policy<P>();
}

}  // namespace detail
}  // namespace weft
