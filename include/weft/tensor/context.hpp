// The context: all that one rank has. Its place on every axis, its memory, its cores, its seed, its tape.
// Invariant: an axis that the mesh does not name has one rank, so one program runs on any mesh.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <weft/comm/axis_group.hpp>
#include <weft/comm/spans.hpp>
#include <weft/core/scoped_value.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft {

class tape;
class recording;
class replay;
class unit_observer;
class consistency;

namespace detail {
class input_offload;
/// A backend's name, as an address.
template <class Backend>
inline constexpr char backend_id = 0;
/// A backend of a device that names memory of the host's, page-locked, from which its queues copy beside kernels.
template <class Backend>
concept staging_backend = requires {
  Backend::pinned_memory();
};
}  // namespace detail

/// One rank: its group along each axis, its memory, its queues and the tape that is recorded. launch makes it and hands
/// it to the function that runs on every rank; it ends with that function.
class context {
 public:
  /// `source`: where the rank's tensors live, the host or a device; its backend's.
  context(any_communicator world_ranks, std::uint64_t random_seed, memory_source source = {})
      : seed(random_seed), world(std::move(world_ranks)), memory(source) {}
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  std::uint64_t seed;
  any_communicator world;
  record_pool records;  // what this rank writes down: slots, entries of tapes
  arena memory;
  weft::tape* tape = nullptr;                     // null: nothing is recorded
  weft::recording* recording = nullptr;           // the innermost
  weft::replay* replay = nullptr;                 // null: what runs isn't run again
  span_log* spans = nullptr;                      // null: nobody asks what was done when
  unit_observer* observer = nullptr;              // null: nobody looks at what flows through units
  consistency* check = nullptr;                   // null: what ranks hold is not compared
  std::string_view unit{};                        // of the model: the one whose function or gradient is computed
  std::int64_t micro_batch = -1;                  // the one that is computed; -1: none, or not said
  std::int64_t pass = -1;                         // the recorded one that runs: it numbers dropout's masks; -1: none
  bool in_piece = false;                          // of a loss in chunks, whose masks would be alike
  bool one_document = false;                      // a text is generated: no token ends a document in it
  std::uint64_t operators = 0;                    // so many ran in functions that run twice
  std::uint64_t backward = 0;                     // the number of the one that runs; 0: none
  std::uint64_t backwards = 0;                    // so many have begun
  std::vector<std::uint64_t> failed_backwards{};  // those that ended with an error, ascending

  varying<int> rank() const { return varying<int>(world.rank()); }
  degree_of<> size() const { return degree_of<>(world.size()); }
  bool is_first() const { return rank() == 0; }

  /// The label of a collective that this unit and micro-batch ask for.
  collective_label label(const char* what, std::string_view tensor = {}, call_site at = {},
                         label_kind kind = label_kind::numbers) const {
    return {what, tensor, unit, micro_batch, at, kind};
  }

  template <mesh_axis A>
  degree_of<A> degree() const {
    return degree_of<A>(along(id_of<A>).degree);
  }
  template <mesh_axis A>
  varying<int> index() const {
    return varying<int>(along(id_of<A>).index);
  }
  /// The group along an axis; of one rank where it has one, or isn't in the mesh.
  axis_group& along(axis_id axis) { return const_cast<axis_group&>(std::as_const(*this).along(axis)); }
  const axis_group& along(axis_id axis) const {
    for (const axis_group& g : groups_)
      if (g.axis == axis) return g;
    return alone_;
  }
  /// The group along several axes, the first outermost: as along(axis) where one of them alone has several ranks.
  /// Otherwise its first call makes it, which every rank of the world has to join, at the same place of the program;
  /// launch has done so for a strategy's sharding policy.
  axis_group& along(const axis_set& axes);
  /// The same: ctx.along<dp, fsdp>().
  template <mesh_axis... As>
  axis_group& along() {
    return along(axis_set(axes_along<weft::along<As...>>{}));
  }
  void add_axis(axis_group group) { groups_.push_back(std::move(group)); }
  const std::vector<axis_group>& axes() const { return groups_; }

  /// Throws unless it is the one that the rank was launched with; of a tensor that is made.
  void require_backend(const void* id) const {
    if (queue_of_ != id) [[unlikely]]
      fail_backend();
  }
  /// The backend's queue: its cores or its stream. Made by launch.
  template <class Backend>
  typename Backend::queue& queue() {
    require_backend(&detail::backend_id<Backend>);
    return *static_cast<typename Backend::queue*>(queue_.get());
  }
  template <class Backend>
  void set_queue(std::shared_ptr<typename Backend::queue> queue) {
    order_ = queue_ref(*queue);
    require(world.size() == 1 || !order_.moves_data() || world.takes_queue(order_),
            "the strategy's communicator moves data in the host's memory, and its backend's lies on a device: use "
            "threads, or one that takes the device's queue (comm/concept.hpp)");
    if (order_.runs_behind()) world = world.behind(order_);
    if constexpr (requires { queue->scratch_bytes(); })
      memory.read_scratch(queue.get(), [](const void* q) -> std::optional<std::size_t> {
        return static_cast<const typename Backend::queue*>(q)->scratch_bytes();
      });
    if constexpr (requires { queue->pinned_bytes(); })
      memory.read_pinned(queue.get(),
                         [](const void* q) { return static_cast<const typename Backend::queue*>(q)->pinned_bytes(); });
    if constexpr (detail::staging_backend<Backend>) pinned_source_ = Backend::pinned_memory;
    if constexpr (requires { queue->copies_beside(); })  // a plan's says what the one that is planned does
      copies_beside_ = queue->copies_beside();
    else
      copies_beside_ = pinned_source_ != nullptr;
    queue_ = std::move(queue);
    queue_of_ = &detail::backend_id<Backend>;
  }
  /// The same queue, whatever backend's: what collectives are ordered behind.
  const queue_ref& order() const { return order_; }

  local_array make(dtype type, const shape& sizes, weft::memory category = weft::memory::activations) {
    if (optimizer_state_ && !copies_beside_ && category == weft::memory::optimizer)
      return local_array(*optimizer_state_, type, sizes, category);
    return local_array(memory, type, sizes, category);
  }
  /// From now on the optimizer's state (master weights and moments) lies in an arena of its own, whose chunks come from
  /// `source`; what was made before stays. Where kernels run on a device, `source` is {}, and the arena's memory is the
  /// host's, page-locked: a store's update copies the state to the device and back, `chunk` elements of each of its
  /// arrays at a time, and the device keeps room for two such chunks; the state of a single tensor's optimizer_update
  /// stays in the device's memory. Throws there for another source, and where the backend has no such memory; and where
  /// such an arena holds state already, which would lose its memory.
  WEFT_LINKED void keep_optimizer_state_in(memory_source source, std::int64_t chunk = std::int64_t{1} << 22) {
    require(chunk >= 1, "the optimizer's state is to be copied ", chunk, " elements at a time; there is at least 1");
    require(
        !optimizer_state_ || optimizer_state_->ledger().total == 0,
        "keep_optimizer_state_in was called before, and a trainer or store has its state there: call it once, before "
        "the first of them is made, or again when they have ended");
    if (!memory.on_host()) {
      require(pinned_source_ != nullptr,
              "the optimizer's state can lie elsewhere only where kernels run on the host, or copies to the device go "
              "on beside them, and this backend has neither: leave it in the device's memory");
      const bool host = !source.place && source.allocate == memory_source{}.allocate;
      require(host || !copies_beside_,
              "the optimizer's state of a device lies in the host's page-locked memory, which a file's or one's own "
              "isn't: write ctx.keep_optimizer_state_in({}), or take cpu_backend, whose kernels read a file");
      source = pinned_source_();
    }
    optimizer_state_ = std::make_unique<arena>(std::move(source));
    // Where a bucket's regions begin; any count above 2^48 is all of it.
    state_chunk_ = (std::min(chunk, std::int64_t{1} << 48) + 15) / 16 * 16;
    if (copies_beside_)
      optimizer_state_->read_pinned(optimizer_state_.get(),
                                    [](const void* a) { return static_cast<const arena*>(a)->reserved(); });
  }
  /// An array of the optimizer's state, for who brings it to the kernels where they can't be given it.
  local_array make_state(dtype type, const shape& sizes) {
    return local_array(optimizer_state_ ? *optimizer_state_ : memory, type, sizes, weft::memory::optimizer);
  }
  /// The elements of a chunk, by which a store made now copies the optimizer's state to its kernels' device and back;
  /// 0: kernels are given it where it is.
  std::int64_t state_chunk() const { return optimizer_state_ && copies_beside_ ? state_chunk_ : 0; }
  /// Whether that is of the optimizer's state and in the host's memory, and kernels run on a device.
  bool lies_on_host(const void* at) const { return state_chunk() > 0 && optimizer_state_->holds(at); }
  /// Of the arena that the optimizer's state lies in.
  const memory_ledger& optimizer_ledger() const { return (optimizer_state_ ? *optimizer_state_ : memory).ledger(); }

  /// Whether kernels run on a device, and copies from and to page-locked memory of the host's go on beside them.
  bool copies_beside() const { return copies_beside_; }
  /// The arena in such memory where inputs of checkpointed functions lie in the meantime. Throws where there is none.
  arena& offload_memory() {
    require(pinned_source_ != nullptr, "this backend has no page-locked memory of the host's to put activations into");
    if (!offload_memory_) offload_memory_ = std::make_unique<arena>(pinned_source_());
    return *offload_memory_;
  }
  /// What moves them there: null until a checkpointing policy asks for it.
  std::shared_ptr<detail::input_offload>& offload() { return offload_; }
  /// The arena's ledger; of nothing, where no policy has put an input there (policy/checkpointing.hpp, offloaded).
  memory_ledger offload_ledger() const { return offload_memory_ ? offload_memory_->ledger() : memory_ledger{}; }

 private:
  [[noreturn, gnu::cold, gnu::noinline]] void fail_backend() const {
    require(queue_of_,
            "this context has no backend: launch gives it one, or ctx.set_queue<Backend>(queue) before the "
            "first tensor is made");
    fail(
        "a tensor's type, or a call of ctx.queue<B>(), names another backend than the strategy of its launch: write "
        "S::backend there");
  }
  friend class context_ref;
  std::unique_ptr<arena> optimizer_state_;      // null: with all else
  std::unique_ptr<arena> offload_memory_;       // null: nothing was put there
  memory_source (*pinned_source_)() = nullptr;  // the backend's, if it has one
  bool copies_beside_ = false;                  // as copies_beside()
  std::int64_t state_chunk_ = 0;
  struct set_group {
    axis_set axes;
    std::unique_ptr<axis_group> group;
  };
  std::vector<axis_group> groups_;     // by axis
  std::vector<set_group> set_groups_;  // of two axes or more that have several ranks
  axis_group alone_;
  std::shared_ptr<void> queue_;
  queue_ref order_;
  const void* queue_of_ = nullptr;  // whose it is: detail::backend_id
  std::shared_ptr<detail::input_offload> offload_;
  lifetime life_;  // ends first
};

[[gnu::cold]] WEFT_LINKED axis_group& context::along(const axis_set& axes) {
  axis_set several;
  axis_group out;
  int first = world.rank();  // of the group's ranks, in the world
  for (const axis_id axis : axes) {
    const axis_group& g = along(axis);
    if (g.degree == 1) continue;
    several.add(axis);
    out.degree *= g.degree;
    out.index = out.index * g.degree + g.index;
    first -= g.index * g.stride;
  }
  if (several.size() == 0) return alone_;
  if (several.size() == 1) return along(*several.begin());
  for (const set_group& s : set_groups_)
    if (s.axes == several) return *s.group;
  out.name = several.name();
  out.comm = world.split(first, out.index, out.name.c_str());
  detail::check_split(out.comm, out.name, out.index, out.degree);
  return *set_groups_.emplace_back(set_group{several, std::make_unique<axis_group>(std::move(out))}).group;
}

inline context_ref::context_ref(context* of) : at_(of), life_(of ? watch(of->life_) : watch()) {}

namespace detail {
[[gnu::cold, gnu::noinline]] inline void require_running_again(const value& v) {
  require(v.ctx->replay || v.data.elements() == 0,
          "a tensor that a checkpointed function computed has no memory after the backward, since nothing needed it a "
          "second time: return it from the function, or read it inside");
}
[[gnu::noinline]] inline void require_running_once(const context& ctx, const char* what) {
  if (ctx.replay) [[unlikely]]
    fail(what, ": a checkpointed function runs twice, and so would this: do it before or after the checkpoint");
}
inline void require_running_once(const value& v, const char* what) { require_running_once(*v.ctx, what); }
WEFT_LINKED void require_whole_gradient(const context& ctx, const slot& s) {
  const auto& failed = ctx.failed_backwards;
  if (!failed.empty() && std::binary_search(failed.begin(), failed.end(), s.backward)) [[unlikely]]
    fail(
        "the tensor's gradient is what a backward that ended with an error left of it: zero_grad() drops it, and the "
        "next backward begins a new one");
}
template <class Backend>
void give_own_memory(value& v) {
  context& ctx = *v.ctx;
  const local_array own = ctx.make(v.data.type, v.data.shape);
  Backend::copy_bytes(ctx.queue<Backend>(), v.data.data, own.data, own.bytes());
  v.data = own;
  v.shares_memory = false;
}
}  // namespace detail

}  // namespace weft
