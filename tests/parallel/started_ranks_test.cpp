// What launch says of a communicator that starts other ranks than it was asked for, or keeps a rank's error.
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

// threads, but launch starts the ranks as Start does.
template <class Start>
class starts_by : public comm_operations<starts_by<Start>> {
 public:
  explicit starts_by(threads inner) : inner_(std::move(inner)) {}
  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }
  request post(const comm_call& call) { return inner_.post(call); }
  starts_by split(int color, int key, const char* name) { return starts_by(inner_.split(color, key, name)); }
  template <class F>
  static void launch(int ranks, F&& f) {
    Start::start(ranks, [&](int n) {
      threads::launch(n, [&](threads& world) {
        starts_by own(world);
        f(own);
      });
    });
  }

 private:
  threads inner_;
};
struct as_asked {
  static void start(int n, auto run) { run(n); }
};
struct nothing {
  static void start(int, auto) {}
};
struct one_fewer {
  static void start(int n, auto run) { run(n - 1); }
};
struct one_more {
  static void start(int n, auto run) { run(n + 1); }
};
struct twice {
  static void start(int n, auto run) { run(n), run(n); }
};
struct swallows {
  static void start(int n, auto run) {
    try {
      run(n);
    } catch (...) {
    }
  }
};

template <class Start>
std::string said(bool throws = false) {
  try {
    launch<strategy<mesh<dp, tp>, starts_by<Start>>>({.dp = 2, .tp = 2}, [&](context& ctx) {
      if (throws && ctx.rank() == 1) throw std::runtime_error("an error of rank 1");
    });
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing";
}

TEST_CASE("a communicator that starts other ranks than it was asked for is told so") {
  const std::string due = "; it has to run f(world) once on each of 4";
  CHECK(said<as_asked>() == "nothing");
  CHECK(said<nothing>() == "the communicator's launch(4, f) started 0 ranks" + due);
  CHECK(said<one_fewer>() == "the communicator's launch(4, f) started 3 ranks" + due);
  CHECK(said<one_more>() == "the communicator's launch(4, f) started 5 ranks" + due);
  CHECK(said<twice>() == "the communicator's launch(4, f) started more than 4 ranks" + due);
}

TEST_CASE("a communicator that keeps a rank's error is told so") {
  CHECK(said<as_asked>(true) == "an error of rank 1");
  CHECK(said<swallows>(true).find("launch(4, f) returned as if it hadn't") != std::string::npos);
  CHECK(said<swallows>() == "nothing");
}
}  // namespace
