// Parameters: leaves whose memory a sharding policy owns. A model declares them as tensors and registers them, by unit;
// a unit (a layer, say) is what a policy gathers, frees and reduces at once.
// Invariant: nothing is allocated here; a parameter's value is wherever its slot's `live` points.
#pragma once

#include <algorithm>
#include <list>
#include <span>
#include <string>
#include <vector>

#include <weft/backend/quantised.hpp>
#include <weft/core/lifetime.hpp>
#include <weft/nn/matrix_form.hpp>
#include <weft/nn/unit.hpp>
#include <weft/op/placed.hpp>
#include <weft/tensor/local_run.hpp>

namespace weft {

/// How a parameter is born: normal with this deviation (a function of its name and global index), or a constant.
struct initial {
  double stddev = 0;
  double constant = 0;
};

/// How a frozen parameter's numbers are stored: `row` elements of the whole are a channel, and `dequantise` (queued on
/// the rank's backend) makes numbers of the compute type of them.
struct stored_form {
  weight_format format = weight_format::plain;
  std::int64_t row = 0;
  void (*dequantise)(context&, const quantised_slice&, const local_array& to) = nullptr;
};

/// One parameter, as a parameter store sees it.
struct parameter_record {
  std::string name;     // unique within the model: initial values are a function of it
  shape global, local;  // extents of the whole; of every rank's slice as its type shards it, padding included
  std::span<const dimension_type> dimensions;  // by name, in the tensor's order
  placed_slice at;                             // where this rank's slice lies in the whole
  initial init;
  bool decays = true;            // weight decay; not for vectors (norms, biases)
  bool trained = true;           // false: frozen, see freeze()
  bool adapter = false;          // stands beside a projection's weight
  matrix_form form;              // as matrices, by its type
  stored_form stored;            // plain, but for a projection's weight under nf4 or int8
  std::vector<axis_id> pending;  // axes along which its gradient is left as addends
  std::vector<axis_id> sharded;  // axes along which the ranks hold different parts of it
  bool counted = true;           // in norms; not where this rank's copy is another stage's parameter
  ref<weft::slot> slot;
  ref<weight_place> live;  // where its value is just now, in the compute type

  /// Its value stays as it is: no gradient is computed for it, and a store keeps neither a master weight nor moments.
  /// Before a store is made for the model.
  void freeze() {
    require(!live->source, "parameter ", name,
            " is to be frozen, and its model has a parameter store already, which "
            "keeps its gradient and moments: freeze it before the trainer or store is made");
    trained = false;
    slot->frozen = true;
  }
};

/// Parameters that are gathered, reduced and freed at once, in the order of their registration.
struct parameter_unit {
  std::string name;
  std::list<parameter_record> parameters;  // a list: addresses stay
  int chunk = 0;                           // of the rank's layers: the units of one run in the order of their numbers
};

namespace detail {
/// Throws while an adapter is merged into the weight beside it.
inline void require_unmerged(const parameter_record& p, const char* what) {
  require(!p.live->merged, what, " while parameter ", p.name,
          " is merged into the weight beside it: call unmerge() of the merged_adapters before, or let it end");
}
/// What a registry has to know of a weight's type.
struct parameter_type {
  dtype element;
  std::span<const dimension_type> dimensions;
  axis_set pending, sharded;  // as in parameter_record
  matrix_form form;
};
template <any_tensor W>
constexpr parameter_type parameter_type_of() {
  parameter_type out{dtype_of<typename W::element_type>, dimensions_of<W>, {}, {}, matrix_form_of<W>()};
  [&]<class... As>(tag_list<As...>) {
    ((state_on<dual_layout<layout_of<W>>, As>.kind == holds::partial ? out.pending.add(id_of<As>) : void()), ...);
    ((state_on<layout_of<W>, As>.kind == holds::shard ? out.sharded.add(id_of<As>) : void()), ...);
  }(axes_of<layout_of<W>>{});
  return out;
}
}  // namespace detail

/// A model's parameters by unit. All ranks of a stage register the same ones in the same order.
class parameter_registry {
 public:
  /// Begins a unit; what is added next belongs to it. Returns its number, for in_unit.
  int begin_unit(std::string name) {
    units_.push_back({std::move(name), {}, chunk_});
    return static_cast<int>(units_.size()) - 1;
  }

  /// Makes `w` a parameter of the newest unit. `global` are its global extents. Where the ranks don't divide
  /// one, the last of them hold padding, which is zero and stays so. Throws when the name is taken: a parameter's
  /// initial values are a function of its name. Returns its record,
  /// where a bias of two dimensions says that it doesn't decay.
  template <any_tensor W>
  parameter_record& add(context& ctx, W& w, std::string name, const shape& global, initial init) {
    using T = typename W::element_type;
    if constexpr (!floating<T>) w.requires_grad();  // says it
    static constexpr detail::parameter_type type = detail::parameter_type_of<W>();
    return add(ctx, untyped(w), type, std::move(name), global, init);
  }

  /// Says that the units to come run with those of this chunk: a unit is prefetched while another of its chunk runs.
  void set_chunk(int chunk) { chunk_ = chunk; }
  /// Says that the parameters to come are those of this rank's stage along `axis`, where other stages have others. A
  /// parameter store takes no model that didn't say so on a mesh whose `pp` has more than one rank.
  void held_by_stages(axis_id axis) { stages_ = {axis}; }
  /// Whether held_by_stages() was told of `axis`.
  bool lies_along(axis_id axis) const { return std::find(stages_.begin(), stages_.end(), axis) != stages_.end(); }

  /// Freezes every parameter of which f(record) says so, and returns how many those are (of this stage's, on a
  /// pipeline): registry.freeze([](auto& p) { return p.name.starts_with("layers.0."); }).
  template <class F>
  int freeze(F&& f) {
    constexpr bool asks = std::predicate<F&, const parameter_record&>;
    static_assert(asks,
                  "weft: freeze(f) asks f of every parameter: freeze([](const parameter_record& p) { return "
                  "p.name.starts_with(\"layers.0.\"); })");
    int count = 0;
    for (parameter_unit& u : units_)
      for (parameter_record& p : u.parameters)
        if constexpr (asks)
          if (f(static_cast<const parameter_record&>(p))) p.freeze(), ++count;
    return count;
  }

  /// Whether there is a parameter that isn't frozen.
  bool trains() const {
    for (const parameter_unit& u : units_)
      for (const parameter_record& p : u.parameters)
        if (p.trained) return true;
    return units_.empty();
  }

  std::vector<parameter_unit>& units() { return units_; }
  const std::vector<parameter_unit>& units() const { return units_; }

  /// For whoever keeps the model's address: whether it still lives.
  watch watched() const { return watch(life_); }

 private:
  WEFT_LINKED parameter_record& add(context& ctx, value& w, const detail::parameter_type& type, std::string name,
                                    const shape& global, initial init) {
    require(!units_.empty(), "parameter ", name, " has no unit; call begin_unit(name) before the first add");
    for (const parameter_unit& u : units_)
      for (const parameter_record& other : u.parameters)
        require(other.name != name, "two parameters are named ", name,
                ", which would begin with the same numbers; rename one");
    std::int64_t elements = 1;
    for (int d = 0; d < global.ndim; ++d) {
      require(global[d] >= 1 && global[d] <= (std::int64_t{1} << 58) / elements, "parameter ", name,
              " has an extent of ", global[d], "; each is at least 1, and all together make at most 2^58 elements");
      elements *= global[d];
    }
    parameter_record& r = units_.back().parameters.emplace_back();
    r.name = std::move(name);
    r.global = global;
    r.dimensions = type.dimensions;
    r.local = detail::local_shape(ctx, type.dimensions, global);
    r.init = init;
    r.decays = global.ndim > 1;
    r.sharded = stages_;
    r.at = detail::placed(ctx, type.dimensions, global);
    r.form = type.form;
    r.pending.assign(type.pending.begin(), type.pending.end());
    r.sharded.insert(r.sharded.end(), type.sharded.begin(), type.sharded.end());
    w.ctx = &ctx;
    w.whole = global;
    w.data.shape = r.local;
    w.data.type = type.element;
    r.live = ref<weight_place>(new weight_place);
    r.live->at = w.data;
    r.live->name = r.name;
    r.live->unit = static_cast<int>(units_.size()) - 1;
    if (!w.slot) w.slot = slot::make(nullptr);
    w.slot->shape = r.local;
    w.slot->type = type.element;
    w.slot->category = memory::gradients;
    w.slot->live = r.live;
    w.slot->pinned = w.slot->of_weights = true;
    r.slot = w.slot;
    return r;
  }

  lifetime life_;
  std::vector<parameter_unit> units_;
  std::vector<axis_id> stages_;
  int chunk_ = 0;
};

}  // namespace weft
