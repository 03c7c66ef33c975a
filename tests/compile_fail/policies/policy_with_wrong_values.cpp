// expect: weft:
// expect 1: weft: a sharding policy's prefetch is how many units are gathered ahead, at least 0
// expect 2: weft: a sharding policy stores along axes that split its batch
// expect 3: weft: a policy that shards gradients also shards the optimizer's state
// expect 4: weft: a precision's initial_loss_scale is a number from 2^-24 to 2^24; leave it out where nothing is scaled
// expect 5: weft: this projections policy fuses keys and values with queries, which lie by whole heads, and shares them
// expect 6: weft: a schedule policy's chunks is into how many chunks a rank's layers are cut, at least 1
// expect 7: weft: this schedule policy's chunks is not a whole number of an int's range: write static constexpr int chunks = ...;
// expect 8: weft: this sharding policy's prefetch is not a whole number of an int's range
// expect 9: weft: int8<form>, nf4<form>, float8<form>, fused_qkv<form> and shared_kv<form> take a projections policy
// What makes no sense is said where the strategy is written, not where its first model is.
#include <weft/policy/strategy.hpp>
using namespace weft;

#ifdef WRONG
#if WRONG == 1
struct mine : zero3 {
  static constexpr int prefetch = -2;
};
#elif WRONG == 2
struct mine : hybrid {
  using batch_axes = tag_list<dp>;
};
#elif WRONG == 3
struct mine : zero2 {
  static constexpr bool shards_optimizer = false;
};
#elif WRONG == 4
struct mine : fp16_mixed {
  static constexpr double initial_loss_scale = -3;
};
#elif WRONG == 5
using mine = shared_kv<fused_qkv<> >;
#elif WRONG == 6
struct mine : one_f_one_b {
  static constexpr int chunks = 0;
};
#elif WRONG == 7
struct mine : one_f_one_b {
  static constexpr double chunks = 1.5;
};
#elif WRONG == 8
struct mine : zero3 {
  static constexpr long long prefetch = 1LL << 32;
};
#elif WRONG == 9
using mine = float8<bf16_mixed>;
#endif
#else
struct mine : zero3 {
  static constexpr int prefetch = 2;
};
#endif
using s = strategy<mesh<dp>, mine>;
s::mesh program() { return {}; }
