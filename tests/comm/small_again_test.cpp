// A small collective is moved by its last caller, and by nobody after that: its buffers are the callers' again at once.
#include <atomic>

#include <doctest/doctest.h>

#include <weft/comm/threads.hpp>

#include "sample.hpp"

TEST_CASE("a finished small collective never writes again") {
  std::atomic<int> wrong{0};
  weft::threads::launch(2, [&](weft::threads& world) {
    float x[64];
    for (int i = 0; i < weft_test::sampled(100000); ++i) {
      for (float& v : x) v = float(i % 7 + world.rank());
      world.all_reduce(x, x, 64, weft::dtype::f32, weft::reduction::sum).wait();
      for (float v : x)
        if (v != float(2 * (i % 7) + 1)) ++wrong;
    }
  });
  CHECK(wrong == 0);
}
