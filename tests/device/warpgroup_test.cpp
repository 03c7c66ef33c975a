// wgmma by its definition, over where its matrices lie; and that the device finds what is wrong around it: registers
// and shared memory touched while a product has them, and fences that were left out.
#include <bit>
#include <functional>

#include <doctest/doctest.h>

#include "trial.hpp"

using device_test::kernel_text;
using device_test::trial;

namespace {

using u64 = std::uint64_t;

std::string list_of(const std::string& name, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += (i ? ", %" : "{%") + name + std::to_string(i);
  return out + "}";
}
// d = a b of a warpgroup; %rd1: 16 KiB that shared memory begins as, %rd2: 4 words of A's registers for each thread,
// %rd3: where each thread's sums go, %rd4 and %rd5: descriptors of A and B. One line each, that a fault changes.
struct product {
  int n = 64;
  std::string a = "%rd4", more = "0, 0",
              type = "bf16";  // more: whether A, if it is in shared memory, and B lie by columns
  std::string proxy = "fence.proxy.async;", meet = "bar.sync 0;", registers = "wgmma.fence.sync.aligned;", before_end,
              end = "wgmma.commit_group.sync.aligned;", before_wait, wait = "wgmma.wait_group.sync.aligned 0;";
  std::string text() const {
    std::string out =
        ".reg .f32 %d<" + std::to_string(n / 2) +
        ">;\n.reg .b32 %a<4>;\n"
        // thread i copies words i, i + 128, ...
        "mov.u32 %r5, dynamic;\nshl.b32 %r6, %r1, 3;\nadd.s32 %r7, %r5, %r6;\nmul.wide.u32 %rd10, %r1, 8;\n"
        "add.s64 %rd11, %rd1, %rd10;\nmov.u32 %r8, 0;\nCOPY:\nld.global.u64 %rd12, [%rd11];\n"
        "st.shared.u64 [%r7], %rd12;\nadd.s64 %rd11, %rd11, 1024;\nadd.s32 %r7, %r7, 1024;\n"
        "add.s32 %r8, %r8, 1;\nsetp.lt.u32 %p1, %r8, 16;\n@%p1 bra COPY;\n"
        "mul.wide.u32 %rd10, %r1, 16;\nadd.s64 %rd11, %rd2, %rd10;\n"
        "ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%rd11];\n";
    for (int i = 0; i < n / 2; ++i) out += "mov.f32 %d" + std::to_string(i) + ", 0f3F800000;\n";
    out += ".loc 1 10 1\n" + proxy + "\n.loc 1 11 1\n" + meet + "\nsetp.eq.u32 %p2, 0, 0;\n.loc 1 12 1\n" + registers +
           "\n.loc 1 13 1\nwgmma.mma_async.sync.aligned.m64n" + std::to_string(n) + "k16.f32." + type + "." + type +
           " " + list_of("d", n / 2) + ", " + a + ", %rd5, %p2, 1, 1, " + more + ";\n.loc 1 14 1\n" + before_end +
           "\n.loc 1 15 1\n" + end + "\n.loc 1 16 1\n" + before_wait + "\n.loc 1 17 1\n" + wait +
           "\n.loc 1 18 1\nmul.wide.u32 %rd10, %r1, " + std::to_string(2 * n) + ";\nadd.s64 %rd10, %rd3, %rd10;\n";
    for (int i = 0; i < n / 2; ++i)
      out += "st.global.f32 [%rd10+" + std::to_string(4 * i) + "], %d" + std::to_string(i) + ";\n";
    return kernel_text(5, out);
  }
};

std::uint16_t bits(int x, bool f16) {  // small whole numbers
  const auto value = static_cast<float>(x);
  const auto all = std::bit_cast<std::uint32_t>(value);
  if (!f16) return static_cast<std::uint16_t>(all >> 16);
  return x == 0 ? std::uint16_t{0}
                : static_cast<std::uint16_t>((all >> 31) << 15 | ((all >> 23 & 255) - 112) << 10 | (all >> 13 & 1023));
}
int a_of(int i, int k) { return (i * 5 + k * 3) % 7 - 3; }
int b_of(int k, int j) { return (k * 2 + j * 5) % 11 - 5; }

// Where a matrix's element (row, k) lies: rows of A, columns of B. As PTX draws it for each swizzle, 128, 64, 32 or 0.
struct placed {
  bool columns;
  int swizzle;
  u64 start, leading, stride;
  u64 descriptor() const {
    const u64 mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
    return start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | mode << 62;
  }
  u64 of(int row, int k) const {
    const auto r = static_cast<u64>(row), c = static_cast<u64>(k), width = static_cast<u64>(swizzle);
    if (!columns && !swizzle) return start + r / 8 * stride + c / 8 * leading + r % 8 * 16 + c % 8 * 2;
    if (columns && !swizzle) return start + r / 8 * stride + c / 8 * leading + c % 8 * 16 + r % 8 * 2;
    const u64 by = 128 / width;  // so many lines share a line of all banks
    if (!columns) return start + r / 8 * stride + r % 8 * width + ((c / 8) ^ (r % 8 / by)) * 16 + c % 8 * 2;
    const u64 across = width / 2;
    return start + r / across * leading + c / 8 * stride + c % 8 * width + ((r % across / 8) ^ (c % 8 / by)) * 16 +
           r % 8 * 2;
  }
};

struct outcome {
  trial t;
  const float* out;
};
// Of A in shared memory or, where a is null, in registers.
void run(trial& t, const product& p, const placed* a, const placed& b, float*& out) {
  std::vector<std::uint8_t> image(16384);
  const bool f16 = p.type == "f16";
  const auto put = [&](u64 at, int x) {
    const std::uint16_t two = bits(x, f16);
    std::memcpy(&image[at], &two, 2);
  };
  for (int k = 0; k < 16; ++k) {
    for (int i = 0; a && i < 64; ++i) put(a->of(i, k), a_of(i, k));
    for (int j = 0; j < p.n; ++j) put(b.of(j, k), b_of(k, j));
  }
  std::vector<std::uint16_t> registers;
  for (int thread = 0; thread < 128; ++thread)
    for (int e = 0; e < 8; ++e) {
      const int lane = thread % 32, row = thread / 32 * 16 + lane / 4 + e / 2 % 2 * 8,
                k = lane % 4 * 2 + e % 2 + e / 4 * 8;
      registers.push_back(bits(a_of(row, k), f16));
    }
  out = t.make<float>(static_cast<std::size_t>(64 * p.n));
  t.run(1, 128, 16384, t.make(image), t.make(registers), out, a ? a->descriptor() : 0, b.descriptor());
}
void is_right(const product& p, const float* out) {
  for (int thread = 0; thread < 128; ++thread)
    for (int e = 0; e < p.n / 2; ++e) {
      const int lane = thread % 32, row = thread / 32 * 16 + lane / 4 + e / 2 % 2 * 8,
                column = e / 4 * 8 + lane % 4 * 2 + e % 2;
      int want = 1;
      for (int k = 0; k < 16; ++k) want += a_of(row, k) * b_of(k, column);
      REQUIRE(out[thread * (p.n / 2) + e] == static_cast<float>(want));
    }
}

const placed rows_of_128{false, 128, 8192, 16, 1024}, first_rows{false, 128, 0, 16, 1024};

}  // namespace

TEST_CASE("a warpgroup's product is what its definition says, wherever its matrices lie") {
  const placed places[] = {{false, 128, 8192, 16, 1024}, {false, 64, 8192, 16, 512},    {false, 32, 8192, 16, 256},
                           {false, 0, 8192, 128, 256},   {true, 128, 8192, 2048, 1024}, {true, 64, 8192, 1024, 512},
                           {true, 32, 8192, 512, 256},   {true, 0, 8192, 128, 256}};
  for (const bool f16 : {false, true})
    for (const int n : {8, 64})
      for (const placed& b : places)
        for (int of_a = 0; of_a < 9; ++of_a) {  // the last: in registers
          if (f16 && (n == 8 || of_a % 4)) continue;
          if (b.columns && b.swizzle > 2 * n) continue;
          placed a = places[of_a % 8];
          a.start = 0;
          product p;
          p.n = n, p.type = f16 ? "f16" : "bf16";
          const std::string of_b = b.columns ? "1" : "0";
          p.more = (a.columns ? "1, " : "0, ") + of_b;
          if (of_a == 8) p.a = "{%a0, %a1, %a2, %a3}", p.more = of_b;
          trial t(p.text());
          float* out;
          run(t, p, of_a == 8 ? nullptr : &a, b, out);
          CAPTURE(of_a);
          CAPTURE(b.swizzle);
          CAPTURE(b.columns);
          REQUIRE(t.all() == "");
          is_right(p, out);
        }
}

TEST_CASE("the second half of 32 columns lies 32 bytes on, whatever is exchanged there") {
  product p;
  trial t(p.text());
  placed a = first_rows, b = rows_of_128;
  // Of a matrix of 64 columns the third and fourth chunk of 16 bytes: its place without swizzling, and then swizzled.
  struct moved : placed {
    u64 operator()(int r, int k) const { return of(r, k + 16); }
  };
  std::vector<std::uint8_t> image(16384);
  const auto put = [&](u64 at, int x) {
    const std::uint16_t two = bits(x, false);
    std::memcpy(&image[at], &two, 2);
  };
  for (int k = 0; k < 16; ++k)
    for (int i = 0; i < 64; ++i) put(moved{a}(i, k), a_of(i, k)), put(moved{b}(i, k), b_of(k, i));
  float* const out = t.make<float>(64 * 64);
  t.run(1, 128, 16384, t.make(image), t.make(std::vector<u64>(256)), out, a.descriptor() + 2, b.descriptor() + 2);
  REQUIRE(t.all() == "");
  is_right(p, out);
}

TEST_CASE("what is wrong around a product is found, at its line") {
  const auto finds = [](const std::function<void(product&)>& change, const std::string& what, const std::string& where,
                        bool a_in_registers = false) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      product p;
      if (a_in_registers) p.a = "{%a0, %a1, %a2, %a3}", p.more = "0";
      change(p);
      trial t(p.text(), seed);
      float* out;
      run(t, p, a_in_registers ? nullptr : &first_rows, rows_of_128, out);
      INFO(t.all());
      CHECK(t.found(what));
      CHECK(t.found("kernel.cu:" + where));
    }
  };
  const std::string touched = "a register is touched that a wgmma in flight has";
  finds([](product& p) { p.registers = ""; }, "a register of wgmma was written with no wgmma.fence after it", "13");
  finds([](product& p) { p.registers += "\nmov.f32 %d3, 0f00000000;"; },
        "a register of wgmma was written with no wgmma.fence after it", "13");
  finds([](product& p) { p.proxy = ""; }, "with no fence.proxy.async between", "13");
  finds([](product& p) { p.meet = ""; }, "a race in shared memory", "13");
  finds([](product& p) { p.wait = ""; }, touched, "18");
  finds([](product& p) { p.wait = "wgmma.wait_group.sync.aligned 1;"; }, touched, "18");
  finds([](product& p) { p.end = ""; }, touched, "18");
  finds([](product& p) { p.end = p.wait = ""; }, "a warp ends with a wgmma in flight", "18");
  finds([](product& p) { p.before_wait = "mov.f32 %f1, %d2;"; }, touched, "16");
  finds([](product& p) { p.before_wait = "mov.f32 %d2, %f1;"; }, touched, "16");
  finds([](product& p) { p.before_wait = "mov.u32 %a1, 7;"; }, touched, "16", true);
  finds([](product& p) { p.before_wait = "mov.u32 %r9, 0;\nst.shared.u32 [%r9+8192], %r9;"; },
        "shared memory is written that a wgmma in flight reads", "16");
  finds([](product& p) { p.registers += "\nsetp.lt.u32 %p3, %r1, 32;\n@%p3 add.s64 %rd5, %rd5, 2;"; },
        "warps of a warpgroup give different products", "13");
  finds([](product& p) { p.registers += "\nsetp.lt.u32 %p3, %r1, 33;\n@%p3 add.s64 %rd5, %rd5, 2;"; },
        "lanes of a warp don't agree on where a matrix lies", "13");
  finds([](product& p) { p.registers += "\nadd.s64 %rd5, %rd5, 4096;"; }, "out of bounds in shared memory", "13");
}

TEST_CASE("registers that warps give and take are no more than the block has; and one lane is elected") {
  const auto asks = [](int fewer, int more) {
    trial t(kernel_text(0, "setp.lt.u32 %p1, %r1, 128;\n@%p1 bra FEWER;\nsetmaxnreg.inc.sync.aligned.u32 " +
                               std::to_string(more) + ";\nbra END;\nFEWER:\nsetmaxnreg.dec.sync.aligned.u32 " +
                               std::to_string(fewer) + ";\nEND:\n"));
    t.run(1, 384, 0);
    return t.all();
  };
  CHECK(asks(24, 240) == "");
  CHECK(asks(40, 240).find("warps ask for 66560 registers, of which the block has 64512") != std::string::npos);
  trial one(kernel_text(1, "elect.sync _|%p1, -1;\n@%p1 red.global.add.u32 [%rd1], 1;\n"));
  std::uint32_t* const sum = one.make(std::vector<std::uint32_t>{0});
  one.run(1, 96, 0, sum);
  CHECK(one.all() == "");
  CHECK(*sum == 3);
}
