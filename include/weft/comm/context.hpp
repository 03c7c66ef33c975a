// The context: all that one rank has. Its place on every axis, its memory, its cores, its seed, its tape.
// Invariant: an axis that the mesh does not name has one rank, so one program runs on any mesh.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

#include <weft/comm/any.hpp>
#include <weft/comm/spans.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft {

class tape;
class replay;
class unit_observer;
class consistency;

/// This rank's place along one axis.
struct axis_group {
  axis_id axis = nullptr;
  std::string_view name;
  int degree = 1;
  int index = 0;
  any_communicator comm;

  /// Whether its ranks hold different parts of a tensor that is sharded over `sharded` and stored in shares along
  /// `stored_over` (or null).
  bool cuts(const std::vector<axis_id>& sharded, axis_id stored_over) const {
    if (degree == 1) return false;
    for (const axis_id a : sharded)
      if (a == axis) return true;
    return axis == stored_over;
  }
};

namespace detail {
/// A backend's name, as an address.
template <class Backend>
inline constexpr char backend_id = 0;
}  // namespace detail

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
  weft::tape* tape = nullptr;         // null: nothing is recorded
  weft::replay* replay = nullptr;     // null: what runs isn't run again
  span_log* spans = nullptr;          // null: nobody asks what was done when
  unit_observer* observer = nullptr;  // null: nobody looks at what flows through units
  consistency* check = nullptr;       // null: what ranks hold is not compared
  std::string_view unit{};            // of the model: the one whose function or gradient is computed
  std::int64_t micro_batch = -1;      // the one that is computed; -1: none, or not said

  int rank() const { return world.rank(); }
  int size() const { return world.size(); }
  bool is_first() const { return rank() == 0; }

  /// The label of a collective that this unit and micro-batch ask for.
  collective_label label(const char* what, std::string_view tensor = {}, call_site at = {}) const {
    return {what, tensor, unit, micro_batch, at};
  }

  template <mesh_axis A>
  int degree() const {
    const axis_group* g = find(id_of<A>);
    return g ? g->degree : 1;
  }
  template <mesh_axis A>
  int index() const {
    const axis_group* g = find(id_of<A>);
    return g ? g->index : 0;
  }
  /// The group along an axis, or null where it has one rank.
  axis_group* group(axis_id axis) {
    axis_group* g = const_cast<axis_group*>(find(axis));
    return g && g->degree > 1 ? g : nullptr;
  }
  void add_axis(axis_group group) { groups_.push_back(std::move(group)); }
  const std::vector<axis_group>& axes() const { return groups_; }

  /// The backend's queue: its cores or its stream. Made by launch.
  template <class Backend>
  typename Backend::queue& queue() {
    if (queue_of_ != &detail::backend_id<Backend>) [[unlikely]]
      fail("a tensor's type names another backend than the strategy of its launch: write both with S::backend");
    return *static_cast<typename Backend::queue*>(queue_.get());
  }
  template <class Backend>
  void set_queue(std::shared_ptr<typename Backend::queue> queue) {
    queue_ = std::move(queue);
    queue_of_ = &detail::backend_id<Backend>;
  }

  local_array make(dtype type, const shape& sizes, weft::memory category = weft::memory::activations) {
    return local_array(memory, type, sizes, category);
  }

 private:
  const axis_group* find(axis_id axis) const {
    for (const axis_group& g : groups_)
      if (g.axis == axis) return &g;
    return nullptr;
  }
  friend class context_ref;
  std::vector<axis_group> groups_;
  std::shared_ptr<void> queue_;
  const void* queue_of_ = nullptr;  // whose it is: detail::backend_id
  lifetime life_;                   // ends first
};

inline context_ref::context_ref(context* of) : at_(of), life_(of ? watch(of->life_) : watch()) {}

/// Gives `place` another value for the life of the object.
template <class T>
class scoped_value {
 public:
  scoped_value(T& place, T now) : place_(place), before_(std::exchange(place, std::move(now))) {}
  ~scoped_value() { place_ = std::move(before_); }
  scoped_value(const scoped_value&) = delete;
  scoped_value& operator=(const scoped_value&) = delete;

 private:
  T& place_;
  T before_;
};

namespace detail {
[[gnu::cold, gnu::noinline]] inline void require_running_again(const value& v) {
  require(v.ctx->replay || v.data.elements() == 0,
          "a tensor that a checkpointed function computed has no memory after the backward, since nothing needed it a "
          "second time: return it from the function, or read it inside");
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

/// Product of the degrees of the axes that shard dimension D under layout L.
template <class L, class D>
int shards_of(const context& ctx) {
  return []<class... As>(const context& r, tag_list<As...>) { return (1 * ... * r.degree<As>()); }(ctx,
                                                                                                   shard_axes<L, D>{});
}
/// This rank's position among them, the first axis outermost.
template <class L, class D>
int shard_index(const context& ctx) {
  int index = 0;
  [&]<class... As>(tag_list<As...>) {
    ((index = index * ctx.degree<As>() + ctx.index<As>()), ...);
  }(shard_axes<L, D>{});
  return index;
}

/// A rank's run of a dimension: `local` elements from global index `first` on, of which the first `valid` are the
/// tensor's and the rest is padding. Over each axis, the outermost first, every rank has ceil(n / ranks) of what the
/// axes outside of it left, so that all shares are equally long.
struct dimension_run {
  std::int64_t local, first, valid;
};

/// This rank's run of dimension D of `whole` elements under layout L.
template <class L, class D>
dimension_run run_of(const context& ctx, std::int64_t whole) {
  dimension_run run{whole, 0, whole};
  [&]<class... As>(tag_list<As...>) {
    (([&] {
       const std::int64_t n = ctx.degree<As>();
       if (n == 1) return;
       const std::int64_t share = (run.local + n - 1) / n, begin = share * ctx.index<As>();
       run = {share, run.first + begin, std::clamp<std::int64_t>(run.valid - begin, 0, share)};
     }()),
     ...);
  }(shard_axes<L, D>{});
  return run;
}

/// Local sizes of a tensor type from its global ones, padding included. Throws when a static extent is another one.
template <any_tensor X>
shape local_shape(const context& ctx, const shape& global) {
  require(global.ndim == X::dims::ndim, "a tensor of ", X::dims::ndim, " dimensions was given ", global.ndim,
          " extents");
  shape out;
  [&]<class... Es>(dims<Es...>) {
    [[maybe_unused]] int i = 0;
    (([&] {
       constexpr std::int64_t fixed = detail::entry<Es>::size;
       require(fixed == dynamic_extent || fixed == global[i], "dimension ", tag_of<Es>::name, " has ", fixed,
               " elements by its type, not ", global[i]);
       out.push_back(run_of<typename X::layout, tag_of<Es>>(ctx, global[i]).local);
       ++i;
     }()),
     ...);
  }(typename X::dims{});
  return out;
}

}  // namespace weft
