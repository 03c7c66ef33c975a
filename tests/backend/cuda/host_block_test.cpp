// The host's execution context itself: barriers, warp operations, shared memory, and that it finds what is wrong in a
// kernel.
#include <bit>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <weft/backend/cuda/host_block.hpp>
#include <weft/backend/cuda/kernels/reduce.hpp>

using namespace weft::gpu;

namespace {

// What run_on_host says of a kernel that fails, or "".
template <class Kernel>
std::string failure(const host_launch& launch, const Kernel& kernel) {
  try {
    run_on_host(launch, kernel);
  } catch (const weft::failure& e) {
    return e.what();
  }
  return "";
}
bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("every thread of every block runs once") {
  std::vector<int> runs(5 * 96, 0);
  run_on_host({5, 96, 0, 1}, [&](host_block& b) {
    CHECK(b.threads() == 96);
    CHECK(b.blocks() == 5);
    CHECK(b.warps() == 3);
    ++runs[static_cast<std::size_t>(b.index() * b.threads() + b.thread())];
  });
  CHECK(runs == std::vector<int>(5 * 96, 1));
}

TEST_CASE("shuffles and votes go over one warp") {
  for (std::uint64_t seed : {1u, 2u, 3u}) {
    std::vector<int> from_three(64), neighbour(64);
    std::vector<std::uint32_t> votes(64);
    run_on_host({1, 64, 0, seed}, [&](host_block& b) {
      const auto t = static_cast<std::size_t>(b.thread());
      from_three[t] = b.shuffle(b.thread(), 3);
      neighbour[t] = b.shuffle_xor(b.thread(), 1);
      votes[t] = b.ballot(b.lane() % 3 == b.warp());
    });
    for (int t = 0; t < 64; ++t) {
      std::uint32_t want = 0;
      for (int l = 0; l < 32; ++l) want |= std::uint32_t(l % 3 == t / 32) << l;
      CHECK(from_three[static_cast<std::size_t>(t)] == t / 32 * 32 + 3);
      CHECK(neighbour[static_cast<std::size_t>(t)] == (t ^ 1));
      CHECK(votes[static_cast<std::size_t>(t)] == want);
    }
  }
}

TEST_CASE("a block's sum is the same bits in every thread and for every order of threads") {
  for (int threads : {32, 64, 160}) {
    std::set<std::uint32_t> first, second;  // bits, so that NaN is a value too
    for (std::uint64_t seed = 1; seed <= 6; ++seed)
      run_on_host({2, threads, static_cast<std::size_t>(threads / 32) * sizeof(float), seed}, [&](host_block& b) {
        // Numbers whose float sum depends on the order of adding.
        const float x = 1.0f / static_cast<float>(1 + b.thread() * b.thread());
        first.insert(std::bit_cast<std::uint32_t>(block_sum(b, x, b.shared<float>())));
        second.insert(std::bit_cast<std::uint32_t>(block_sum(b, 3 * x, b.shared<float>())));  // into the same scratch
      });
    CHECK(first.size() == 1);
    CHECK(second.size() == 1);
    double want = 0;
    for (int t = 0; t < threads; ++t) want += 1.0 / (1 + t * t);
    CHECK(std::bit_cast<float>(*first.begin()) == doctest::Approx(want).epsilon(1e-6));  // some ten roundings of 2^-24
    CHECK(std::bit_cast<float>(*second.begin()) == doctest::Approx(3 * want).epsilon(1e-6));
  }
}

TEST_CASE_TEMPLATE("a warp's product of matrices, from shared memory, straight and transposed", T, weft::bf16,
                   weft::fp16) {
  // c = a b with a [16, 16] in rows of 24, and b [16, 16], as it is and as its transpose; small whole numbers
  const auto a_at = [](int i, int k) { return static_cast<float>((i * 5 + k * 3) % 7 - 3); };
  const auto b_at = [](int k, int j) { return static_cast<float>((k * 2 + j * 11) % 9 - 4); };
  for (const bool transposed : {false, true}) {
    std::vector<float> got(16 * 16);
    run_on_host({1, 32, 2 * 16 * 24 * sizeof(T), 3}, [&](host_block& block) {
      T* const a = block.shared<T>();
      T* const b = a + 16 * 24;
      for (int i = block.thread(); i < 256; i += block.threads()) {
        a[i / 16 * 24 + i % 16] = T(a_at(i / 16, i % 16));
        b[i / 16 * 24 + i % 16] = T(transposed ? b_at(i % 16, i / 16) : b_at(i / 16, i % 16));
      }
      block.sync();
      const int lane = block.lane(), g = lane / 4, t = lane % 4;
      const fragment left = block.load_matrices<false>(a + lane % 16 * 24 + lane / 16 * 8);
      const fragment right = transposed
                                 ? block.load_matrices<false>(b + (lane % 8 + lane / 16 * 8) * 24 + lane / 8 % 2 * 8)
                                 : block.load_matrices<true>(b + lane % 16 * 24 + lane / 16 * 8);
      float c[2][4] = {};
      block.mma<T>(c[0], left, right.at[0], right.at[1]);
      block.mma<T>(c[1], left, right.at[2], right.at[3]);
      for (int n = 0; n < 2; ++n)
        for (int i = 0; i < 4; ++i)
          got[static_cast<std::size_t>((g + i / 2 * 8) * 16 + n * 8 + 2 * t + i % 2)] = c[n][i];
    });
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; ++j) {
        float want = 0;
        for (int k = 0; k < 16; ++k) want += a_at(i, k) * b_at(k, j);
        CHECK(got[static_cast<std::size_t>(i * 16 + j)] == want);
      }
  }
}

TEST_CASE("what is copied later is there when its group has been waited for, and half of it before") {
  alignas(16) const float from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  run_on_host({1, 32, 16 * sizeof(float), 1}, [&](host_block& b) {
    float* const to = b.shared<float>();
    if (b.thread() == 0) {
      b.copy_later<4>(to, from, true);
      b.copy_later<4>(to + 4, from + 4, true);
      b.end_copies();
      b.copy_later<4>(to + 8, from, false);
      b.copy_later<4>(to + 12, from, false);
      b.end_copies();
      CHECK(std::isnan(to[0]));
      CHECK(to[4] == 5);
      b.wait_for_copies<1>();
      CHECK(to[3] == 4);
      CHECK(std::isnan(to[8]));
      CHECK(to[12] == 0);
      b.wait_for_copies<0>();
      CHECK(to[8] == 0);
    }
    b.sync();
    CHECK(to[1] == 2);
  });
}

TEST_CASE("atomics add up") {
  float sum = 0;
  run_on_host({3, 64, 0, 7}, [&](host_block& b) { b.atomic_add(&sum, 1.0f); });
  CHECK(sum == 192.0f);
}

TEST_CASE("the seed decides the order of threads") {
  const auto order = [](std::uint64_t seed) {
    std::vector<int> out;
    run_on_host({1, 64, 0, seed}, [&](host_block& b) { out.push_back(b.thread()); });
    return out;
  };
  CHECK(order(1) == order(1));
  CHECK(order(1) != order(2));
}

TEST_CASE("a missing barrier shows: another thread's shared memory is read before it is written") {
  const auto wrong_threads = [](bool barrier, std::uint64_t seed) {
    int wrong = 0;
    run_on_host({1, 64, 64 * sizeof(float), seed}, [&](host_block& b) {
      float* shared = b.shared<float>();
      shared[b.thread()] = static_cast<float>(b.thread());
      if (barrier) b.sync();
      if (!(shared[63 - b.thread()] == static_cast<float>(63 - b.thread()))) ++wrong;
    });
    return wrong;
  };
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    CHECK(wrong_threads(true, seed) == 0);
    CHECK(wrong_threads(false, seed) > 0);  // of a pair, whoever runs first reads too early
  }
}

TEST_CASE("a warp without its barrier shows too") {
  int wrong = 0;
  run_on_host({1, 32, 32 * sizeof(int), 1}, [&](host_block& b) {
    b.shared<int>()[b.lane()] = b.lane();
    if (b.shared<int>()[31 - b.lane()] != 31 - b.lane()) ++wrong;
  });
  CHECK(wrong > 0);
}

TEST_CASE("a barrier missing behind a read shows: a warp that runs ahead writes what another has yet to read") {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed)  // one block in three runs warps one after another
    run_on_host({1, 64, 2 * sizeof(int), seed}, [&](host_block& b) {
      int* shared = b.shared<int>();
      for (int round = 0; round < 2; ++round) {
        if (b.lane() == 0) shared[b.warp()] = round;
        b.sync();
        if (shared[0] != round || shared[1] != round) ++wrong;
        b.sync_warp();  // b.sync() would be right
      }
    });
  CHECK(wrong > 0);
}

TEST_CASE("diverged barriers are failures") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const host_launch two_warps{2, 64, 0, seed};
    std::string why = failure(two_warps, [](host_block& b) {
      if (b.thread() != 40) b.sync();
    });
    CHECK(contains(why, "a diverged barrier in block"));
    CHECK(contains(why, "thread 40 has returned"));

    why = failure(two_warps, [](host_block& b) {
      if (b.thread() < 32)
        b.sync();
      else
        b.sync();  // the same barrier to some GPUs, undefined by the language
    });
    CHECK(contains(why, "a diverged barrier in block"));

    why = failure(two_warps, [](host_block& b) {
      if (b.lane() != 5) b.shuffle_xor(1, 1);
    });
    CHECK(contains(why, "waits for its warp at line"));
    CHECK(contains(why, "has returned"));

    why = failure(two_warps, [](host_block& b) {
      if (b.warp() == 0) b.shuffle_xor(1, 1);  // a whole warp may do so alone
    });
    CHECK(why == "");

    why = failure(two_warps, [](host_block& b) {
      if (b.lane() < 7)
        b.sync();
      else
        b.shuffle_xor(1, 1);
    });
    CHECK(contains(why, "waits for its warp"));
    CHECK(contains(why, "waits for its block"));
  }
}

TEST_CASE("what a body throws is thrown to the caller") {
  const std::string why = failure({4, 64, 0, 3}, [](host_block& b) {
    weft::require(b.thread() != 17, "thread ", b.thread(), " gave up");
    b.sync();
  });
  CHECK(why == "thread 17 gave up");
}

TEST_CASE("a pack that is not aligned is refused") {
  alignas(16) float numbers[8] = {};
  CHECK(contains(failure({1, 32, 0, 1}, [&](host_block& b) { b.load<4>(numbers + 1); }), "is not aligned to 16 bytes"));
}

TEST_CASE("a block's threads come in whole warps") {
  CHECK(contains(failure({1, 33, 0, 1}, [](host_block&) {}), "a block has 32, 64, ... 1024 threads, not 33"));
  CHECK(contains(failure({1, 0, 0, 1}, [](host_block&) {}), "not 0"));
}
