// The installed laws of a backend's memory, on the CPU's, and on backends that get one thing wrong.
#include <doctest/doctest.h>

#include <weft/backend/cpu.hpp>
#include <weft/testing/backend/memory.hpp>

#include "laws_on_cpu.hpp"

namespace {
using namespace weft;

TEST_CASE("memory obeys its laws on every instruction set, with the same bits for one core and three") {
  laws_on_cpu(
      [](int threads) { return testing::check_memory_kernels<cpu_backend, double, float, bf16, fp16>(threads); });
}

struct contiguous : cpu_backend {  // copies as if there were no strides
  static void copy(queue& cores, int ndim, const std::int64_t* extents, const local_array& from, const std::int64_t*,
                   const local_array& to, const std::int64_t*) {
    std::int64_t n = 1;
    for (int d = 0; d < ndim; ++d) n *= extents[d];
    copy_bytes(cores, from.data, to.data, n * static_cast<std::int64_t>(size_of(from.type)));
  }
};
struct truncates : cpu_backend {  // to 16 bits by cutting them off
  template <class From, class To>
  static void convert(queue& cores, std::int64_t n, const From* from, To* to, bool add) {
    if constexpr (std::is_same_v<To, bf16> && std::is_same_v<From, float>) {
      for (std::int64_t i = 0; i < n && !add; ++i) {
        std::uint32_t bits;
        std::memcpy(&bits, from + i, 4);
        to[i] = bf16::from_bits(static_cast<std::uint16_t>(bits >> 16));
      }
      if (!add) return;
    }
    cpu_backend::convert(cores, n, from, to, add);
  }
};
struct one_more : cpu_backend {
  static void zero(queue&, const local_array& y) { std::memset(y.data, 0, static_cast<std::size_t>(y.bytes()) + 1); }
};

TEST_CASE("a backend that forgets strides, cuts bits off, or writes a byte too many is told") {
  CHECK_THROWS_WITH_AS((testing::check_memory_kernels<contiguous, float>()),
                       doctest::Contains("the backend's copy of fp32: to = from by strides: element"), failure);
  CHECK_THROWS_WITH_AS((testing::check_memory_kernels<truncates, float, bf16>()),
                       doctest::Contains("the backend's convert from fp32 of bf16: to = from: element"), failure);
  CHECK_THROWS_WITH_AS((testing::check_memory_kernels<one_more, float>()),
                       doctest::Contains("the backend's zero of fp32: it wrote behind the end of its output"), failure);
}

}  // namespace
