// What every decoder has: its units in order (the embedding, the layers, the head), and who owns the weights' memory.
// Invariant: a unit's weights are at hand exactly while it runs; tied embeddings are used in the first unit and, within the last,
// in the first once more.
#pragma once

#include <weft/autograd/checkpoint.hpp>
#include <weft/nn/parameters.hpp>
#include <weft/nn/weight.hpp>
#include <weft/op/require_ids.hpp>

namespace weft {

template <class S>
class decoder {
 public:
  using strategy = S;
  using compute = typename S::precision::compute;
  using ids = token_ids<S>;

  decoder(const decoder&) = delete;
  decoder& operator=(const decoder&) = delete;

  context& rank() const { return *rank_; }
  parameter_registry& registry() { return registry_; }
  void use(unit_hooks& hooks) { hooks_ = &hooks; }
  /// Says that the parameter store is gone, and with it the weights.
  void release() { hooks_ = nullptr; }

 protected:
  explicit decoder(context& rank) : rank_(&rank) {}

  /// head(block(... block(embed(tokens)))): `block(layer)` is the function of one layer, copied where it runs again for its
  /// backward; `head(table)` the function of the last unit, with `embedding` as its table where the config ties them, else `own`.
  template <class Config, class Layers, class Embed, class Block, class Head, class Table>
  auto run_units(const ids& tokens, const Config& config, const Layers& layers, Embed&& embed, Block&& block, Head&& head,
                 const Table& embedding, const Table& own) {
    require(hooks_ != nullptr, "the model has no parameter store: make a trainer or a parameter_store for it, and keep that as long as the model is used");
    const std::int64_t n = tokens.template local_extent<seq>();
    require(n <= config.max_seq, "a sequence of ", n, " tokens is longer than max_seq = ", config.max_seq);
    require_ids(tokens, 0, config.vocab, "the token");
    if constexpr (S::sequence_parallel) rank_->extents.replace(seq::name, n);
    auto x = in_unit(*rank_, *hooks_, 0, embed, tokens);
    int unit = 1;
    for (const auto& layer : layers) {
      const auto run = block(layer);
      x = in_unit(*rank_, *hooks_, unit++, [&](const auto& h) {
        if constexpr (S::checkpointing::recomputes) return checkpoint<typename S::checkpointing>(run, h);
        else return run(h);
      }, x);
    }
    return in_unit(*rank_, *hooks_, unit, [&](const auto& h) {
      if (!config.tied_embeddings) return head(own)(h);
      return in_unit(*rank_, *hooks_, 0, head(embedding), h);
    }, x);
  }

  parameter_registry registry_;

 private:
  context* rank_;
  unit_hooks* hooks_ = nullptr;
};

namespace detail {

inline void check_at_least_one(std::int64_t n, const char* what) { require(n >= 1, what, " is ", n, "; it has to be at least 1"); }
inline void check_divides(std::int64_t n, const char* what, int tensor_parallel) {
  require(n % tensor_parallel == 0, n, " ", what, " don't divide among tp = ", tensor_parallel, " ranks; choose tp or ", what, " so that they do");
}

}  // namespace detail
}  // namespace weft
