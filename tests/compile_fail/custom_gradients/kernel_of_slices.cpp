// expect: weft: what local_map's f makes of slices or of addends isn't the same on all ranks: let Y be sharded there, or partial where f writes an addend, and all_reduce<axis>(y) it then; of what is replicate it makes no invariant
#include <weft/weft.hpp>
using namespace weft;

using rows = tensor<double, dims<batch, hidden>, shard<batch, dp>>;
const auto column_sums = [](auto y, auto x) {
  for (auto& sum : y) sum = 0;
  for (std::int64_t i = 0; i < x.valid_extent(batch{}) * y.size(); ++i) y[i % y.size()] += x[i];
};
#ifdef WRONG
#if WRONG == 1
using sums = tensor<double, dims<hidden>>;
auto program(const rows& x) { return local_map<sums>("sums", column_sums, x); }
#elif WRONG == 2
using sums = tensor<double, dims<hidden>, replicate<dp>>;
auto program(const rows& x) { return local_map<sums>("sums", column_sums, x); }
#elif WRONG == 3
using copies = tensor<double, dims<batch, hidden>, replicate<tp>>;
using sums = tensor<double, dims<hidden>>;
auto program(const copies& x) { return local_map<sums>("sums", column_sums, x); }
#endif
#else
using sums = tensor<double, dims<hidden>, partial<dp>>;
auto program(const rows& x) { return all_reduce<dp>(local_map<sums>("sums", column_sums, x)); }
#endif
