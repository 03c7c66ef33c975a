// expect: weft: embedding(ids, table) can't look up pending sums: all_reduce<axis> the ids first
// A row of a sum of indices is not the sum of their rows.
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<std::int32_t, dims<batch>, partial<tp>>& ids,
             const tensor<float, dims<vocab, hidden>>& table) {
#ifdef WRONG
  return embedding(ids, table);
#else
  return embedding(all_reduce<tp>(ids), table);
#endif
}
