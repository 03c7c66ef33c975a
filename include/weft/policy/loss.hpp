// The loss policy: whether the head and the loss see all of a sequence at once, or one piece of it after the other, so
// that the logits are never all in memory. Invariant: a policy changes memory and time, never a number but by rounding.
#pragma once

#include <weft/core/requirements.hpp>

#include <concepts>
#include <string_view>

namespace weft {

/// loss_chunks: pieces of the sequence that head and loss run on one after the other, each computed again when its
/// gradient is due; 0: the whole at once, and nothing is computed again.
template <class P>
concept loss_policy = requires {
  {int(P::loss_chunks)};
  {std::string_view(P::name)};
};

/// All logits at once, kept until their backward.
struct whole_loss {
  static constexpr std::string_view name = "whole";
  static constexpr int loss_chunks = 0;
};

/// In so many pieces, whose lengths differ by one token at most; of a shorter sequence each token is one. Holds a
/// piece's logits at a time. Cost: the head's product once more in the backward, and what the loss moves (two
/// all-reduces of a number or two a token where the vocabulary is sharded) twice.
template <int Chunks>
struct chunked_loss {
  static_assert(Chunks >= 1,
                "weft: chunked_loss<n> computes the loss in at least 1 piece of the sequence: chunked_loss<8>; for all "
                "at once leave it out");
  static constexpr std::string_view name = "chunked";
  static constexpr int loss_chunks = Chunks;
};

}  // namespace weft
