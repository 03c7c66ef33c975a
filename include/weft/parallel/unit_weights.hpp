// Weights of a model's units under a sharding policy: what this rank keeps of them, and when they are whole. Invariant:
// weights can be read exactly while their unit is in use: what is gathered next may lie there, or a step's new ones may
// still be on their way.
#pragma once

#include <algorithm>
#include <vector>

#include <weft/parallel/stored_bucket.hpp>
#include <weft/parallel/weight_buffers.hpp>

namespace weft {

class unit_weights final : public weight_source, unit_gatherer {
 public:
  using bucket = detail::stored_bucket;

  /// Allocates everything that lasts. Initial weights are drawn when they are first needed, by each rank its own.
  unit_weights(context& ctx, const detail::store_kernels& kernels, parameter_registry& registry,
               const store_config& config)
      : ctx_(ctx), order_(ctx.order()), prefetch_(config.prefetch), units_(registry.units().size()), gathered_(*this) {
    allocate(ctx, kernels, registry, config);
    each_region([&](std::size_t, std::size_t, bucket&, const flat_region& r) {
      r.live->source = this;
      ++r.live->version;
    });
  }
  ~unit_weights() {
    each_region([&](std::size_t, std::size_t, bucket&, const flat_region& r) {
      if (r.live->source == this) r.live->source = nullptr, r.live->at.data = nullptr;
    });
  }
  unit_weights(const unit_weights&) = delete;
  unit_weights& operator=(const unit_weights&) = delete;

  std::size_t size() const { return units_.size(); }
  std::string_view name(std::size_t unit) const { return units_[unit].name; }
  /// f(unit, the bucket's number within it, bucket).
  template <class F>
  void each_bucket(F&& f) {
    for (std::size_t i = 0; i < units_.size(); ++i)
      for (std::size_t b = 0; b < units_[i].buckets.size(); ++b) f(i, b, units_[i].buckets[b]);
  }
  /// The same, and a region of the bucket.
  template <class F>
  void each_region(F&& f) {
    each_bucket([&](std::size_t i, std::size_t b, bucket& s) {
      for (const flat_region& r : s.flat.regions) f(i, b, s, r);
    });
  }

  /// From here to release() the unit's weights can be read; uses lie within one another.
  WEFT_LINKED void acquire(int unit) {
    unit_state& u = at(unit);
    if (u.users == 0) {
      require_given(u);
      for (bucket& s : u.buckets) s.draw(rank_);
    }
    if (u.users++ > 0) return;
    for (bucket& s : u.buckets)
      if (!s.key().shards_parameters) s.gathering.wait(order_);
    u.whole = u.gathered > 0 ? &gathered_.acquire(unit) : nullptr;
    const local_array* numbers = u.decoded > 0 ? &decoded_.acquire(unit) : nullptr;
    for (bucket& s : u.buckets)
      for (const flat_region& r : s.flat.regions) r.live->at.data = s.whole(u.whole, numbers, r.begin);
  }
  WEFT_LINKED void release(int unit) {
    unit_state& u = at(unit);
    if (--u.users > 0) return;
    if (u.gathered > 0) gathered_.release(unit);
    if (u.decoded > 0) decoded_.release(unit);
    for (bucket& s : u.buckets)
      for (const flat_region& r : s.flat.regions) r.live->at.data = nullptr;
  }
  /// Starts to gather a unit that is used soon, if there is one of this number in the chunk of the unit that runs: of
  /// another chunk it may not be the next.
  WEFT_LINKED void prefetch(int unit, int running) {
    if (prefetch_ > 0 && unit >= 0 && unit < static_cast<int>(units_.size()) && at(unit).gathered > 0 &&
        at(unit).chunk == at(running).chunk)
      gathered_.prefetch(unit);
  }
  /// For entries that read weights when these get their gradients.
  void gather_again(int unit) override {
    if (!std::exchange(at(unit).gathered_again, true)) acquire(unit);
  }
  void release_gathered_again(int unit) {
    if (std::exchange(at(unit).gathered_again, false)) release(unit);
  }
  /// Releases what an error has left in use. Throws where nobody but the registry and this has a parameter's slot, and
  /// where weights that are stored in few bits have no numbers yet.
  WEFT_LINKED void begin_step() {
    for (const unit_state& u : units_) require_given(u);
    require_unmerged("a step");
    draw();
    each_region([](std::size_t, std::size_t, bucket&, const flat_region& r) {
      require(r.slot->references > 2, "parameter ", r.parameter->name,
              " has no tensor any more: the one that was registered was assigned to, or has ended; its numbers are set "
              "by store.load_parameters(f)");
    });
    for (int u = 0; u < static_cast<int>(units_.size()); ++u)
      while (at(u).users > 0) release(u);
  }
  /// Initial weights of all that wasn't loaded.
  void draw() {
    each_bucket([&](std::size_t, std::size_t, bucket& s) { s.draw(rank_); });
  }
  /// Throws while adapters are merged into weights.
  WEFT_LINKED void require_unmerged(const char* what) {
    each_region(
        [&](std::size_t, std::size_t, bucket&, const flat_region& r) { detail::require_unmerged(*r.parameter, what); });
  }
  /// Forgets what is gathered: the shares are about to change.
  void invalidate() { gathered_.invalidate(), decoded_.invalidate(); }

 private:
  struct unit_state {
    std::string_view name;
    std::vector<bucket> buckets;
    std::int64_t gathered = 0;           // bytes of its buckets whose parameters are sharded
    std::int64_t decoded = 0;            // elements of those that are stored in few bits
    const local_array* whole = nullptr;  // where it is gathered, while it is in use
    int chunk = 0;                       // of the rank's layers
    int users = 0;                       // forwards and backwards that it is in
    bool gathered_again = false;
  };

  WEFT_LINKED void allocate(context& ctx, const detail::store_kernels& kernels, parameter_registry& registry,
                            const store_config& config) {
    std::int64_t largest = 0, most_decoded = 0;
    int sharded = 0;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      unit_state& u = units_[i];
      u.name = registry.units()[i].name;
      u.chunk = registry.units()[i].chunk;
      std::vector<flat_bucket> flat = detail::buckets_of(ctx, registry.units()[i], config);
      u.buckets.resize(flat.size());
      for (std::size_t b = 0; b < flat.size(); ++b) {
        bucket& s = u.buckets[b];
        s.kernels = &kernels, s.flat = std::move(flat[b]);
        s.allocate(ctx, s.key().matrices ? config.matrix_moments : config.moments);
        if (s.key().shards_parameters) s.offset = std::exchange(u.gathered, u.gathered + round_up(s.whole_bytes()));
        if (s.quantised) s.decoded = std::exchange(u.decoded, u.decoded + s.flat.size);
      }
      sharded += u.gathered > 0;
      largest = std::max(largest, u.gathered);
      most_decoded = std::max(most_decoded, u.decoded);
    }
    if (sharded > 0) gathered_.allocate(ctx, std::min(prefetch_, sharded - 1) + 1, largest, dtype::u8);
    if (most_decoded > 0) decoded_.allocate(ctx, 1, most_decoded, kernels.compute, true);
  }
  /// To where numbers of 8 bytes may lie.
  static std::int64_t round_up(std::int64_t bytes) { return (bytes + 31) / 32 * 32; }
  unit_state& at(int unit) { return units_[static_cast<std::size_t>(unit)]; }
  void start_gathering(int unit, const local_array& whole) override {
    for (bucket& s : at(unit).buckets) {
      if (!s.key().shards_parameters) continue;
      s.draw(rank_);
      s.gather_into(whole, at(unit).name);
    }
  }
  void wait_gathering(int unit) override {
    for (bucket& s : at(unit).buckets)
      if (s.key().shards_parameters) s.gathering.wait(order_);
  }

  /// Fills a buffer with a unit's weights that are stored in few bits, as numbers.
  struct decoder final : unit_gatherer {
    explicit decoder(unit_weights& owner) : weights(owner) {}
    void start_gathering(int unit, const local_array& numbers) override { weights.decode(unit, numbers); }
    void wait_gathering(int) override {}
    unit_weights& weights;
  };
  static void require_given(const unit_state& u) {
    for (const bucket& s : u.buckets)
      if (s.quantised && s.kernels->computes) s.quantised.require_given(s.flat);
  }
  WEFT_LINKED void decode(int unit, const local_array& numbers) {
    const unit_state& u = at(unit);
    for (const bucket& s : u.buckets) {
      if (!s.quantised) continue;
      s.quantised.dequantise(ctx_, s.flat, s.bytes(u.whole), detail::seen(numbers, s.decoded, {1, {s.flat.size}}));
    }
  }

  context& ctx_;
  context_ref rank_{&ctx_};
  queue_ref order_;  // of the rank's kernels
  int prefetch_;
  std::vector<unit_state> units_;
  weight_buffers gathered_;
  decoder decode_{*this};
  weight_buffers decoded_{decode_};
};

}  // namespace weft
