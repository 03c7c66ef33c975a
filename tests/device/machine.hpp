// The device: its memory, which knows the bytes that were written and who touched them last, and the blocks that run.
// Invariant: every access of a kernel goes through `memory_for`, which says what is wrong with it before it happens; a
// wrong one touches memory of nobody's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "counts.hpp"
#include "program.hpp"
#include "tensor_map.hpp"

namespace device {

/// Who wrote and read a place last: a thread's number, which no other launch has, and its warp's clock then.
struct touched {
  std::uint32_t writer = 0, written = 0, reader = 0, read = 0;
  bool by_atomic = false, read_by_atomic = false;
  bool by_proxy = false;  // written by the asynchronous proxy: TMA
};

/// Bytes in a row, what of them was written, and, for each grain, who touched it. A grain is as small as an access was.
struct tracked {
  std::uint64_t base = 0, bytes = 0;
  std::vector<std::uint8_t> written;  // 1 for each byte that has a value
  std::vector<touched> touches;       // made by the first access
  int grain = 2;                      // log2 of its bytes
  bool watched = true;                // false: parameters and local memory, which only one thread sees
  int device = -1;                    // whose it is; -1: each device has one, as of a program's variables

  bool has(std::uint64_t at, std::uint64_t count) const { return at >= base && at - base + count <= bytes; }
  void refine(std::uint64_t size);
};

/// A group of lanes at one instruction.
struct lane_group {
  int at = 0;
  std::uint32_t mask = 0;
  bool waits = false;  // for the other lanes of its warp
};
struct late_copy {  // cp.async
  int lane = 0, group = 0, at = 0;
  std::uint64_t to = 0, from = 0;
  int bytes = 0, read = 0;
};
/// wgmma.mma_async, one warp's part: 16 rows.
struct late_product {
  const instruction* of = nullptr;
  int at = 0, group = 0;
  bool adds = false;
  std::vector<std::uint32_t> a, b;  // where the chunks of 16 bytes lie that it reads of shared memory
};
struct warp {
  int number = 0;
  std::uint32_t live = 0, born = 0;  // lanes that haven't ended, and that ever were
  std::vector<lane_group> groups;
  std::vector<std::uint64_t> registers;  // [register][lane], each as wide as it is
  int barrier = -1;                      // that it waits at
  std::vector<std::uint32_t> seen;       // the clock of each warp of the block that it is behind
  std::vector<late_copy> copies;
  int copy_group[lanes] = {};
  // Of the asynchronous proxy (warpgroup.cpp, phase.cpp):
  std::vector<std::uint32_t> fenced;  // as `seen`: what a fence between the proxies stands behind
  std::vector<late_product> products;
  int product_group = 0, products_given = 0;
  std::vector<std::uint16_t> busy;     // of each register, how many products in flight name it
  std::vector<std::uint32_t> written;  // and between which fences of wgmma it was written last
  std::uint32_t fences = 0;            // so many of those
  bool touched_early = false;          // what they name, which was said
  int registers_asked = 0;             // setmaxnreg
  bool waits_in_vain = false;          // in this turn it asked a barrier of phases that isn't complete;
  int turns_since = 1000;              // it did so that many turns ago, and will ask again
  std::uint64_t asked = 0;             // which it was
};
/// What a barrier with votes answers; 0: it has none.
enum barrier_votes : std::uint8_t { votes_any = 1, votes_all, votes_count };
struct barrier {
  std::vector<int> waiting;
  std::uint32_t arrived = 0, expected = 0;  // warps
  std::vector<std::uint32_t> seen, fenced;
  std::uint32_t for_it = 0, voted = 0;  // of bar.red: threads that said yes, and all of them
};
struct extent {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};
/// mbarrier: a barrier of phases, in shared memory.
struct phase_barrier {
  std::uint32_t expected = 0, pending = 0, phase = 0;
  std::int64_t bytes = 0;                                 // that copies are to bring still
  int made_by = 0;                                        // a warp,
  bool fenced = false;                                    // which then fenced it for the asynchronous proxy
  std::vector<std::uint32_t> seen, fences;                // of who arrived in this phase
  std::vector<std::uint32_t> seen_before, fences_before;  // and in all that are complete
};
/// cp.async.bulk.tensor: a tile on its way into shared memory.
struct late_tile {
  int warp = 0, lane = 0, at = 0;
  std::uint64_t to = 0, phases = 0;  // where, and whose barrier
  tensor_map map;
  std::int32_t first[5] = {};
  std::vector<std::uint32_t> seen, fences;  // of its warp when it was given
};
struct block {
  extent index;
  std::uint64_t number = 0;
  std::vector<warp> warps;
  tracked shared;
  std::vector<std::uint8_t> shared_bytes, local;
  std::map<int, barrier> barriers;
  std::map<std::uint64_t, phase_barrier> phases;  // by their addresses
  std::vector<late_tile> tiles;
  std::vector<std::uint16_t> in_flight;  // of each 16 bytes of shared memory, how many products are to read them
  std::uint64_t in_flight_chunks = 0;
  std::map<int, std::vector<std::pair<int, std::uint64_t>>>
      products;                       // of each warpgroup: what its warps gave, in order
  std::uint64_t slow = 0, turns = 0;  // a bit for each warpgroup of three that has few turns
  std::uint64_t events = 0, events_before = 0, turns_in_vain = 0;  // arrivals and landings, to see that none comes
};

inline void see(std::vector<std::uint32_t>& clocks, const std::vector<std::uint32_t>& others) {
  clocks.resize(std::max(clocks.size(), others.size()));
  for (std::size_t i = 0; i < others.size(); ++i) clocks[i] = std::max(clocks[i], others[i]);
}

/// Addresses of shared memory, where a pointer doesn't say which memory it means.
inline constexpr std::uint64_t shared_window = 0x7fa0000000000000ull, window_bits = ~std::uint64_t{0} << 52;

struct settings {
  std::uint64_t seed = 1;  // draws whose turn it is
  int blocks_at_once = 2;
  std::uint32_t most_shared = 227 * 1024;
  std::size_t most_findings = 20;
  std::uint64_t most_instructions = ~std::uint64_t{0};  // of warps; a program that runs more of them never ends
  // Tensors have padding, which nobody writes and whole arrays carry along: reading global memory that wasn't written
  // is no fault then. Its bytes are ones, NaN for all floating types.
  bool padding = false;
  bool counts = false;  // whether kernels' requests are counted, which takes time
};

struct launch_shape {
  extent grid, block;
  std::uint32_t dynamic_shared = 0;
};

class machine;

/// What an instruction sees: a warp of a block of a launch, and which of its lanes run.
struct warp_view {
  machine* device;
  ptx_unit* unit;
  const kernel* code;
  block* in;
  warp* own;
  launch_shape shape;
  std::uint8_t* parameters;
  std::uint32_t first_thread;  // of the launch
  std::uint32_t mask = 0;
  int at = 0;

  const extent& in_block() const { return in->index; }
  /// Says once for each instruction and kind of fault what is wrong there.
  void report(int lane, int fault, const std::string& sentence);
};

enum access : unsigned {
  reads = 1,
  writes = 2,
  atomic = 4,
  unfinished = 8,  // a copy that may land any time
  by_proxy = 16    // by the asynchronous proxy: wgmma and TMA
};

class machine : public variable_memory {
 public:
  explicit machine(settings s = {}) : set_(s) {}
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;
  ~machine() override;

  /// Memory that nobody has written, of a device. Null for more than there is.
  void* allocate(std::size_t bytes, int device = -1);
  /// How many bytes of a device's are.
  std::size_t allocated(int device) const;
  /// False where nothing was allocated there.
  bool release(void* at);
  std::uint64_t hold(const variable& v) override;

  /// Runs all blocks of a kernel. Faults become findings.
  void launch(ptx_unit& unit, const kernel& code, const launch_shape& shape, const void* parameters);
  /// Of several devices, the one whose kernels run: no other's memory is theirs.
  int runs_on = 0;

  /// The allocation that has this address, or null.
  tracked* find(std::uint64_t address);
  bool inside(const void* at, std::size_t bytes);
  bool all_written(const void* at, std::size_t bytes);
  void mark_written(const void* at, std::size_t bytes);
  /// What of the one is written is written of the other.
  void copy_marks(const void* from, const void* to, std::size_t bytes);

  /// The memory of one lane's access, or, where that is wrong, memory of nobody's.
  std::uint8_t* memory_for(warp_view& v, space in, std::uint64_t address, int bytes, int lane, unsigned access);

  /// Counts one request of the lanes of `mask`, if any and if that is asked for: `bytes` from at[lane] on.
  void count(space in, const std::uint64_t* at, std::uint32_t mask, int bytes, unsigned access) {
    if (counted_ && mask) count_request(in, at, mask, bytes, access);
  }
  /// An mma.sync, or what does as much as so many.
  void count_product(int as_many = 1) {
    if (counted_) counted_->products += static_cast<std::uint64_t>(as_many);
  }
  /// Of each kernel that ran, by its name.
  const std::map<std::string, kernel_counts>& counts() const { return counts_; }

  void find_fault(const std::string& sentence);
  /// Of [0, below), as the seed has it.
  std::uint64_t draw(std::uint64_t below) { return draw_() % below; }
  bool has_padding() const { return set_.padding; }
  const std::vector<std::string>& findings() const { return findings_; }
  /// And forgets them: for tests that plant what is found.
  std::vector<std::string> take_findings() { return std::exchange(findings_, {}); }
  /// Whether the last finding is that it ran more instructions than it may.
  bool never_ends() const { return instructions_ > set_.most_instructions; }
  std::uint64_t launches() const { return launches_; }
  std::uint64_t instructions() const { return instructions_; }

 private:
  friend struct warp_view;
  friend class block_run;
  std::uint8_t* wrong();
  void count_request(space in, const std::uint64_t* at, std::uint32_t mask, int bytes, unsigned access);
  void judge_order(warp_view& v, tracked& t, std::uint64_t at, int bytes, int lane, unsigned access, bool global);

  settings set_;
  std::map<std::uint64_t, tracked> allocations_;
  tracked* last_ = nullptr;
  std::vector<std::unique_ptr<std::uint8_t[]>> variables_;
  std::set<std::pair<const instruction*, int>> said_;
  std::vector<std::string> findings_;
  std::uint64_t launches_ = 0, instructions_ = 0, next_thread_ = 1;
  std::mt19937_64 draw_;
  std::map<std::string, kernel_counts> counts_;
  kernel_counts* counted_ = nullptr;  // of the kernel that runs
  touched_sectors sectors_;           // of its launch, where it is counted
};

}  // namespace device
