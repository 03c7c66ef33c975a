// expect: weft: attention(q, k, v) doesn't find its dimensions in q, [batch, seq, heads, head_dim]: name q's own, attention<seq, heads, head_dim>(q, k, v), or rename<from, to>(q)
// shows: no_dimension<
#include <weft/weft.hpp>
using namespace weft;

struct patch : dim_tag {
  static constexpr std::string_view name = "patch";
};
using image = tensor<float, dims<batch, patch, heads, head_dim>>;

auto program(const image& x) {
#ifdef WRONG
  return attention(x, x, x);
#else
  return attention<patch>(x, x, x) +
         rename<seq, patch>(attention(rename<patch, seq>(x), rename<patch, seq>(x), rename<patch, seq>(x)));
#endif
}
