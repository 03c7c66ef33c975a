// What a rank holds at most in a step of a small Llama under zero1 in bf16_mixed with AdamW, by category: as arithmetic
// from the model's sizes, to hold the ledger to. Invariant: nothing here asks the library how much memory anything
// takes.
#pragma once

#include <array>

#include <weft/nn/llama.hpp>

namespace weft_test {

/// Sizes that leave gaps: in blocks of memory, between parameters, and behind the last of a unit.
constexpr weft::llama_config odd_sizes{
    .layers = 2, .hidden = 40, .heads = 2, .kv_heads = 1, .ffn = 56, .vocab = 300, .max_seq = 23};

/// Bytes on each of `ranks` along dp, with so many sequences of a micro-batch on each; in the order of weft::memory.
inline std::array<std::size_t, weft::memory_categories> step_by_hand(std::size_t ranks, std::size_t sequences) {
  constexpr auto n = [](std::int64_t size) { return static_cast<std::size_t>(size); };
  constexpr std::size_t layers = n(odd_sizes.layers), width = n(odd_sizes.hidden), heads = n(odd_sizes.heads),
                        inner = n(odd_sizes.ffn), words = n(odd_sizes.vocab), length = n(odd_sizes.max_seq),
                        head = width / heads, keys = n(odd_sizes.kv_heads) * head;
  constexpr std::size_t bf16 = 2, fp32 = 4, fp64 = 8, id = 4;  // bytes of a number
  const auto rounded = [](std::size_t x, std::size_t to) { return (x + to - 1) / to * to; };
  const auto block = [&](std::size_t bytes) { return rounded(bytes, 64); };  // of memory

  // Parameters. A unit is a flat buffer: each of its parameters begins at a multiple of 16 elements, and each rank's
  // share has as many elements as the next.
  const auto flat = [&](std::initializer_list<std::size_t> parameters) {
    std::size_t all = 0;
    for (const std::size_t p : parameters) all += rounded(p, 16);
    return rounded(all, 16 * ranks);
  };
  const std::size_t embedding = flat({words * width}),
                    layer =
                        flat({width, width * width, width * keys, width * keys, width * width,  // norm, q, k, v, out
                              width, width * inner, width * inner, inner * width}),             // norm, gate, up, down
      last = flat({width, words * width});                                                      // norm, head
  // each(bytes of a unit with so many elements): of all units.
  const auto each = [&](auto&& bytes) {
    std::size_t all = bytes(embedding) + bytes(last);
    for (std::size_t l = 0; l < layers; ++l) all += bytes(layer);
    return all;
  };
  // The weights that operators read, and main gradients, are whole on every rank; of master weights and the two moments
  // a rank has its share.
  const std::size_t parameters = each([&](std::size_t u) { return block(bf16 * u); }),
                    gradients = each([&](std::size_t u) { return block(fp32 * u); }),
                    optimizer = each([&](std::size_t u) { return 3 * block(fp32 * u / ranks); });

  // Activations are most when the head's backward has written the gradient of what it read: no layer has let go of
  // anything yet. The gradient of the logits lies where the logits were.
  const std::size_t tokens = sequences * length;
  const auto wide = [&](std::size_t features) { return block(bf16 * tokens * features); };
  const std::size_t norm = wide(width) + block(fp32 * tokens),        // what it made, and its rows' scale
      attention = wide(width) + 2 * wide(keys)                        // queries, keys and values, turned
                  + wide(width) + block(fp32 * 2 * tokens * heads),   // its output, two numbers a query and head
      mlp = 3 * wide(inner),                                          // gate, up, and what down reads
      of_layer = wide(width) + norm + attention + wide(width) + norm  // the stream, and the stream between the blocks
                 + mlp,
                    activations = layers * of_layer + wide(width) + norm  // the stream behind the last layer
                                  + wide(words) + wide(width);            // logits or their gradient; the head input's

  // Buffers: two tables of angles, a pair of features each; the loss and its count; the numbers of two steps, the last
  // and the one under way; of the gradient's norm, squares by the set of the two mesh axes that a parameter is cut
  // over, their sums over ranks, and the total.
  const std::size_t buffers =
      2 * block(fp32 * length * head / 2) + block(fp64 * 2) + block(fp64 * 2 * 4) + block(fp64 * (2 * 4 + 1));
  // Data: a micro-batch's tokens and targets.
  const std::size_t data = 2 * block(id * tokens);
  return {parameters, gradients, optimizer, activations, buffers, data};
}

}  // namespace weft_test
