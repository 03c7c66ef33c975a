// expect: weft:
// expect 1: chunked_loss<n> computes the loss in at least 1 piece of the sequence: chunked_loss<8>; for all at once leave it out
// expect 2: a loss policy's loss_chunks is how many pieces of the sequence the loss is computed in, at least 1, or 0 for the whole at once
// expect 3: this loss policy's loss_chunks is not a static constant: write static constexpr int loss_chunks = 8;
// expect 4: this loss policy has no member name: add static constexpr std::string_view name
// expect 5: this loss policy's loss_chunks is not an int: write static constexpr int loss_chunks = 8;
// expect 6: a strategy names two loss policies; keep one
// A number of chunks that is none.
#include <weft/weft.hpp>
using namespace weft;

struct mine : whole_loss {
#ifndef WRONG
  static constexpr int loss_chunks = 4;
#elif WRONG == 2
  static constexpr int loss_chunks = -4;
#elif WRONG == 3
  static inline int loss_chunks = 4;
#endif
};
#ifdef WRONG
#if WRONG == 1
using s = strategy<mesh<dp>, chunked_loss<0>>;
#elif WRONG == 4
struct nameless {
  static constexpr int loss_chunks = 4;
};
using s = strategy<mesh<dp>, nameless>;
#elif WRONG == 5
struct by_words {
  static constexpr std::string_view name = "by words", loss_chunks = "four";
};
using s = strategy<mesh<dp>, by_words>;
#elif WRONG == 6
using s = strategy<mesh<dp>, mine, chunked_loss<4>>;
#else
using s = strategy<mesh<dp>, mine>;
#endif
#else
using s = strategy<mesh<dp>, mine>;
#endif
s::precision program() { return {}; }
