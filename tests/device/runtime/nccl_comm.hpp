// A communicator of the tests' NCCL, and what its ranks share, be they threads (nccl_threads.cpp) or processes
// (nccl_processes.cpp). Invariant: two threads in calls of one communicator at once are a finding, and so is, among
// ranks that are threads, one in a call of a communicator that is in progress for another.
#pragma once

#include <nccl.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_operation.hpp"
#include "nccl_shared.hpp"
#include "state.hpp"

namespace device::nccl {

inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ull + b + 0x632be59bd9b4e019ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
// WEFT_DEVICE_SEED, by which all is drawn.
std::uint64_t seed();

struct clique {
  explicit clique(int size) : members(static_cast<std::size_t>(size)), devices(members.size(), -1) {}
  std::vector<ncclComm_t> members;  // null: has ended
  std::vector<int> devices;         // -1: has still to come
  std::map<std::uint64_t, met> collectives;
  std::map<std::pair<int, int>, std::map<std::uint64_t, met>> pairs;  // by sender and receiver
  struct choice {
    int color = 0, key = 0;
    ncclComm_t made = nullptr;
    bool given = false;
  };
  struct split {
    std::vector<choice> choices;
    bool fails = false;  // on rank 0, which is told, and never ends on the others
    bool is_whole() const {
      for (const choice& c : choices)
        if (!c.given) return false;
      return !choices.empty();
    }
  };
  std::map<std::uint64_t, split> splits;
  int ranks() const { return static_cast<int>(members.size()); }
  bool is_whole() const {
    for (const int d : devices)
      if (d < 0) return false;
    return true;
  }
  std::uint64_t draw(std::uint64_t number) const {
    std::uint64_t x = mixed(seed(), number);
    for (const int d : devices) x = mixed(x, static_cast<std::uint64_t>(d));
    return x;
  }
};

}  // namespace device::nccl

struct ncclComm {
  std::shared_ptr<device::nccl::clique> in;
  int rank = 0, device = 0;
  bool blocks = true;
  std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
  ncclResult_t state = ncclSuccess;
  std::function<bool()> may_go_on;
  std::function<void(device::held_lock&)> then, on_abort;
  int answers = 0;           // how often it still says ncclInProgress
  std::thread::id asked_by;  // what it is in progress with
  std::thread::id inside{};  // who is in a call of it
  int fails_in = -1;         // after so many more looks it reports an error
  std::uint64_t collectives = 0, splits = 0, asked = 0;
  std::map<std::pair<int, int>, std::uint64_t> in_pair;
  std::vector<device::nccl::met> open;
  // Where ranks are processes: what they share, what of this rank's isn't done, and who brings its stream there.
  std::shared_ptr<device::shared_clique> outside;
  struct shared_piece {
    std::vector<device::shared_clique::part> parts;
    cudaStream_t on = nullptr;
    std::uint64_t number = 0;
    bool at_once = false, done = false;
    bool stuck = false;  // it never ends: NCCL failed
  };
  std::vector<std::shared_ptr<shared_piece>> pieces;
  std::shared_ptr<bool> in_graphs = std::make_shared<bool>();  // one more has it for each of its nodes
  int drivers = 0;
};

namespace device::nccl {

// Of every communicator: something has come about that others wait for.
std::condition_variable& changed();
struct planned {
  int operations = -1, looks = 0;
  bool split = false, registration = false;
};
planned& failure();
// What was called, by every rank of this process.
struct called {
  unsigned long long operations = 0;     // that moved anything
  unsigned long long in_registered = 0;  // of them those all of whose arrays lay in registered memory
  unsigned long long registrations = 0;  // of memory
};
called& count();
// Communicators that are neither destroyed nor aborted.
int& live();
std::string& last_words();
ncclResult_t refuse(const std::string& sentence);

// This thread is in a call of a communicator, which takes a moment; no other shall be, nor while it is in progress for
// another one.
class user {
 public:
  user(held_lock& held, ncclComm_t c);
  ~user();
  user(const user&) = delete;
  user& operator=(const user&) = delete;

 private:
  ncclComm_t c_;
  std::thread::id before_;
};

// Of the calling thread's device.
ncclComm_t make(const ncclConfig_t* config);
// Lets a communicator do what it was asked for: now where it blocks, else behind its caller's back.
ncclResult_t begin(held_lock& held, ncclComm_t c, std::function<bool()> may, std::function<void(held_lock&)> then);
// The last thing of a communicator: whoever is in a call of it leaves first.
void end(held_lock& held, ncclComm_t c);

// What a call's array is: `bytes` of it, 0 where the rank has none.
nccl_array array_of(ncclComm_t c, const void* at, std::size_t bytes);
// How many stretches of memory a communicator has registered, and those go with it.
int registered_with(ncclComm_t c);
void forget_registered(ncclComm_t c);

// Ranks that are threads.
ncclResult_t join_threads(held_lock& held, ncclComm_t* comm, int ranks, std::uint64_t id, int rank,
                          const ncclConfig_t* config);
ncclResult_t split_threads(held_lock& held, ncclComm_t parent, int color, int key, ncclComm_t* made,
                           const ncclConfig_t* config);
// Puts a communicator's calls of one group on their stream.
void commit_threads(held_lock& held, ncclComm_t c, const std::vector<nccl_call>& calls);

// Ranks that are processes.
ncclResult_t join_processes(held_lock& held, ncclComm_t* comm, int ranks, const std::string& name, int rank,
                            const ncclConfig_t* config);
void commit_processes(ncclComm_t c, const std::vector<nccl_call>& calls);
// Its communicator ends.
void leave_processes(ncclComm_t c);

}  // namespace device::nccl
