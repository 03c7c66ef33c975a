// The matrix's axes: each value of each is one line here. A cell is a model, a strategy and a mesh; which of them a run
// has to refuse is said here too, apart from the library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <weft/weft.hpp>

#include "compared_threads.hpp"

namespace matrix {

using namespace weft;  // NOLINT: test code, read beside the library

/// fp16_mixed, under a loss scale so high that the first step overflows on any mesh: a logit's gradient is its
/// probability less one at the target, times 131072, and fp16 ends at 65504. So the scale has to come down, on all
/// ranks alike.
struct fp16_from_above : fp16_mixed {
  static constexpr double initial_loss_scale = 0x1p17;
};

// run.sh reads the next two lines, and compiles a program for each pair:
// models: llama gpt2
using precisions = tag_list<fp64, fp32, bf16_mixed, fp16_from_above>;
using shardings = tag_list<replicated, zero1, zero2, zero3, hybrid>;
// By the usual limit products of so narrow a model aren't worth keeping, and selective would be full.
using selective = checkpoint_selective_by<selective_limits{.flops_per_byte = 10}>;
// In this order, which `too_many_activations` reads.
using checkpointings = tag_list<checkpoint_none, selective, checkpoint_full>;
struct whole_between {};  // activations between the blocks are whole on tp; the other choice shards their sequence
using betweens = tag_list<whole_between, sequence_parallel>;

template <class Sharding>
struct mesh_of {
  using type = mesh<pp, dp, tp>;
};
template <>
struct mesh_of<hybrid> {
  using type = mesh<pp, dp, fsdp, tp>;
};

template <class Precision, class Sharding, class Checkpointing, class Between>
struct strategy_of {
  using type =
      strategy<typename mesh_of<Sharding>::type, Precision, Sharding, Checkpointing, Between, compared_threads>;
};
template <class Precision, class Sharding, class Checkpointing>
struct strategy_of<Precision, Sharding, Checkpointing, whole_between> {
  using type = strategy<typename mesh_of<Sharding>::type, Precision, Sharding, Checkpointing, compared_threads>;
};

// Models: 24 heads and 48 features, so that tp may be 2, 3, 4, 6 and 8; five layers, so that stages differ in how many
// they have; 49 words and 23 tokens, so that the last rank's share is padded wherever tp is above 1.
constexpr std::int64_t length = 23, layers = 5, words = 49;
template <class S>
llama_config config_for(const llama<S>*) {
  return {.layers = layers, .hidden = 48, .heads = 24, .ffn = 48, .vocab = words, .max_seq = length};
}
template <class S>
gpt2_config config_for(const gpt2<S>*) {
  return {.layers = layers, .hidden = 48, .heads = 24, .ffn = 48, .vocab = words, .max_seq = length, .dropout = 0.1};
}

/// All meshes of up to 8 ranks.
template <class S>
std::vector<degrees> meshes() {
  std::vector<degrees> out;
  constexpr bool nested = S::mesh::template has<fsdp>;
  for (int p = 1; p <= 8; ++p)
    for (int d = 1; p * d <= 8; ++d)
      for (int f = 1; p * d * f <= (nested ? 8 : p * d); ++f)
        for (int t = 1; p * d * f * t <= 8; ++t) {
          const degrees m{.dp = d, .tp = t, .pp = p};
          out.push_back(nested ? m.with<fsdp>(f) : m);
        }
  return out;
}

/// Sequences in a micro-batch: three or four, or as many as the ranks that share them out.
inline std::int64_t rows_for(const degrees& m) {
  const int ranks = m.dp * m.of<fsdp>();
  return ranks > 4 ? ranks : 4 / ranks * ranks;
}
constexpr int micro_batches = 3;

/// Whether the ranks of a mesh can split heads and features, and each stage gets a layer.
inline bool legal(const degrees& m) { return 24 % m.tp == 0 && m.pp <= layers; }

inline std::string name_of(const degrees& m) {
  std::string out;
  const auto axis = [&]<class A>(A) {
    if (m.of<A>() > 1) out += (out.empty() ? "" : " ") + std::string(A::name) + std::to_string(m.of<A>());
  };
  axis(pp{}), axis(dp{}), axis(fsdp{}), axis(tp{});
  return out.empty() ? "one rank" : out;
}

/// What may differ from one rank in the same precision. loss: relative, of each step's loss and gradient norm. first,
/// last: of every gradient of the first and the last step, relative to the largest element of its parameter.
struct tolerance {
  double loss, first, last;
};
template <class Precision>
inline constexpr tolerance tolerance_of = {0, 0, 0};
// Half a unit in the last place is 1.1e-16; a sum of a thousand terms is off by the root of that many, 4e-15. AdamW
// divides by the root of a small second moment, so what a gradient is off by moves weights by more, and later gradients
// with them: a hundred times. An error of placement (a gradient counted twice or missed) is of order 1, or of 1e-2
// where only an optimizer's moment is wrong.
template <>
inline constexpr tolerance tolerance_of<fp64> = {1e-13, 1e-13, 1e-11};
// The same from 6e-8, where sums of a thousand terms are already made of partial sums.
template <>
inline constexpr tolerance tolerance_of<fp32> = {1e-6, 1e-5, 1e-3};
// A rank's partial sums are rounded to 16 bits before they are added to the others'; one rank rounds once. Each
// rounding is of 2^-9, a gradient meets some twenty, with either sign: 1 %, and up to four times that in the worst of
// some thousand elements. The loss is a mean over 190 tokens. A weight whose gradient is smaller than its own rounding
// takes its first steps with unsure sign, each a twentieth of a typical weight (lr 1e-3, deviation 0.02): later
// gradients are off by a few times that where such weights gather.
template <>
inline constexpr tolerance tolerance_of<bf16_mixed> = {1e-3, 5e-2, 1.5e-1};
// The same from 2^-12; steps of unsure sign are as long as in bf16, but rarer.
template <>
inline constexpr tolerance tolerance_of<fp16_from_above> = {3e-4, 1e-2, 1e-1};

}  // namespace matrix
