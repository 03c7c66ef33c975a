// The keys and values of sequences that grow, so that a model reads each token once. Invariant: every layer has the
// same positions of a sequence, and a pass adds the same number to each.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include <weft/tensor/context.hpp>

namespace weft {

/// What attention keeps of this rank's sequences and heads, layer by layer in the order in which a pass calls it. Not
/// copied: a pass points to it.
class kv_cache {
 public:
  /// Of this rank's `sequences`, none of which is to have more than `positions`. A layer's memory, 2 * sequences *
  /// positions * kv_heads * head_dim elements of k's type, is taken in its first pass.
  kv_cache(context& ctx, std::int64_t sequences, std::int64_t positions)
      : ctx_(&ctx), positions_(positions), lengths_(rows(sequences)), added_(rows(sequences)) {
    require(positions >= 1, "a kv_cache has room for at least 1 position, not ", positions);
  }
  kv_cache(const kv_cache&) = delete;
  kv_cache& operator=(const kv_cache&) = delete;

  std::int64_t sequences() const { return std::ssize(lengths_); }
  std::int64_t capacity() const { return positions_; }
  /// Positions kept of sequence i of this rank's.
  std::int64_t length(std::int64_t i) const { return lengths_[at(i)]; }
  /// Forgets what sequence i has from position n on; 0 makes room for another sequence.
  void truncate(std::int64_t i, std::int64_t n) {
    require(n >= 0 && n <= length(i), "a sequence of ", length(i), " positions isn't cut to ", n);
    lengths_[at(i)] = n;
  }

  /// Makes room for so many positions of each sequence; what is kept stays. Less than there is room for changes
  /// nothing.
  template <class Backend>
  void reserve(std::int64_t positions) {
    if (positions <= positions_) return;
    context& ctx = *ctx_.get("a kv_cache");
    std::vector<layer> all = layers_;  // these stay where there is no memory for larger ones
    for (layer& l : all)
      for (local_array* a : {&l.keys, &l.values}) {
        const shape sizes{4, {sequences(), positions, a->shape[2], a->shape[3]}};
        const local_array larger = ctx.make(a->type, sizes, memory::buffers);
        const auto before = static_cast<std::int64_t>(a->bytes()) / sequences(), row = before / positions_;
        for (std::int64_t i = 0; i < sequences(); ++i)
          if (length(i) > 0)
            Backend::copy_bytes(ctx.queue<Backend>(), static_cast<const std::byte*>(a->data) + i * before,
                                static_cast<std::byte*>(larger.data) + i * row * positions,
                                static_cast<std::size_t>(length(i) * row));
        *a = larger;
      }
    layers_ = std::move(all);
    positions_ = positions;
  }

  /// Whether these are whose keys are kept, as said last.
  bool belongs_to(std::uint64_t model, std::uint64_t version) const { return model == model_ && version == version_; }
  /// Says whose keys are kept: those of the model of this number, with weights of this version. Throws where they are
  /// another's, or older.
  void belong_to(std::uint64_t model, std::uint64_t version) {
    const bool empty = std::all_of(lengths_.begin(), lengths_.end(), [](std::int64_t n) { return n == 0; });
    require(empty || model == model_, "a kv_cache has another model's keys: make one for each model");
    require(empty || version == version_,
            "the model's weights have changed since a kv_cache took its keys: truncate(i, 0) its sequences, and read "
            "them again");
    model_ = model, version_ = version;
  }
  /// Begins a pass over tokens [sequences, n], of whose row i the first added[i] are sequence i's next ones. The rest
  /// of a row is padding, and so are outputs there. Throws where a sequence would have more than there is room for.
  void begin_pass(std::span<const std::int64_t> added) {
    ctx_.get("a kv_cache");
    require(std::ssize(added) == sequences(), "a kv_cache of ", sequences(), " sequences is told what ", added.size(),
            " are given");
    for (std::int64_t i = 0; i < sequences(); ++i) {
      const std::int64_t n = added[static_cast<std::size_t>(i)];
      require(n >= 0, "sequence ", i, " is given ", n, " tokens");
      require(length(i) + n <= positions_, "sequence ", i, " has ", length(i), " positions in a kv_cache for ",
              positions_, " and is given ", n, " more: make it for more, or truncate(", i, ", n) it");
    }
    std::copy(added.begin(), added.end(), added_.begin());
    next_ = 0;
  }
  /// What the pass added stays. Throws where it had fewer layers than the one before.
  void end_pass() {
    require(next_ == layers_.size(), "a pass over a kv_cache had ", next_, " layers with attention, and one before ",
            layers_.size());
    for (std::size_t i = 0; i < lengths_.size(); ++i) lengths_[i] += std::exchange(added_[i], 0);
    complete_ = true;
  }

  // For operators, within a pass.

  /// Layers that have taken their turn.
  std::size_t layers() const { return next_; }
  /// Tokens that are added to sequence i.
  std::int64_t added(std::int64_t i) const { return added_[at(i)]; }
  /// Positions of the longest sequence, those that are added included.
  std::int64_t longest() const {
    std::int64_t most = 0;
    for (std::size_t i = 0; i < lengths_.size(); ++i) most = std::max(most, lengths_[i] + added_[i]);
    return most;
  }
  struct layer {
    local_array keys, values;  // [sequences, positions, kv_heads, head_dim]
  };
  layer& next_layer(dtype type, std::int64_t kv_heads, std::int64_t head_dim) {
    if (next_ == layers_.size()) {
      require(!complete_, "a pass over a kv_cache has more layers with attention than one before, ", layers_.size());
      const shape sizes{4, {sequences(), positions_, kv_heads, head_dim}};
      context& ctx = *ctx_.get("a kv_cache");
      layers_.push_back({ctx.make(type, sizes, memory::buffers), ctx.make(type, sizes, memory::buffers)});
    }
    layer& l = layers_[next_++];
    require(l.keys.type == type && l.keys.shape[2] == kv_heads && l.keys.shape[3] == head_dim,
            "a layer's keys in a kv_cache are of ", name_of(l.keys.type), " for ", l.keys.shape[2], " heads of ",
            l.keys.shape[3], ", and it is given ", name_of(type), " for ", kv_heads, " heads of ", head_dim,
            ": a cache is one model's");
    return l;
  }

 private:
  static std::size_t rows(std::int64_t n) {
    require(n >= 1, "a kv_cache is of at least 1 sequence, not ", n);
    return static_cast<std::size_t>(n);
  }
  std::size_t at(std::int64_t i) const {
    require(i >= 0 && i < sequences(), "sequence ", i, " of a kv_cache of ", sequences());
    return static_cast<std::size_t>(i);
  }

  context_ref ctx_;
  std::int64_t positions_;
  std::vector<std::int64_t> lengths_, added_;  // by sequence
  std::vector<layer> layers_;
  std::uint64_t model_ = 0, version_ = 0;
  std::size_t next_ = 0;   // the layer whose turn it is
  bool complete_ = false;  // whether layers_ are all that a pass has
};

namespace detail {
/// Throws where an operator with a cache would be recorded, has another batch, or fewer tokens than are added.
WEFT_LINKED void require_of_cache(const char* what, const context& ctx, const kv_cache& cache, std::int64_t batch,
                                  std::int64_t tokens) {
  require(!ctx.tape && !ctx.replay, what,
          ": with a kv_cache nothing is recorded, and no gradient comes of it: no_grad before it, and outside of "
          "checkpointed functions");
  require(batch == cache.sequences(), what, ": the kv_cache is of ", cache.sequences(),
          " sequences of this rank's, and the tensor has ", batch);
  for (std::int64_t i = 0; i < batch; ++i)
    require(cache.added(i) <= tokens, what, ": ", cache.added(i), " tokens are added to sequence ", i,
            " of a kv_cache, and the tensor has ", tokens);
}
}  // namespace detail

}  // namespace weft
