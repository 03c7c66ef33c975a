// expect: weft: this
// shows: in_policy<mine>
// expect 1: precision policy has no member reduce: add using reduce = float;
// expect 2: sharding policy has no member shards_optimizer: add static constexpr bool shards_optimizer = false;
// expect 3: checkpointing policy has no member keeps: add static constexpr bool keeps(const op_cost&)
// expect 4: schedule policy has no member name: add static constexpr std::string_view name
// expect 5: backend has no member queue: add using queue
// expect 6: schedule policy's order is not a static template of (stage, stages, micro_batches, emit), for any emit: write template <class Emit> static constexpr void order(int stage,
// expect 7: schedule policy's order is not a static template of (stage, stages, micro_batches, emit), for any emit: write template <class Emit> static constexpr void order(int stage,
// expect 8: schedule policy's order is not a static template of (stage, stages, micro_batches, emit), for any emit: write template <class Emit> static constexpr void order(int stage,
// expect 9: projections policy has no member fuses_qkv: add static constexpr bool fuses_qkv = false;
// expect 10: projections policy's adapts is not a bool: write static constexpr bool adapts = false;
// A misspelt member: the slot, the policy and the member are named.
#include <weft/weft.hpp>
using namespace weft;

#ifdef WRONG
#if WRONG == 1
struct mine {
  static constexpr std::string_view name = "mine";
  using compute = float;
  using gradient = float;
  using reduction = float;
  using master = float;
};
#elif WRONG == 2
struct mine {
  static constexpr std::string_view name = "mine";
  static constexpr bool shards_parameters = false, shards_gradients = true, shards_optimiser = true;
  static constexpr int prefetch = 0;
  using axis = dp;
};
#elif WRONG == 3
struct mine {
  static constexpr std::string_view name = "mine";
  static constexpr bool recomputes = true;
  static constexpr bool keep(const op_cost&) { return false; }
};
#elif WRONG == 4
struct mine {
  static constexpr std::string_view title = "mine";
  template <class Emit>
  static constexpr void order(int, int, int, Emit&&) {}
};
#elif WRONG == 6
struct mine {  // emit is no function
  static constexpr std::string_view name = "mine";
  static constexpr void order(int, int, int, void (*)(pipeline_action)) {}
};
#elif WRONG == 7
struct mine {  // of three arguments
  static constexpr std::string_view name = "mine";
  template <class Emit>
  static constexpr void order(int, int, Emit&&) {}
};
#elif WRONG == 8
struct mine {  // not static
  static constexpr std::string_view name = "mine";
  template <class Emit>
  constexpr void order(int, int, int, Emit&&) {}
};
#elif WRONG == 9
struct mine {
  static constexpr std::string_view name = "mine";
  static constexpr bool adapts = false, fuse_qkv = true;
};
#elif WRONG == 10
struct mine {
  static constexpr std::string_view name = "mine";
  static constexpr std::string_view adapts = "no";
  static constexpr bool fuses_qkv = true;
};
#elif WRONG == 5
struct mine {
  using que = int;
  static constexpr bool host_memory = true;
};
#endif
#else
struct mine {
  static constexpr std::string_view name = "mine";
  using compute = float;
  using gradient = float;
  using reduce = float;
  using master = float;
};
#endif
using s = strategy<mesh<dp>, mine>;
s::precision program() { return {}; }
