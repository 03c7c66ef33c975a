// expect: weft: this
// shows: in_policy<mine>
// expect 1: precision policy's compute is not a floating type: write using compute = float;
// expect 2: sharding policy's axis is not a mesh axis: write using axis = dp;
// expect 3: checkpointing policy's keeps is not a static function of an op_cost that returns a bool: write static
// expect 4: sharding policy's shards_parameters, shards_gradients, shards_optimizer and prefetch aren't all static constants
// expect 5: sharding policy's shards_parameters, shards_gradients, shards_optimizer and prefetch aren't all static constants
// expect 6: precision policy's initial_loss_scale is not a number: write static constexpr double initial_loss_scale =
// expect 7: precision policy's initial_loss_scale is not a static constant: write static constexpr double
// expect 8: backend has no static open(ranks, rank, threads)
// expect 9: sharding policy's prefetch is not an int: write static constexpr int prefetch = 0;
// expect 10: backend's queue lacks runs_behind, enqueue(f) or synchronize()
// expect 11: backend's queue runs behind its host, so the host can't read tensors at any time
// expect 12: projections policy's shares_kv is not a bool: write static constexpr bool shares_kv = true;
// expect 13: projections policy's shares_kv is not a static constant: write static constexpr bool shares_kv = true;
// expect 14: checkpointing policy's recomputes is not a static constant: write static constexpr bool recomputes = true;
// expect 15: projections policy's fuses_qkv is not a static constant: write static constexpr bool fuses_qkv = false;
// expect 16: schedule policy's chunks is not a static constant: write static constexpr int chunks = 2;
// expect 17: projections policy's in_float8 is not a bool: write static constexpr bool in_float8 = true; or leave it out
// expect 18: projections policy's in_float8 is not a bool: write static constexpr bool in_float8 = true; or leave it out
// expect 19: projections policy's in_float8 is not a static constant: write static constexpr bool in_float8 = true;
// expect 20: projections policy's stored_as is not a weight_format: write static constexpr auto stored_as = weight_format::int8;
// expect 21: precision policy's moment is not a type: write using moment = bf16; or leave it out
// expect 22: sharding policy's keeps_vectors is not a bool: write static constexpr bool keeps_vectors = true;
// expect 23: checkpointing policy's offloads_inputs is not a bool: write static constexpr bool offloads_inputs = true;
// expect 24: schedule policy's chunks is not an int: write static constexpr int chunks = 2; or leave it out
// expect 25: projections policy's adapts is not a static constant: write static constexpr bool adapts = false;
// A member that is there, but is of another kind than the slot takes.
#include <weft/policy/strategy.hpp>
using namespace weft;

#ifdef WRONG
#if WRONG == 1
struct mine : fp32 {
  using compute = int;
};
#elif WRONG == 2
struct mine : zero3 {
  using axis = batch;
};
#elif WRONG == 3
struct mine {
  static constexpr std::string_view name = "mine";
  static constexpr bool recomputes = true;
  bool keeps(const op_cost&) const { return true; }
};
#elif WRONG == 4
struct mine {
  std::string_view name = "mine";
  bool shards_parameters = true, shards_gradients = true, shards_optimizer = true;
  int prefetch = 1;
  using axis = dp;
};
#elif WRONG == 5
struct mine {
  static inline std::string_view name = "mine";
  static inline bool shards_parameters = true, shards_gradients = true, shards_optimizer = true;
  static inline int prefetch = 1;
  using axis = dp;
};
#elif WRONG == 6
struct mine : fp16_mixed {
  static constexpr std::string_view initial_loss_scale = "1024";
};
#elif WRONG == 7
struct mine : fp16_mixed {
  double initial_loss_scale = 1024;
};
#elif WRONG == 8
struct mine {
  struct queue {};
};
#elif WRONG == 10
struct mine {
  struct queue {
    static constexpr bool runs_behind = false;
    void synchronize() {}
  };
  static queue* open(int, int, int) { return nullptr; }
  static constexpr bool host_memory = true;
  static int memory() { return 0; }
};
#elif WRONG == 11
struct mine {
  struct queue {
    static constexpr bool runs_behind = true;
    void enqueue(void (*)()) {}
    void synchronize() {}
  };
  static queue* open(int, int, int) { return nullptr; }
  static constexpr bool host_memory = true;
  static int memory() { return 0; }
};
#elif WRONG == 12
struct mine : dense {
  static constexpr std::string_view shares_kv = "yes";
};
#elif WRONG == 13
struct mine : dense {
  bool shares_kv = true;
};
#elif WRONG == 14
struct mine : checkpoint_full {
  static inline bool recomputes = true;
};
#elif WRONG == 15
struct mine : dense {
  static inline bool fuses_qkv = false;
};
#elif WRONG == 16
struct mine : one_f_one_b {
  static inline int chunks = 1;
};
#elif WRONG == 17
struct mine : dense {
  static constexpr bool in_float8() { return false; }
};
#elif WRONG == 18
struct mine : dense {
  static constexpr const char* in_float8 = "no";
};
#elif WRONG == 19
struct mine : dense {
  bool in_float8 = true;
};
#elif WRONG == 20
struct mine : dense {
  static constexpr int stored_as = 1;
};
#elif WRONG == 21
struct mine : bf16_mixed {
  static constexpr int moment = 2;
};
#elif WRONG == 22
struct mine : zero3 {
  static constexpr bool keeps_vectors() { return false; }
};
#elif WRONG == 23
struct mine : checkpoint_full {
  static constexpr bool offloads_inputs() { return false; }
};
#elif WRONG == 24
struct mine : one_f_one_b {
  static constexpr std::string_view chunks = "two";
};
#elif WRONG == 25
struct mine : dense {
  static constexpr bool adapts() { return false; }
};
#elif WRONG == 9
struct mine : zero3 {
  static constexpr std::string_view prefetch = "all";
};
#endif
#else
struct mine : fp16_mixed {
  static constexpr float initial_loss_scale = 1024;
};
#endif
using s = strategy<mesh<dp>, mine>;
s::precision program() { return {}; }
