// expect: weft: a tensor has at most 8 dimensions: join some of them into one
// Sizes and strides are kept in arrays of 8.
#include <weft/weft.hpp>
using namespace weft;

struct d1 : dim_tag {
  static constexpr std::string_view name = "d1";
};
struct d2 : dim_tag {
  static constexpr std::string_view name = "d2";
};
struct d3 : dim_tag {
  static constexpr std::string_view name = "d3";
};

#ifdef WRONG
using many = tensor<float, dims<batch, seq, hidden, ffn, vocab, heads, d1, d2, d3>>;
#else
using many = tensor<float, dims<batch, seq, hidden, ffn, vocab, heads, d1, d2>>;
#endif
many program() { return {}; }
