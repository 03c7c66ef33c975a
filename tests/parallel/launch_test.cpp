// What launch asks of a communicator: groups in the order that was asked for. And what its threads are called.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

#include "comm/watch.hpp"

namespace {
using namespace weft;

// threads, but a split goes by what `Split` makes of its arguments.
template <class Split>
class splits_by : public comm_operations<splits_by<Split>> {
 public:
  explicit splits_by(threads under) : under_(under) {}
  int rank() const { return under_.rank(); }
  int size() const { return under_.size(); }
  request post(const comm_call& call) { return under_.post(call); }
  splits_by split(int color, int key, const char* name) { return splits_by(Split::split(under_, color, key, name)); }
  template <class F>
  static void launch(int ranks, F&& f) {
    threads::launch(ranks, [&](threads& world) {
      splits_by own(world);
      f(own);
    });
  }

 private:
  threads under_;
};

struct backwards {
  static threads split(threads& c, int color, int key, const char* name) { return c.split(color, -key, name); }
};
struct without_color {
  static threads split(threads& c, int, int key, const char* name) { return c.split(0, key, name); }
};
struct right {
  static threads split(threads& c, int color, int key, const char* name) { return c.split(color, key, name); }
};

template <class Split>
std::string message_of(const degrees& along) {
  const watchdog guard("a communicator with a wrong split", 300);
  try {
    launch<strategy<mesh<dp, tp>, splits_by<Split>>>(along, [](context&) {});
  } catch (const failure& e) {
    return e.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE(
    "bug: a communicator whose split orders ranks in its own way is right under replicated and wrong under zero3") {
  CHECK(message_of<right>({.dp = 2, .tp = 2}) == "nothing was thrown");
  const std::string text = message_of<backwards>({.dp = 3});
  CHECK(text.find("split(color, key, \"dp\") made this rank number ") == 0);
  CHECK(text.find(" of 3, where number ") != std::string::npos);
  CHECK(text.find(" of 3 was asked for: a group has the ranks of one color, ordered by (key, rank)") !=
        std::string::npos);
  CHECK(message_of<without_color>({.dp = 2, .tp = 2}).find(" of 4, where number ") != std::string::npos);
}

namespace {
// threads, but what is gathered lies in the opposite order.
class gathers_backwards : public comm_operations<gathers_backwards> {
 public:
  explicit gathers_backwards(threads under) : under_(under) {}
  int rank() const { return under_.rank(); }
  int size() const { return under_.size(); }
  request post(const comm_call& call) {
    if (!call.is(comm_operation::all_gather)) return under_.post(call);
    under_.post(call).wait();
    auto* bytes = static_cast<std::byte*>(call.out);
    const std::int64_t n = call.count;
    for (int i = 0, j = size() - 1; i < j; ++i, --j) std::swap_ranges(bytes + i * n, bytes + i * n + n, bytes + j * n);
    return {};
  }
  gathers_backwards split(int color, int key, const char* name) {
    return gathers_backwards(under_.split(color, key, name));
  }
  template <class F>
  static void launch(int ranks, F&& f) {
    threads::launch(ranks, [&](threads& world) {
      gathers_backwards own(world);
      f(own);
    });
  }

 private:
  threads under_;
};
}  // namespace

TEST_CASE("bug: a communicator whose collectives put ranks in another order, or return early, is seen too late") {
  const watchdog guard("a communicator that gathers backwards", 300);
  CHECK_THROWS_WITH_AS(
      (weft::launch<strategy<mesh<dp>, gathers_backwards>>({.dp = 2}, [](context&) {}, {.check = true})),
      "check: all_gather along dp has not put this rank's own part in its place by the time that wait() returns; mend "
      "the communicator",
      failure);
}

#if defined(__linux__)
#include <pthread.h>

namespace {
std::string name_of_thread() {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  return name;
}
}  // namespace

TEST_CASE("threads are called by their ranks and cores") {
  const std::string before = name_of_thread();
  launch<strategy<mesh<tp>>>({.tp = 3},
                             [&](context& ctx) {
                               // rank 0 runs in the caller's thread, whose name is the caller's (and the process's,
                               // where it is the first)
                               const std::string rank = "weft rank " + std::to_string(ctx.rank().here());
                               CHECK(name_of_thread() == (ctx.rank() == 0 ? before : rank));
                               std::string names[2];
                               std::atomic<int> begun{0};
                               ctx.queue<cpu_backend>().parallel_for(2, [&](std::int64_t task) {
                                 names[task] = name_of_thread();
                                 for (++begun; begun < 2;) std::this_thread::yield();  // so that each core has one
                               });
                               const std::string worker = rank + ".1";
                               CHECK((names[0] == worker) != (names[1] == worker));
                             },
                             {.threads_per_rank = 2});
  CHECK(name_of_thread() == before);
}
#endif
