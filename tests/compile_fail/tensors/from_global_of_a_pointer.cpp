// expect: weft: from_global<X>(ctx, {...}, numbers) takes a vector, array or span of X's element type, which says how many there are: std::span(pointer, count)
// A pointer says nothing of how many numbers there are, and numbers of another type would be rounded unseen.
#include <weft/weft.hpp>
using namespace weft;

using row = tensor<float, dims<hidden>>;

auto program(context& ctx, const float* numbers, const std::vector<double>& wide) {
#ifdef WRONG
#if WRONG == 1
  return from_global<row>(ctx, {4}, numbers);
#elif WRONG == 2
  return from_global<row>(ctx, {4}, wide);
#endif
#else
  return from_global<row>(ctx, {4}, std::span(numbers, 4)) +
         from_global<row>(ctx, {2}, std::vector<float>(wide.begin(), wide.end()));
#endif
}
