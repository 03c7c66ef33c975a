// That the device finds what is wrong in a kernel, and names its line; and finds nothing where it is right.
#include <doctest/doctest.h>

#include "trial.hpp"

using device_test::kernel_text;
using device_test::trial;

namespace {

// Thread i's float of an array: %rd10 = %rd1 + 4 i.
const std::string own_float = "mul.wide.u32 %rd10, %r1, 4;\nadd.s64 %rd10, %rd1, %rd10;\n";
// Thread i puts i into shared word i, and reads that of thread i ^ 32, a warp away, into out[i].
std::string exchange(const std::string& between) {
  return own_float +
         "mov.u32 %r5, dynamic;\nshl.b32 %r6, %r1, 2;\nadd.s32 %r7, %r5, %r6;\nxor.b32 %r8, %r6, 128;\nadd.s32 %r9, "
         "%r5, %r8;\n"
         ".loc 1 10 1\nst.shared.u32 [%r7], %r1;\n.loc 1 11 1\n" +
         between + "\n.loc 1 12 1\nld.shared.u32 %r10, [%r9];\n.loc 1 13 1\nst.global.u32 [%rd10], %r10;\n";
}
// The same through bytes that come from memory.
std::string copied(const std::string& wait) {
  return own_float +
         "mov.u32 %r5, dynamic;\nshl.b32 %r6, %r1, 2;\nadd.s32 %r7, %r5, %r6;\nmul.wide.u32 %rd11, %r1, 4;\nadd.s64 "
         "%rd11, "
         "%rd2, %rd11;\n.loc 1 20 1\ncp.async.ca.shared.global [%r7], [%rd11], 4;\ncp.async.commit_group;\n.loc 1 21 "
         "1\n" +
         wait + "\n.loc 1 22 1\nld.shared.u32 %r10, [%r7];\nst.global.u32 [%rd10], %r10;\n";
}

}  // namespace

TEST_CASE("a kernel with its barrier is right for every seed") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    trial t(kernel_text(1, exchange("bar.sync 0;")), seed);
    std::uint32_t* const out = t.make<std::uint32_t>(64);
    t.run(1, 64, 256, out);
    CHECK(t.all() == "");
    for (std::uint32_t i = 0; i < 64; ++i) CHECK(out[i] == (i ^ 32));
  }
}

TEST_CASE("a barrier that was left out is a race, or memory that wasn't written, for every seed") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    trial t(kernel_text(1, exchange("")), seed);
    t.run(1, 64, 256, t.make<std::uint32_t>(64));
    CHECK((t.found("race in shared memory") || t.found("shared memory is read before it was written")));
    CHECK((t.found("kernel.cu:12") || t.found("kernel.cu:10")));
  }
}

TEST_CASE("lanes of one warp need a barrier of the warp") {
  const auto neighbour = [](const std::string& between) {
    return kernel_text(1,
                       own_float +
                           "mov.u32 %r5, dynamic;\nshl.b32 %r6, %r1, 2;\nadd.s32 %r7, %r5, %r6;\nxor.b32 %r8, %r6, 4;\n"
                           "add.s32 %r9, %r5, %r8;\nst.shared.u32 [%r7], %r1;\n" +
                           between + "\nld.shared.u32 %r10, [%r9];\nst.global.u32 [%rd10], %r10;\n");
  };
  trial right(neighbour("bar.warp.sync -1;"));
  right.run(1, 32, 128, right.make<std::uint32_t>(32));
  CHECK(right.all() == "");
  trial wrong(neighbour(""));
  wrong.run(1, 32, 128, wrong.make<std::uint32_t>(32));
  CHECK(wrong.found("race in shared memory"));
}

TEST_CASE("a barrier that counts votes answers all of its threads") {
  // Who says yes: the first n of 64 threads.
  for (const std::uint32_t n : {0u, 1u, 40u, 64u})
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      trial t(kernel_text(2, own_float + "ld.global.u32 %r3, [%rd2];\nsetp.lt.u32 %p1, %r1, %r3;\n"
                                         "bar.red.or.pred %p2, 0, %p1;\nbar.red.and.pred %p3, 0, 64, %p1;\n"
                                         "bar.red.popc.u32 %r10, 1, !%p1;\nselp.u32 %r11, 100, 0, %p2;\n"
                                         "selp.u32 %r12, 1000, 0, %p3;\nadd.u32 %r10, %r10, %r11;\n"
                                         "add.u32 %r10, %r10, %r12;\nst.global.u32 [%rd10], %r10;\n"),
              seed);
      std::uint32_t* const out = t.make<std::uint32_t>(64);
      t.run(1, 64, 0, out, t.make(std::vector<std::uint32_t>{n}));
      CHECK(t.all() == "");
      for (int i = 0; i < 64; ++i) CHECK(out[i] == 64 - n + (n > 0 ? 100 : 0) + (n == 64 ? 1000 : 0));
    }
}

TEST_CASE(
    "blocks that talk through memory are in order where both accesses are volatile, relaxed or atomic, else a race") {
  // Block 1 waits for what block 0 says.
  const auto talk = [](const std::string& says, const std::string& hears) {
    return kernel_text(1, "setp.ne.u32 %p1, %r2, 0;\n@%p1 bra WAIT;\nmov.u32 %r3, 5;\n" + says +
                              ".global.u32 [%rd1], %r3;\nret;\nWAIT:\n" + hears +
                              ".global.u32 %r4, [%rd1];\nsetp.ne.u32 %p2, %r4, 5;\n@%p2 bra WAIT;\n");
  };
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    trial right(talk("st.volatile", "ld.volatile"), seed);
    right.run(2, 1, 0, right.make(std::vector<std::uint32_t>{0}));
    CHECK(right.all() == "");
    trial relaxed(talk("st.relaxed.gpu", "nanosleep.u32 20;\nld.relaxed.gpu"), seed);
    relaxed.run(2, 1, 0, relaxed.make(std::vector<std::uint32_t>{0}));
    CHECK(relaxed.all() == "");
    trial wrong(talk("st", "ld.volatile"), seed);
    wrong.run(2, 1, 0, wrong.make(std::vector<std::uint32_t>{0}));
    CHECK(wrong.found("a race in global memory"));
  }
}

TEST_CASE("an element too many, and an address that isn't a multiple of its width") {
  const std::string one_more =
      own_float + ".loc 1 7 1\nsetp.gt.u32 %p1, %r1, %r3;\n@%p1 bra END;\nst.global.u32 [%rd10], %r1;\nEND:\n";
  for (const unsigned last : {31u, 32u}) {  // i < n, i <= n
    trial t(kernel_text(1, "mov.u32 %r3, " + std::to_string(last) + ";\n" + one_more));
    t.run(1, 64, 0, t.make<std::uint32_t>(32));
    CHECK(t.found("out of bounds in global memory: byte 128 of an allocation of 128") == (last == 32));
    CHECK(t.found("kernel.cu:7") == (last == 32));
    CHECK(t.found("warp 1, lane 0") == (last == 32));
  }
  trial shared(kernel_text(0, "mov.u32 %r5, dynamic;\nst.shared.u32 [%r5+64], %r1;\n"));
  shared.run(1, 1, 64);
  CHECK(shared.found("out of bounds in shared memory: byte 64 of 64"));
  trial skewed(kernel_text(1, "st.global.u32 [%rd1+2], %r1;\n"));
  skewed.run(1, 1, 0, skewed.make<std::uint32_t>(4));
  CHECK(skewed.found("misaligned"));
}

TEST_CASE("memory that nobody wrote is read by nobody") {
  trial t(kernel_text(1, own_float + ".loc 1 5 1\nld.global.f32 %f1, [%rd10];\n"));
  t.run(1, 4, 0, t.make(std::vector<float>(4)));
  CHECK(t.all() == "");
  t.run(1, 4, 0, t.make<float>(4));
  CHECK(t.found("global memory is read before it was written: byte 0"));
  CHECK(t.found("kernel.cu:5"));
}

TEST_CASE("blocks of a launch race in global memory, but not by atomic operations, and launches don't") {
  trial stores(kernel_text(1, "st.global.u32 [%rd1], %r2;\n"));
  std::uint32_t* const at = stores.make<std::uint32_t>(1);
  stores.run(1, 1, 0, at);
  stores.run(1, 1, 0, at);
  CHECK(stores.all() == "");
  stores.run(2, 1, 0, at);
  CHECK(stores.found("race in global memory"));
  trial sums(kernel_text(1, "red.global.add.u32 [%rd1], 3;\n"));
  std::uint32_t* const sum = sums.make(std::vector<std::uint32_t>{4});
  sums.run(5, 64, 0, sum);
  CHECK(sums.all() == "");
  CHECK(*sum == 4 + 3 * 5 * 64);
}

TEST_CASE("bytes beside each other aren't one place") {
  trial t(kernel_text(1, "cvt.u64.u32 %rd2, %r1;\nadd.s64 %rd3, %rd1, %rd2;\nst.global.u8 [%rd3], %r1;\n"));
  std::uint8_t* const out = t.make<std::uint8_t>(64);
  t.run(1, 64, 0, out);
  CHECK(t.all() == "");
  CHECK(out[63] == 63);
}

TEST_CASE("a copy lands when it is waited for, and not before") {
  for (const std::string wait : {"cp.async.wait_group 0;", "cp.async.wait_all;", "", "cp.async.wait_group 1;"}) {
    trial t(kernel_text(2, copied(wait)));
    std::vector<std::uint32_t> from(32);
    for (std::uint32_t i = 0; i < 32; ++i) from[i] = 7 * i;
    std::uint32_t* const out = t.make<std::uint32_t>(32);
    t.run(1, 32, 128, out, t.make(from));
    const bool waits = wait.find('0') != std::string::npos || wait.find("all") != std::string::npos;
    CHECK(t.found("shared memory is read before it was written") == !waits);
    CHECK(t.found("kernel.cu:22") == !waits);
    if (waits) CHECK(out[31] == 7 * 31);
  }
}

TEST_CASE("a barrier where a part of the threads goes is found") {
  const std::string half = "setp.lt.u32 %p1, %r1, ";  // these pass the barrier by
  trial of_warp(
      kernel_text(0, half + "16;\n@%p1 bra END;\n.loc 1 30 1\nbar.sync 0;\nEND:\n.loc 1 31 1\nbar.warp.sync -1;\n"));
  of_warp.run(1, 32, 0);
  CHECK(of_warp.found("lanes of a warp wait at different places for each other"));
  CHECK(of_warp.found("kernel.cu:30"));
  trial of_block(kernel_text(0, half + "32;\n@%p1 bra END;\n.loc 1 40 1\nbar.sync 0;\nEND:\n"));
  of_block.run(1, 64, 0);
  CHECK(of_block.found("a barrier is never completed: warp 1 at line 40 wait; 1 warps have ended"));
  trial ended(kernel_text(0, half + "16;\n@%p1 exit;\n.loc 1 50 1\nbar.sync 0;\n"));
  ended.run(1, 32, 0);
  CHECK(ended.found("a barrier of the block, after some lanes of the warp have ended"));
  trial two(
      kernel_text(0, half + "32;\n@%p1 bra ONE;\n.loc 1 70 1\nbar.sync 0;\nbra END;\nONE:\n.loc 1 71 1\nbar.sync 1;\n"
                            "END:\n"));
  two.run(1, 64, 0);
  CHECK(two.found("a barrier is never completed: warp 0 at line 71, warp 1 at line 70 wait; 0 warps have ended"));
}

TEST_CASE("a shuffle needs the lanes that it names") {
  const std::string half = "setp.lt.u32 %p1, %r1, 16;\n";
  trial ended(kernel_text(0, half + "@%p1 exit;\n.loc 1 60 1\nshfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;\n"));
  ended.run(1, 32, 0);
  CHECK(ended.found("it names lanes that have ended"));
  CHECK(ended.found("kernel.cu:60"));
  trial apart(kernel_text(0, half + "@%p1 shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;\n"));
  apart.run(1, 32, 0);
  CHECK(apart.found("lanes of a warp wait at different places"));
  trial beyond(kernel_text(0, half + "@%p1 shfl.sync.bfly.b32 %r3, %r1, 16, 31, 0xffff;\n"));
  beyond.run(1, 32, 0);
  CHECK(beyond.found("a shuffle reads lane 16, which takes no part"));
  trial short_warp(kernel_text(0, "shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;\n"));
  short_warp.run(1, 16, 0);
  CHECK(short_warp.found("it names lanes that the block doesn't have"));
}

TEST_CASE("what isn't known is refused by its words, and only when it is asked for") {
  trial t(kernel_text(0, "frob.f32 %f1, %f2;\n"));
  CHECK_THROWS_WITH(t.run(1, 1, 0), "the device on the host doesn't know 'frob.f32 %f1, %f2', in k");
  CHECK_THROWS_WITH(t.unit.find("none"), "the program has no PTX of the kernel none");
}

TEST_CASE("two waits at one line are told apart by who called it") {
  const auto sync = [](int caller) {
    const std::string line = std::to_string(caller);
    return ".loc 1 " + line + " 3\n.loc 2 99 5, function_name $L__info_string0, inlined_at 1 " + line +
           " 3\nbar.sync 0;\n";
  };
  trial t(
      kernel_text(0, "setp.lt.u32 %p1, %r1, 4;\n@%p1 bra FEW;\n" + sync(8) + "bra END;\nFEW:\n" + sync(9) + "END:\n") +
      ".file 2 \"inner.cuh\"\n");
  t.run(1, 32, 0);
  CHECK(t.found("0000000f at line 99, called from kernel.cu:9"));
  CHECK(t.found("fffffff0 at line 99, called from kernel.cu:8"));
}

TEST_CASE("a function that is declared alone keeps no kernel from running") {
  trial t(".extern .func (.param .b32 func_retval0) vprintf\n(\n.param .b64 vprintf_param_0\n)\n;\n" +
          kernel_text(1, "st.global.u32 [%rd1], %r1;\n"));
  std::uint32_t* const out = t.make(std::vector<std::uint32_t>{7});
  t.run(1, 1, 0, out);
  CHECK(*out == 0);
}

TEST_CASE("who called a line is named too") {
  trial t(
      kernel_text(
          1,
          ".loc 1 8 3\n.loc 2 99 5, function_name $L__info_string0, inlined_at 1 8 3\nst.global.u32 [%rd1], %r1;\n") +
      ".file 2 \"inner.cuh\"\n");
  t.run(1, 1, 0, std::uint64_t{64});
  CHECK(t.found("at inner.cuh:99, called from kernel.cu:8"));
}
