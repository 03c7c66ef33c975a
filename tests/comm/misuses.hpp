// Programs that are wrong, each in one way, and what a rank is to be told of them: for any communicator that compares
// calls. A call's line is job.cpp and the number that it is given here.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <weft/comm/concept.hpp>
#include <weft/core/random.hpp>

namespace weft_test {

using namespace weft;

/// Timing by a seed: before a call mostly nothing, or up to 2 ms; sometimes up to 30.
class naps {
 public:
  naps(std::uint64_t seed, int rank) : numbers_{seed, static_cast<std::uint64_t>(rank)} {}
  void take() {
    const std::uint64_t word = numbers_.word(count_++);
    const std::uint64_t most = word % 10 < 5 ? 0 : word % 10 < 9 ? 2000 : 30000;
    if (most > 0) std::this_thread::sleep_for(std::chrono::microseconds(word / 16 % most));
  }

 private:
  philox numbers_;
  std::uint64_t count_ = 0;
};

/// A rank whose calls are a word each, some time apart, with the line that it is on.
template <class C>
struct sleepy {
  C c;
  naps& rest;
  float x[64] = {}, y[64] = {};

  int rank() const { return c.rank(); }
  static collective_label at(int line) { return {.what = "x", .at = {"job.cpp", line}}; }
  C& awake() { return rest.take(), c; }

  request sum(int line, std::int64_t count = 4, dtype type = dtype::f32, reduction how = reduction::sum) {
    return awake().all_reduce(x, y, count, type, how, at(line));
  }
  request barrier(int line) { return awake().barrier(at(line)); }
  request send(int line, int to, std::int64_t bytes = 4, int tag = 0) {
    return awake().send(x, bytes, to, tag, at(line));
  }
  request recv(int line, int from, std::int64_t bytes = 4, int tag = 0) {
    return awake().recv(y, bytes, from, tag, at(line));
  }
  request gather(int line, std::int64_t bytes) { return awake().all_gather(x, y, bytes, at(line)); }
  request from(int line, int root) { return awake().broadcast(x, 16, root, at(line)); }
  sleepy split(int color, int key, const char* name) { return {awake().split(color, key, name), rest}; }
};

/// launch throws an error with all of `says` in it, on so many ranks. `stuck`: a rank of it calls nothing, and its
/// communicator's limit has to be two seconds; of the others' none shall end by the time.
template <class C>
struct misuse {
  const char* name;
  int ranks;
  std::vector<std::string> says;
  void (*run)(sleepy<C>&);
  bool stuck = false;
};

/// Whether a rank of this process was told of the fault.
inline std::atomic<bool> told{false};

/// Calls nothing until another rank of the process was told, or, where ranks are processes, which are ended, for five
/// minutes.
inline void call_nothing() {
  for (int i = 0; i < 30000 && !told; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

/// Runs a rank of a misuse, with a timing by `seed`.
template <class C>
void run_rank(const misuse<C>& m, C& world, std::uint64_t seed) {
  naps rest(seed, world.rank());
  sleepy<C> r{world, rest};
  try {
    m.run(r);
  } catch (...) {
    told = true;
    throw;
  }
}

template <class C>
std::vector<misuse<C>> misuses() {
  using R = sleepy<C>&;
  using strings = std::vector<std::string>;
  const char* const returned = "has returned, and never called";
  const strings two_sums{"collective number 1", "rank 0 calls all_reduce(4 fp32, sum) for x (job.cpp:2)",
                         "rank 1 calls all_reduce(4 fp32, sum) for x (job.cpp:3)"};
  return {
      {"another operation",
       3,
       {"The ranks of group 'world' disagree on their collective number 0",
        "rank 0 calls all_reduce(4 fp32, sum) for x (job.cpp:1)",
        "rank 1 calls broadcast(16 bytes, root 0) for x (job.cpp:2)"},
       [](R r) { (r.rank() == 1 ? r.from(2, 0) : r.sum(1)).wait(); }},
      {"another count",
       2,
       {"rank 0 calls all_reduce(4 fp32, sum) for x (job.cpp:1); rank 1 calls all_reduce(5 fp32, sum) for x "
        "(job.cpp:1)"},
       [](R r) { r.sum(1, 4 + r.rank()).wait(); }},
      {"another type",
       3,
       {"rank 1 calls all_reduce(4 fp32, sum) for x (job.cpp:1); rank 2 calls all_reduce(4 int32, sum) for x "
        "(job.cpp:1)"},
       [](R r) { r.sum(1, 4, r.rank() == 2 ? dtype::i32 : dtype::f32).wait(); }},
      {"another reduction",
       2,
       {"rank 0 calls all_reduce(4 fp32, sum) for x (job.cpp:1); rank 1 calls all_reduce(4 fp32, max) for x "
        "(job.cpp:1)"},
       [](R r) { r.sum(1, 4, dtype::f32, r.rank() == 0 ? reduction::sum : reduction::max).wait(); }},
      {"another root",
       4,
       {"rank 0 calls broadcast(16 bytes, root 0) for x (job.cpp:1)",
        "rank 3 calls broadcast(16 bytes, root 3) for x (job.cpp:1)"},
       [](R r) { r.from(1, r.rank() / 3 * 3).wait(); }},
      {"another line", 2, two_sums,
       [](R r) {
         r.sum(1).wait();
         r.sum(2 + r.rank()).wait();
       }},
      {"two calls in another order, under way at once", 3, two_sums,
       [](R r) {
         r.sum(1).wait();
         const bool other = r.rank() == 1;
         request a = r.sum(other ? 3 : 2), b = r.sum(other ? 2 : 3);
         a.wait();
         b.wait();
       }},
      {"a call left out in the middle", 2, two_sums,
       [](R r) {
         r.sum(1).wait();
         if (r.rank() == 0) r.sum(2).wait();
         r.sum(3).wait();
       }},
      {"a call left out at the end",
       3,
       {"rank 1", returned, "all_reduce(4 fp32, sum) of group 'world' for x (job.cpp:2)",
        "the last that rank 1 called is barrier() of group 'world' for x (job.cpp:1)"},
       [](R r) {
         r.barrier(1).wait();
         if (r.rank() != 1) r.sum(2).wait();
       }},
      {"one call more on one rank",
       3,
       {returned, "barrier() of group 'world' for x (job.cpp:3), which rank 2 has called",
        " called is all_reduce(4 fp32, sum) of group 'world' for x (job.cpp:1)"},
       [](R r) {
         r.sum(1).wait();
         if (r.rank() == 2) r.barrier(3).wait();
       }},
      {"a rank that returns at once",
       2,
       {"rank 0 has returned, and never called all_reduce(4 fp32, sum) of group 'world' for x (job.cpp:1), which rank "
        "1",
        "rank 0 has called nothing"},
       [](R r) {
         if (r.rank() == 1) r.sum(1).wait();
       }},
      {"a rank that returns early, with others' calls under way",
       2,
       {"rank 1", returned, "barrier() of group 'world' for x (job.cpp:3), which rank 0 has called",
        "the last that rank 1 called is all_reduce(4 fp32, sum) of group 'world' for x (job.cpp:2)"},
       [](R r) {
         request a = r.sum(1), b = r.sum(2);
         if (r.rank() == 1) return;
         r.barrier(3).wait();
       }},
      {"a rank that throws",
       3,
       {"the disk is full"},
       [](R r) {
         r.sum(1).wait();
         if (r.rank() == 2) fail("the disk is full");
         r.sum(2).wait();
       }},
      {"a rank that throws with calls under way",
       3,
       {"the disk is full"},
       [](R r) {
         request a = r.sum(1);
         request b = r.barrier(2);
         if (r.rank() == 0) fail("the disk is full");
         a.wait();
         b.wait();
         r.sum(3).wait();
       }},
      {"two groups in crossed order",
       4,
       {"No rank of these can go on: rank 0 waits for barrier() of group 'tp' for x (job.cpp:2), which still has to be "
        "called by rank 1; rank 1 waits for barrier() of group 'world' for x (job.cpp:1), which still has to be called "
        "by rank 0"},
       [](R r) {
         sleepy<C> tp = r.split(r.rank() / 2, r.rank(), "tp");
         if (r.rank() == 1) r.barrier(1).wait();
         tp.barrier(2).wait();
         if (r.rank() != 1) r.barrier(1).wait();
       }},
      {"a call on another group",
       2,
       {"rank 0 waits for all_reduce(4 fp32, sum) of group 'tp' for x (job.cpp:1), which still has to be called by "
        "rank 1",
        "rank 1 waits for all_reduce(4 fp32, sum) of group 'world' for x (job.cpp:2), which still has to be called by "
        "rank 0"},
       [](R r) {
         sleepy<C> tp = r.split(0, r.rank(), "tp");
         (r.rank() == 0 ? tp.sum(1) : r.sum(2)).wait();
       }},
      {"two recvs without a send",
       2,
       {"rank 0 waits for recv(4 bytes) of group 'world' for x (job.cpp:1), whose send still has to be called by rank "
        "1",
        "rank 1 waits for recv(4 bytes) of group 'world' for x (job.cpp:1), whose send still has to be called by rank "
        "0"},
       [](R r) { r.recv(1, 1 - r.rank()).wait(); }},
      {"a ring of recvs",
       4,
       {"rank 0 waits for recv(4 bytes) of group 'world' for x (job.cpp:1), whose send still has to be called by rank "
        "1; "
        "rank 1 waits for recv(4 bytes)",
        "rank 3 waits for recv(4 bytes) of group 'world' for x (job.cpp:1), whose send still has to be called by rank "
        "0"},
       [](R r) {
         r.recv(1, (r.rank() + 1) % 4).wait();
         r.send(2, (r.rank() + 3) % 4).wait();
       }},
      {"a recv without a send",
       2,
       {"rank 0 has returned, and never called the send that rank 1 waits for with recv(4 bytes) of group 'world' for "
        "x "
        "(job.cpp:2)",
        "the last that rank 0 called is barrier() of group 'world' for x (job.cpp:1)"},
       [](R r) {
         r.barrier(1).wait();
         if (r.rank() == 1) r.recv(2, 0).wait();
       }},
      {"a send to the wrong rank",
       3,
       {"rank 0 waits for send(4 bytes) of group 'world' for x (job.cpp:1), whose recv still has to be called by rank "
        "2",
        "rank 2 waits for barrier() of group 'world' for x (job.cpp:3), which still has to be called by rank 0"},
       [](R r) {
         if (r.rank() == 0) r.send(1, 2).wait();
         if (r.rank() == 1) r.recv(2, 0).wait();
         r.barrier(3).wait();
       }},
      {"a recv of another size",
       3,
       {"disagree on their exchange number 0: rank 2 calls send(8 bytes) for x (job.cpp:1); rank 0 calls recv(16 "
        "bytes) "
        "for x (job.cpp:1)"},
       [](R r) {
         if (r.rank() == 2) r.send(1, 0, 8).wait();
         if (r.rank() == 0) r.recv(1, 2, 16).wait();
         r.barrier(2).wait();
       }},
      {"a recv of what was sent for something else",
       2,
       {"disagree on their exchange number 1: rank 0 calls send(4 bytes) for x (job.cpp:2); rank 1 calls recv(4 bytes) "
        "for x (job.cpp:3)"},
       [](R r) {
         (r.rank() == 0 ? r.send(1, 1) : r.recv(1, 0)).wait();
         (r.rank() == 0 ? r.send(2, 1) : r.recv(3, 0)).wait();
       }},
      {"a recv of another tag",
       2,
       {"rank 0 waits for send(4 bytes, tag 7) of group 'world' for x (job.cpp:1), whose recv still has to be called "
        "by "
        "rank 1; rank 1 waits for recv(4 bytes) of group 'world' for x (job.cpp:1), whose send still has to be called "
        "by "
        "rank 0"},
       [](R r) { (r.rank() == 0 ? r.send(1, 1, 4, 7) : r.recv(1, 0)).wait(); }},
      {"both ranks wait for their send first",
       2,
       {"rank 0 waits for send(4 bytes) of group 'world' for x (job.cpp:1), whose recv still has to be called by rank "
        "1",
        "rank 1 waits for send(4 bytes) of group 'world' for x (job.cpp:1), whose recv still has to be called by rank "
        "0"},
       [](R r) {
         r.send(1, 1 - r.rank()).wait();
         r.recv(2, 1 - r.rank()).wait();
       }},
      {"a send to itself",
       2,
       {"rank 1 can't go on: it waits for send(4 bytes) of group 'world' for x (job.cpp:1), whose recv still has to be "
        "called by rank 1, which is itself"},
       [](R r) {
         if (r.rank() == 1) r.send(1, 1).wait();
         r.barrier(2).wait();
       }},
      {"a split of another name",
       2,
       {"rank 0 calls split() for tp; rank 1 calls split() for dp"},
       [](R r) { r.split(0, r.rank(), r.rank() == 0 ? "tp" : "dp"); }},
      {"a split on some ranks only",
       3,
       {"rank 0 calls split() for tp", "rank 2 calls barrier() for x (job.cpp:1)"},
       [](R r) {
         if (r.rank() != 2) r.split(0, r.rank(), "tp");
         r.barrier(1).wait();
       }},
      {"a barrier on some ranks only",
       3,
       {"waits for barrier() of group 'world' for x (job.cpp:1), which still has to be called by rank 2",
        "rank 2 waits for recv(4 bytes) of group 'world' for x (job.cpp:3), whose send still has to be called by rank"},
       [](R r) {
         if (r.rank() != 2) r.barrier(1).wait();
         r.rank() == 2 ? r.recv(3, 0).wait() : void();
         if (r.rank() == 0) r.send(3, 2).wait();
       }},
      {"other sizes of an all_to_allv",
       3,
       {"In the all_to_allv for x (job.cpp:1) of group 'world' rank 0 receives 8 bytes from rank 1, which sends it 4; "
        "make the two sizes equal."},
       [](R r) {
         const std::int64_t sends[] = {4, 8, r.rank() == 1 ? 12 : 16}, receives[] = {4 * (r.rank() + 1), 8, 16};
         r.awake().all_to_allv(r.x, sends, r.y, receives, r.at(1)).wait();
       }},
      {"a wrong size in a group, while the other group is well",
       4,
       {"The ranks of group 'tp' disagree on their collective number 0: rank 2 calls all_gather(8 bytes) for x "
        "(job.cpp:1); rank 3 calls all_gather(4 bytes) for x (job.cpp:1)"},
       [](R r) {
         sleepy<C> tp = r.split(r.rank() / 2, r.rank(), "tp");
         for (int i = 0; i < 10; ++i) tp.gather(1, r.rank() == 3 ? 4 : 8).wait();
         r.barrier(2).wait();
       }},
      {"two groups with a fault each, at once",
       4,
       {"The ranks of group 'tp' disagree on their collective number 0: rank "},
       [](R r) {
         sleepy<C> tp = r.split(r.rank() / 2, r.rank(), "tp");
         tp.gather(1, 4 + 4 * r.rank()).wait();
       }},
      {"a sum that nobody waits for",
       2,
       {"rank 0 calls all_reduce(4 fp32, sum) for x (job.cpp:1); rank 1 calls all_reduce(5 fp32, sum) for x "
        "(job.cpp:1)"},
       [](R r) { const request dropped = r.sum(1, 4 + r.rank()); }},
      {"a fault that a rank tests for",
       2,
       {"rank 0 calls barrier() for x (job.cpp:1); rank 1 calls barrier() for x (job.cpp:2)"},
       [](R r) {
         request b = r.barrier(1 + r.rank());
         while (!b.test()) std::this_thread::yield();
       }},
      {"a fault that a program catches, to go on",
       2,
       {"rank 0 calls barrier() for x (job.cpp:1); rank 1 calls barrier() for x (job.cpp:2)"},
       [](R r) {
         for (int i = 0; i < 3; ++i) try {
             r.barrier(1 + r.rank()).wait();
           } catch (const failure&) {
           }
       }},
      {"a rank that is stuck",
       3,
       {"rank 1 doesn't call: for 2 s it has called and waited for nothing. The last that it called with rank ",
        " is barrier() of group 'world' for x (job.cpp:1)",
        "waits for all_reduce(4 fp32, sum) of group 'world' for x "
        "(job.cpp:2)"},
       [](R r) {
         r.barrier(1).wait();
         if (r.rank() == 1) call_nothing();
         r.sum(2).wait();
       },
       true},
      {"a rank that is stuck behind one that waits for it",
       3,
       {"waits for recv(4 bytes) of group 'world' for x (job.cpp:2), which rank 2 doesn't call",
        "The last that it called with rank 1 is barrier() of group 'world' for x (job.cpp:1)"},
       [](R r) {
         r.barrier(1).wait();
         if (r.rank() == 2) call_nothing();
         if (r.rank() == 0) r.recv(3, 1).wait();
         if (r.rank() == 1) r.recv(2, 2).wait();
         if (r.rank() == 2) r.send(2, 1).wait();
       },
       true},
  };
}

}  // namespace weft_test
