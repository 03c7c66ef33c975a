// Tiles by TMA, and the barriers of phases that they complete: right ones by their definition, and a planted fault for
// each of what is found.
#include <algorithm>
#include <functional>

#include <doctest/doctest.h>

#include "tensor_map.hpp"
#include "trial.hpp"

using device_test::kernel_text;
using device_test::trial;

namespace {

using u32 = std::uint32_t;

// Elements of 16 bits whose value is their place, [2, 3, 5, 64], in boxes of [1, 4, 2, 64].
device::tensor_map map_of(const std::uint16_t* base) {
  device::tensor_map m;
  m.mark = device::tensor_map::is_one, m.dimensions = 4, m.element_bytes = 2, m.swizzle_bytes = 128;
  m.base = reinterpret_cast<std::uint64_t>(base);
  const u32 sizes[] = {64, 5, 3, 2}, box[] = {64, 2, 4, 1};
  std::uint64_t stride = 2;
  for (int d = 0; d < 4; ++d) m.size[d] = sizes[d] - 1, m.box[d] = box[d], m.stride[d] = stride, stride *= sizes[d];
  return m;
}
// One tile of 1,024 bytes at coordinates (0, c1, c2, c3); thread 0 of 64 copies it, all wait, and each takes 16 bytes.
// %rd1: the map, %rd2: what comes out, %rd3: c1, %rd4: c2, %rd5: c3. The barrier lies behind the tile.
struct copied {
  std::string
      made = "mbarrier.init.shared::cta.b64 [%r6], 1;",
      shown = "fence.mbarrier_init.release.cluster;", meet = "bar.sync 0;",
      expects = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 1024;",
      copies =
          "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd1, {%r9, %r10, "
          "%r11, %r12}], [%r6];",
      before = "", waits = "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6], 0;\n@!%p2 bra WAIT;";
  std::string text() const {
    return kernel_text(
        5,
        "mov.u32 %r5, dynamic;\nadd.s32 %r6, %r5, 2048;\nmov.u32 %r9, 0;\ncvt.u32.u64 %r10, %rd3;\n"
        "cvt.u32.u64 %r11, %rd4;\ncvt.u32.u64 %r12, %rd5;\nsetp.ne.u32 %p1, %r1, 0;\nshl.b32 %r7, %r1, 4;\n"
        "add.s32 %r8, %r5, %r7;\n@%p1 bra MEET;\n.loc 1 10 1\n" +
            made + "\n.loc 1 11 1\n" + shown + "\nMEET:\n.loc 1 12 1\n" + meet + "\n@%p1 bra HERE;\n.loc 1 13 1\n" +
            expects + "\n.loc 1 14 1\n" + copies + "\nHERE:\n.loc 1 15 1\n" + before + "\n.loc 1 16 1\n" + waits +
            "\n.loc 1 17 1\nld.shared.v2.u64 {%rd10, %rd11}, [%r8];\nmul.wide.u32 %rd12, %r1, 16;\n"
            "add.s64 %rd12, %rd2, %rd12;\nst.global.v2.u64 [%rd12], {%rd10, %rd11};\n");
  }
};
std::uint16_t* run(trial& t, int c1, int c2, int c3) {
  std::vector<std::uint16_t> numbers(64 * 5 * 3 * 2);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint16_t>(i + 1);
  std::uint16_t* const out = t.make<std::uint16_t>(512);
  t.run(1, 64, 4096, t.make(std::vector{map_of(t.make(numbers))}), out, std::int64_t{c1}, std::int64_t{c2},
        std::int64_t{c3});
  return out;
}

}  // namespace

TEST_CASE("a tile is what its map says, swizzled, and zero beyond the tensor") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    for (const auto& [c1, c2, c3] : {std::array{0, 0, 0}, {3, 1, 1}, {4, -2, 1}, {-1, 2, 0}, {0, 0, 2}, {7, 0, 0}}) {
      trial t(copied{}.text(), seed);
      const std::uint16_t* const out = run(t, c1, c2, c3);
      REQUIRE(t.all() == "");
      for (int row = 0; row < 8; ++row)
        for (int c = 0; c < 64; ++c) {
          const int x1 = c1 + row % 2, x2 = c2 + row / 2;
          const bool inside = x1 >= 0 && x1 < 5 && x2 >= 0 && x2 < 3 && c3 < 2;
          const int want = inside ? ((c3 * 3 + x2) * 5 + x1) * 64 + c + 1 : 0;
          REQUIRE(out[row * 64 + (c / 8 ^ row) * 8 + c % 8] == want);
        }
    }
}

TEST_CASE("what is wrong around a copy of a tile is found, at its line") {
  const auto finds = [](const std::function<void(copied&)>& change, const std::string& what, const std::string& where) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      copied c;
      change(c);
      trial t(c.text(), seed);
      run(t, 0, 0, 0);
      INFO(t.all());
      CHECK(t.found(what));
      CHECK(t.found("kernel.cu:" + where));
    }
  };
  finds([](copied& c) { c.made = ""; }, "there is no mbarrier", "13");
  finds([](copied& c) { c.shown = ""; }, "without fence.mbarrier_init or fence.proxy.async", "14");
  finds([](copied& c) { c.meet = ""; }, "", "16");  // there is none yet, or a race
  finds([](copied& c) { c.waits = ""; }, "shared memory", "17");
  finds([](copied& c) { c.waits.replace(c.waits.find(" 0;"), 3, " 1;"); }, "shared memory", "17");
  finds([](copied& c) { c.expects.replace(c.expects.find("1024"), 4, "1040"); }, "a barrier is never completed", "16");
  finds([](copied& c) { c.expects.replace(c.expects.find("1024"), 4, "1040"); },
        "(an mbarrier that lacks 0 arrivals and 16 bytes)", "16");
  finds([](copied& c) { c.expects = "mbarrier.arrive.shared::cta.b64 _, [%r6];"; }, "a race in shared memory", "17");
  finds([](copied& c) { c.made.replace(c.made.find(" 1;"), 3, " 2;"); },
        "(an mbarrier that lacks 1 arrivals and 1024 bytes)", "16");
  finds([](copied& c) { c.expects += "\nmbarrier.arrive.shared::cta.b64 _, [%r6];"; },
        "more threads arrive at an mbarrier than it waits for", "13");
  finds([](copied& c) { c.copies.replace(c.copies.find("[%r5]"), 5, "[%r5+16]"); },
        "a tile isn't where its swizzle repeats", "14");
  finds([](copied& c) { c.copies.replace(c.copies.find("[%rd1,"), 6, "[%rd2,"); },
        "global memory is read before it was written", "14");
  finds([](copied& c) { c.before = "@!%p1 st.shared.u32 [%r5], %r9;"; },
        "shared memory is written that a copy by TMA in flight writes", "14");
  finds([](copied& c) { c.shown += "\nst.shared.u32 [%r5], %r9;"; }, "with no fence.proxy.async between", "14");
  finds([](copied& c) { c.waits += "\n@!%p1 " + c.copies; }, "a race in shared memory", "1");
}

TEST_CASE("an mbarrier orders what threads did before they arrived, phase by phase") {
  // Warp 0 writes word i % 2 for warp 1, sixteen times; two barriers say that it is there, and that it was read.
  const auto ring = [](const std::string& says_read, const std::string& first_parity) {
    return kernel_text(
        1,
        "mov.u32 %r5, dynamic;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra MEET;\nmbarrier.init.shared::cta.b64 [%r5+64], 1;\n"
        "mbarrier.init.shared::cta.b64 [%r5+72], 1;\nmbarrier.init.shared::cta.b64 [%r5+80], 1;\n"
        "mbarrier.init.shared::cta.b64 [%r5+88], 1;\nMEET:\nbar.sync 0;\nmov.u32 %r10, 0;\nmov.u32 %r20, 0;\n"
        "setp.eq.u32 %p2, %r1, 32;\n@%p2 bra READS;\n@%p1 bra END;\nWRITES:\nand.b32 %r11, %r10, 1;\n"
        "shr.u32 %r12, %r10, 1;\nand.b32 %r12, %r12, 1;\nxor.b32 %r12, %r12, " +
            first_parity +
            ";\nshl.b32 %r13, %r11, 3;\nadd.s32 %r13, %r13, %r5;\nshl.b32 %r14, %r11, 2;\nadd.s32 %r14, %r14, %r5;\n"
            "FREE:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%r13+80], %r12;\n@!%p3 bra FREE;\n"
            "st.shared.u32 [%r14], %r10;\nmbarrier.arrive.shared::cta.b64 _, [%r13+64];\nadd.s32 %r10, %r10, 1;\n"
            "setp.lt.u32 %p4, %r10, 16;\n@%p4 bra WRITES;\nbra END;\nREADS:\nand.b32 %r11, %r10, 1;\n"
            "shr.u32 %r12, %r10, 1;\nand.b32 %r12, %r12, 1;\nshl.b32 %r13, %r11, 3;\nadd.s32 %r13, %r13, %r5;\n"
            "shl.b32 %r14, %r11, 2;\nadd.s32 %r14, %r14, %r5;\nTHERE:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r13+64], %r12;\n@!%p3 bra THERE;\n"
            "ld.shared.u32 %r15, [%r14];\nshl.b32 %r20, %r20, 1;\nadd.s32 %r20, %r20, %r15;\n" +
            says_read +
            "\nadd.s32 %r10, %r10, 1;\nsetp.lt.u32 %p4, %r10, 16;\n@%p4 bra READS;\n"
            "st.global.u32 [%rd1], %r20;\nEND:\n");
  };
  const std::string arrive = "mbarrier.arrive.shared::cta.b64 _, [%r13+80];";
  u32 want = 0;
  for (u32 i = 0; i < 16; ++i) want = 2 * want + i;
  std::uint64_t fewest = ~std::uint64_t{0}, most = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    trial right(ring(arrive, "1"), seed);
    u32* const out = right.make<u32>(1);
    right.run(1, 64, 128, out);
    CHECK(right.all() == "");
    CHECK(*out == want);
    device::settings counts = trial::seeded(seed);
    counts.counts = true;
    trial counted(ring(arrive, "1"), counts);
    counted.run(1, 64, 128, counted.make<u32>(1));
    fewest = std::min(fewest, counted.gpu.instructions()), most = std::max(most, counted.gpu.instructions());
    trial never(ring("", "1"), seed);
    never.run(1, 64, 128, never.make<u32>(1));
    CHECK(never.found("a barrier is never completed"));
    CHECK(never.found("(an mbarrier that lacks 1 arrivals and 0 bytes)"));
    trial waits_for_the_wrong_phase(ring(arrive, "0"), seed);
    waits_for_the_wrong_phase.run(1, 64, 128, waits_for_the_wrong_phase.make<u32>(1));
    CHECK(waits_for_the_wrong_phase.found("a barrier is never completed"));
  }
  CHECK(most == fewest);  // whoever had to ask again
  trial early(ring("", "1").replace(ring("", "1").find("ld.shared.u32 %r15"), 0, arrive + "\n"));
  early.run(1, 64, 128, early.make<u32>(1));
  CHECK(early.found("a race in shared memory"));
}
