// What is counted of a kernel's requests, by patterns whose sectors and wavefronts are known.
#include <doctest/doctest.h>

#include "trial.hpp"

using namespace device;
using namespace device_test;

namespace {

// Lane i of a warp has `bytes` from i * stride on.
template <class Count>
served of_lanes(Count count, std::uint64_t stride, int bytes, std::uint32_t mask = ~0u, std::uint64_t first = 0) {
  std::uint64_t at[lanes];
  for (std::uint64_t l = 0; l < lanes; ++l) at[l] = first + l * stride;
  served s;
  count(s, at, mask, bytes);
  return s;
}

}  // namespace

TEST_CASE("sectors of 32 bytes: neighbours share them, lanes apart have one each, and one place is one") {
  const auto sectors = [](std::uint64_t stride, int bytes, std::uint32_t mask = ~0u, std::uint64_t first = 0) {
    const served s = of_lanes(count_sectors, stride, bytes, mask, first);
    return std::pair(s.took, s.least);
  };
  using both = std::pair<std::uint64_t, std::uint64_t>;
  CHECK(sectors(4, 4) == both{4, 4});
  CHECK(sectors(16, 16) == both{16, 16});
  CHECK(sectors(4, 4, ~0u, 16) == both{5, 4});  // begins within a sector
  CHECK(sectors(4, 2) == both{4, 2});           // every second one
  CHECK(sectors(4096, 4) == both{32, 4});
  CHECK(sectors(0, 4) == both{1, 1});
  CHECK(sectors(4, 4, 0xff) == both{1, 1});
  CHECK(of_lanes(count_sectors, 0, 4).bytes == 4);
}

TEST_CASE("wavefronts: words of one bank come one after another, 8 and 16 bytes a lane by halves and quarters") {
  const auto wavefronts = [](std::uint64_t stride, int bytes, std::uint32_t mask = ~0u) {
    const served s = of_lanes(count_wavefronts, stride, bytes, mask);
    return std::pair(s.took, s.least);
  };
  using both = std::pair<std::uint64_t, std::uint64_t>;
  CHECK(wavefronts(4, 4) == both{1, 1});
  CHECK(wavefronts(2, 2) == both{1, 1});
  CHECK(wavefronts(0, 4) == both{1, 1});
  CHECK(wavefronts(8, 4) == both{2, 1});
  CHECK(wavefronts(128, 4) == both{32, 1});
  CHECK(wavefronts(132, 4) == both{1, 1});
  CHECK(wavefronts(8, 8) == both{2, 2});
  CHECK(wavefronts(0, 8) == both{2, 2});  // one place for all, and two registers of each lane
  CHECK(wavefronts(0, 16) == both{4, 4});
  CHECK(wavefronts(0, 8, 0xffff) == both{1, 1});
  CHECK(wavefronts(16, 16) == both{4, 4});
  CHECK(wavefronts(128, 16) == both{32, 4});  // rows of 64 numbers of 16 bits
  CHECK(wavefronts(144, 16) == both{4, 4});   // 8 more behind each
  CHECK(wavefronts(128, 16, 0xff) == both{8, 1});
}

TEST_CASE("a kernel's loads, stores, copies, products and atomic operations are counted, each once") {
  trial t(kernel_text(2,
                      "mov.u32 %r5, dynamic;\nmul.wide.u32 %rd10, %r1, 16;\nadd.s64 %rd11, %rd1, %rd10;\n"
                      "shl.b32 %r6, %r1, 7;\nadd.s32 %r6, %r6, %r5;\n"  // rows of 128 bytes, a lane each
                      "cp.async.cg.shared.global [%r6], [%rd11], 16;\ncp.async.commit_group;\n"
                      "cp.async.wait_group 0;\nbar.sync 0;\n"
                      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r6];\n"
                      "mov.f32 %f1, 0f00000000;\n"
                      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f2, %f3, %f4, %f5}, {%r20, %r21, %r22, "
                      "%r23}, {%r20, %r21}, {%f1, %f1, %f1, %f1};\n"
                      "mul.wide.u32 %rd10, %r1, 4;\nadd.s64 %rd12, %rd2, %rd10;\nst.global.f32 [%rd12], %f2;\n"
                      "ld.global.f32 %f6, [%rd2];\nsetp.lt.u32 %p1, %r1, 8;\n@%p1 red.global.add.u32 [%rd12], %r1;\n"),
          [] {
            settings s;
            s.counts = true;
            return s;
          }());
  t.run(2, 32, 32 * 128, t.make(std::vector<std::uint32_t>(128)), t.make<float>(32));
  const kernel_counts& k = t.gpu.counts().at("k");
  CHECK(k.launches == 1);
  CHECK(k.instructions == t.gpu.instructions());
  CHECK(k.products == 2);
  CHECK(k.loads.requests == 2 * 3);
  CHECK(k.loads.took == 2 * (16 + 1 + 1));  // the copy, one place, eight lanes
  CHECK(k.stores.took == 2 * (4 + 1));
  CHECK(k.stores.bytes == 2 * (128 + 32));
  // Both blocks copy the same 16 sectors, load one, and store 4, to the first of which they add.
  CHECK(k.moved_bytes == 32 * (16 + 1 + 4));
  CHECK(k.threads == 32);
  CHECK(k.block_bytes == 32 * 128);
  CHECK(k.shared.requests == 2 * 2);
  CHECK(k.shared.took == 2 * (32 + 32));  // all rows begin in one bank
  CHECK(k.shared.least == 2 * (4 + 4));
}

TEST_CASE("the table calls a kernel by its struct, and has what was taken beside the least") {
  std::map<std::string, kernel_counts> all;
  kernel_counts& k = all["_ZN4weft3gpu13run_on_deviceINS0_15row_keys_kernelEEEvT_"];
  k.launches = 3, k.threads = 256, k.instructions = 1000, k.loads.took = 20, k.loads.least = 10;
  const std::string said = table_of(all);
  CHECK(said.find("| row_keys_kernel ") != std::string::npos);
  CHECK(said.find(" 20 / 10 |") != std::string::npos);
  CHECK(said.find("       3 |     256 |       0 |         1000 |") != std::string::npos);
}
