// Opcodes against the host's C++, over numbers that are made to hurt. Each kernel reads a and b of 64 bits, of which it
// takes what it needs, and writes 64 bits.
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <doctest/doctest.h>

#include "trial.hpp"

using device_test::kernel_text;
using device_test::trial;

namespace {

using u64 = std::uint64_t;
using u32 = std::uint32_t;

// `code` finds a, b in %rd10, %rd11, their lower halves in %r10, %r11 and %f10, %f11, and them as %fd10, %fd11; it
// leaves what it makes in %rd12.
std::vector<u64> outputs(const std::string& code, const std::vector<u64>& a, const std::vector<u64>& b) {
  trial t(kernel_text(
      3,
      "mul.wide.u32 %rd20, %r1, 8;\nadd.s64 %rd21, %rd1, %rd20;\nadd.s64 %rd22, %rd2, %rd20;\nadd.s64 %rd23, "
      "%rd3, %rd20;\nld.global.u64 %rd10, [%rd21];\nld.global.u64 %rd11, [%rd22];\ncvt.u32.u64 %r10, %rd10;\n"
      "cvt.u32.u64 %r11, %rd11;\nmov.b32 %f10, %r10;\nmov.b32 %f11, %r11;\nmov.b64 %fd10, %rd10;\nmov.b64 "
      "%fd11, %rd11;\n" +
          code + "\nst.global.u64 [%rd23], %rd12;\n"));
  u64* const out = t.make<u64>(a.size());
  t.run(1, static_cast<unsigned>(a.size()), 0, t.make(a), t.make(b), out);
  REQUIRE(t.all() == "");
  return {out, out + a.size()};
}

// All pairs of some numbers that hurt and some random ones.
template <class T>
void pairs(std::vector<u64>& a, std::vector<u64>& b) {
  std::vector<u64> some;
  const auto add = [&](T x) {
    u64 bits = 0;
    std::memcpy(&bits, &x, sizeof x);
    some.push_back(bits);
  };
  using limits = std::numeric_limits<T>;
  std::mt19937_64 draw(3);
  if constexpr (std::is_integral_v<T>) {
    for (const T x :
         {T(0), T(1), T(2), T(7), T(31), T(33), limits::max(), limits::min(), static_cast<T>(-1), static_cast<T>(-7)})
      add(x);
    while (some.size() < 24) add(static_cast<T>(draw()));
  } else {
    for (const T x :
         {T(0), T(-0.0), T(1), T(-1), T(0.5), T(1.5), T(2.5), T(-2.5), limits::infinity(), -limits::infinity(),
          limits::quiet_NaN(), limits::max(), limits::min(), limits::denorm_min(), T(65519), T(65520), T(1e-6)})
      add(x);
    while (some.size() < 24)
      add(static_cast<T>(
          std::ldexp(static_cast<double>(draw() >> 11) * 0x1p-53 - 0.5, static_cast<int>(draw() % 40) - 20)));
  }
  for (const u64 x : some)
    for (const u64 y : some) a.push_back(x), b.push_back(y);
}

// Bits, where NaN is as good as NaN.
template <class T>
bool same(T x, T y) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(x) && std::isnan(y)) return true;
  return std::memcmp(&x, &y, sizeof x) == 0;
}
template <class T>
T as(u64 bits) {
  T x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
// want(a, b) of type Out, from numbers of type In.
template <class In, class Out, class F>
void check(const std::string& code, F want) {
  std::vector<u64> a, b;
  pairs<In>(a, b);
  const std::vector<u64> got = outputs(code, a, b);
  int wrong = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Out expected = want(as<In>(a[i]), as<In>(b[i]));
    if (same(as<Out>(got[i]), expected)) continue;
    ++wrong;
    MESSAGE(code << " of " << a[i] << " and " << b[i] << " is " << got[i]);
    break;
  }
  CHECK(wrong == 0);
}
const std::string from_r12 = "\ncvt.u64.u32 %rd12, %r12;", from_f12 = "\nmov.b32 %r12, %f12;" + from_r12,
                  from_fd12 = "\nmov.b64 %rd12, %fd12;";

}  // namespace

TEST_CASE("integers") {
  using i32 = std::int32_t;
  using i64 = std::int64_t;
  check<u32, u32>("add.s32 %r12, %r10, %r11;" + from_r12, [](u32 a, u32 b) { return a + b; });
  check<u32, u32>("sub.s32 %r12, %r10, %r11;" + from_r12, [](u32 a, u32 b) { return a - b; });
  check<u32, u32>("mul.lo.s32 %r12, %r10, %r11;" + from_r12, [](u32 a, u32 b) { return a * b; });
  check<i32, i32>("mul.hi.s32 %r12, %r10, %r11;" + from_r12,
                  [](i32 a, i32 b) { return static_cast<i32>(i64{a} * b >> 32); });
  check<u32, u64>("mul.wide.u32 %rd12, %r10, %r11;", [](u32 a, u32 b) { return u64{a} * b; });
  check<i32, i64>("mul.wide.s32 %rd12, %r10, %r11;", [](i32 a, i32 b) { return i64{a} * b; });
  check<u32, u32>("mad.lo.s32 %r12, %r10, %r11, %r10;" + from_r12, [](u32 a, u32 b) { return a * b + a; });
  check<u32, u32>("div.u32 %r12, %r10, %r11;" + from_r12, [](u32 a, u32 b) { return b ? a / b : ~0u; });
  check<i64, i64>("div.s64 %rd12, %rd10, %rd11;", [](i64 a, i64 b) {
    return b == 0 ? -1 : b == -1 ? static_cast<i64>(0 - static_cast<u64>(a)) : a / b;
  });
  check<i64, i64>("rem.s64 %rd12, %rd10, %rd11;", [](i64 a, i64 b) { return b == 0 ? a : b == -1 ? 0 : a % b; });
  check<i32, i32>("min.s32 %r12, %r10, %r11;" + from_r12, [](i32 a, i32 b) { return a < b ? a : b; });
  check<i64, i64>("max.s64 %rd12, %rd10, %rd11;", [](i64 a, i64 b) { return a > b ? a : b; });
  check<i32, i64>("cvt.s64.s32 %rd12, %r10;", [](i32 a, i32) { return i64{a}; });
  check<u32, u32>("shl.b32 %r12, %r10, %r11;" + from_r12, [](u32 a, u32 b) { return b > 31 ? 0 : a << b; });
  check<i32, i32>("shr.s32 %r12, %r10, %r11;" + from_r12,
                  [](i32 a, i32 b) { return a >> std::min(static_cast<u32>(b), 31u); });
  check<u64, u64>("shr.u64 %rd12, %rd10, %r11;",
                  [](u64 a, u64 b) { return static_cast<u32>(b) > 63 ? 0 : a >> static_cast<u32>(b); });
  check<u32, u32>("xor.b32 %r12, %r10, %r11;" + from_r12, [](u32 a, u32 b) { return a ^ b; });
  check<u32, u32>("lop3.b32 %r12, %r10, %r11, %r10, 0x96;" + from_r12, [](u32, u32 b) { return b; });  // x ^ y ^ x
  check<u32, u32>("prmt.b32 %r12, %r10, %r11, 0x1032;" + from_r12, [](u32 a, u32) { return a << 16 | a >> 16; });
  check<u32, u32>("prmt.b32 %r12, %r10, %r11, 0x7604;" + from_r12,
                  [](u32 a, u32 b) { return (b & 0xffff0000u) | (a & 255) << 8 | (b & 255); });
  check<u32, u32>("shf.l.wrap.b32 %r12, %r10, %r11, 5;" + from_r12, [](u32 a, u32 b) { return b << 5 | a >> 27; });
  check<u32, u32>("bfe.u32 %r12, %r10, 4, 9;" + from_r12, [](u32 a, u32) { return a >> 4 & 511; });
  check<u32, u32>("bfi.b32 %r12, %r10, %r11, 8, 8;" + from_r12,
                  [](u32 a, u32 b) { return (b & ~0xff00u) | (a & 255) << 8; });
  check<u32, u32>("popc.b32 %r12, %r10;" + from_r12, [](u32 a, u32) { return static_cast<u32>(std::popcount(a)); });
  check<u32, u32>("clz.b32 %r12, %r10;" + from_r12, [](u32 a, u32) { return static_cast<u32>(std::countl_zero(a)); });
}

TEST_CASE("floating numbers") {
  check<float, float>("add.f32 %f12, %f10, %f11;" + from_f12, [](float a, float b) { return a + b; });
  check<float, float>("mul.rn.f32 %f12, %f10, %f11;" + from_f12, [](float a, float b) { return a * b; });
  check<float, float>("fma.rn.f32 %f12, %f10, %f11, %f10;" + from_f12,
                      [](float a, float b) { return std::fma(a, b, a); });
  check<float, float>("div.rn.f32 %f12, %f10, %f11;" + from_f12, [](float a, float b) { return a / b; });
  check<double, double>("fma.rn.f64 %fd12, %fd10, %fd11, %fd10;" + from_fd12,
                        [](double a, double b) { return std::fma(a, b, a); });
  check<double, double>("sqrt.rn.f64 %fd12, %fd10;" + from_fd12, [](double a, double) { return std::sqrt(a); });
  check<float, float>("neg.f32 %f12, %f10;" + from_f12, [](float a, float) { return -a; });
  check<float, float>("copysign.f32 %f12, %f10, %f11;" + from_f12,
                      [](float a, float b) { return std::copysign(b, a); });
  // Of NaN and a number the number; of zeros the negative one is less.
  check<float, float>("min.f32 %f12, %f10, %f11;" + from_f12,
                      [](float a, float b) { return a == 0 && b == 0 ? (std::signbit(a) ? a : b) : std::fmin(a, b); });
  check<double, double>("max.f64 %fd12, %fd10, %fd11;" + from_fd12, [](double a, double b) {
    return a == 0 && b == 0 ? (std::signbit(a) ? b : a) : std::fmax(a, b);
  });
  // Towards minus infinity: an exact sum in double lies between what nearest rounds to and its neighbours.
  check<float, float>("add.rm.f32 %f12, %f10, %f11;" + from_f12, [](float a, float b) {
    const float near = a + b;
    if (!std::isfinite(a) || !std::isfinite(b)) return near;
    if (std::isinf(near)) return near > 0 ? std::numeric_limits<float>::max() : near;
    const double exact = static_cast<double>(a) + b,
                 other = static_cast<double>(a) - (exact - b) + (b - (exact - (exact - b)));
    const double below = static_cast<double>(near) - exact;
    if (a == -b && near == 0 && !(a == 0 && std::signbit(a) == std::signbit(b))) return -0.0f;
    return below > 0 || (below == 0 && other < 0) ? std::nextafter(near, -std::numeric_limits<float>::infinity())
                                                  : near;
  });
  check<float, float>("cvt.sat.f32.f32 %f12, %f10;" + from_f12,
                      [](float a, float) { return a > 0 ? std::min(a, 1.0f) : 0.0f; });
}

TEST_CASE("comparisons, with NaN on either side") {
  const auto one = [](const char* relation, auto holds) {
    check<float, u32>(std::string("setp.") + relation + ".f32 %p1, %f10, %f11;\nselp.u32 %r12, 1, 0, %p1;" + from_r12,
                      [&](float a, float b) { return u32{holds(a, b)}; });
  };
  one("lt", [](float a, float b) { return a < b; });
  one("ne", [](float a, float b) { return a < b || a > b; });
  one("neu", [](float a, float b) { return a != b; });
  one("geu", [](float a, float b) { return !(a < b); });
  one("ltu", [](float a, float b) { return !(a >= b); });
  one("nan", [](float a, float b) { return std::isnan(a) || std::isnan(b); });
  one("num", [](float a, float b) { return !std::isnan(a) && !std::isnan(b); });
  check<u32, u32>(
      "setp.lt.u32 %p1, %r10, %r11;\nsetp.gt.and.u32 %p2|%p3, %r10, 5, !%p1;\nselp.u32 %r12, 1, 0, %p2;\n@%p3 "
      "add.u32 %r12, %r12, 2;" +
          from_r12,
      [](u32 a, u32 b) { return u32{a > 5 && a >= b} + 2 * u32{!(a > 5) && a >= b}; });
}

TEST_CASE("conversions round once and stay within their type") {
  using i64 = std::int64_t;
  using i32 = std::int32_t;
  check<float, i32>("cvt.rzi.s32.f32 %r12, %f10;" + from_r12, [](float a, float) {
    return std::isnan(a) ? 0 : a >= 0x1p31f ? INT32_MAX : a < -0x1p31f ? INT32_MIN : static_cast<i32>(a);
  });
  check<double, i64>("cvt.rzi.s64.f64 %rd12, %fd10;", [](double a, double) {
    return std::isnan(a) || a < -0x1p63 ? INT64_MIN : a >= 0x1p63 ? INT64_MAX : static_cast<i64>(a);
  });
  check<float, float>("cvt.rni.f32.f32 %f12, %f10;" + from_f12, [](float a, float) { return std::nearbyint(a); });
  check<i64, float>("cvt.rn.f32.s64 %f12, %rd10;" + from_f12, [](i64 a, i64) { return static_cast<float>(a); });
  check<double, float>("cvt.rn.f32.f64 %f12, %fd10;" + from_f12,
                       [](double a, double) { return static_cast<float>(a); });
  // To 16 bits and back: the nearest of all numbers of that type, of two alike the even one.
  const auto nearest_of = [](float x, int fraction, int least, float most) {
    if (!std::isfinite(x) || x == 0) return x;
    int e;
    std::frexp(x, &e);
    const int step = std::max(e - 1, least) - fraction;
    const double rounded = std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(x), -step)), step);
    return std::fabs(rounded) > most ? std::copysign(std::numeric_limits<float>::infinity(), x)
                                     : static_cast<float>(rounded);
  };
  check<float, float>("cvt.rn.f16.f32 %rs1, %f10;\ncvt.f32.f16 %f12, %rs1;" + from_f12,
                      [&](float a, float) { return nearest_of(a, 10, -14, 65504.0f); });
  check<float, float>("cvt.rn.bf16.f32 %rs1, %f10;\ncvt.f32.bf16 %f12, %rs1;" + from_f12,
                      [&](float a, float) { return nearest_of(a, 7, -126, 0x1.fep127f); });
  check<float, float>(
      "cvt.rn.f16x2.f32 %r12, %f11, %f10;\nmov.b32 {%rs1, %rs2}, %r12;\ncvt.f32.f16 %f12, %rs1;" + from_f12,
      [&](float a, float) { return nearest_of(a, 10, -14, 65504.0f); });
}

TEST_CASE("arithmetic of 16 bits rounds once, one number or two at a time") {
  const auto of = [](bool bf16, auto with) {
    const std::string type = bf16 ? "bf16" : "f16";
    const auto nearest = [=](long double x) {
      if (!std::isfinite(x) || x == 0) return static_cast<float>(x);
      const int step = std::max(std::ilogb(x), bf16 ? -126 : -14) - (bf16 ? 7 : 10);
      const long double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -step)), step);
      return std::fabs(rounded) > (bf16 ? 0x1.fep127L : 65504.0L)
                 ? std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(x))
                 : static_cast<float>(rounded);
    };
    // Both are numbers of 16 bits first; then once alone, and once as the upper one of a pair whose lower one is b op
    // b.
    const auto one = [&](const std::string& name, const std::string& more, auto want) {
      const auto judge = [=](float a, float b) {
        return nearest(want(static_cast<long double>(nearest(a)), static_cast<long double>(nearest(b))));
      };
      const std::string given = "cvt.rn." + type + ".f32 %rs1, %f10;\ncvt.rn." + type + ".f32 %rs2, %f11;\n";
      const std::string third = more.empty() ? "" : ", %rs1", both = more.empty() ? "" : ", %r13";
      const std::string last = "cvt.f32." + type + " %f12, %rs3;" + from_f12;
      check<float, float>(given + name + "." + type + " %rs3, %rs1, %rs2" + third + ";\n" + last, judge);
      const std::string pairs = given + "mov.b32 %r13, {%rs2, %rs1};\nmov.b32 %r14, {%rs2, %rs2};\n" + name + "." +
                                type + "x2 %r15, %r13, %r14" + both + ";\n";
      check<float, float>(pairs + "mov.b32 {%rs4, %rs3}, %r15;\n" + last, judge);
      check<float, float>(pairs + "mov.b32 {%rs3, %rs4}, %r15;\n" + last, [=](float, float b) { return judge(b, b); });
    };
    with(one);
  };
  using wide = long double;
  for (const bool bf16 : {false, true})
    of(bf16, [](auto one) {
      one("add.rn", "", [](wide a, wide b) { return a + b; });
      one("sub", "", [](wide a, wide b) { return a - b; });
      one("mul.rn", "", [](wide a, wide b) { return a * b; });
      one("mul.sat", "", [](wide a, wide b) { return a * b > 0 ? std::min(a * b, wide{1}) : wide{0}; });
      one("fma.rn", "a", [](wide a, wide b) { return a * b + a; });
      one("min", "", [](wide a, wide b) { return a == 0 && b == 0 ? (std::signbit(a) ? a : b) : std::fmin(a, b); });
      one("max.NaN", "", [](wide a, wide b) {
        return std::isnan(a) || std::isnan(b) ? a + b : a == 0 && b == 0 ? (std::signbit(a) ? b : a) : std::fmax(a, b);
      });
    });
  // A little below the middle of two neighbours, by less than a double has room for.
  check<float, float>(
      "mov.f32 %f1, 0f40E00000;\nmov.f32 %f2, 0f42140000;\nmov.f32 %f3, 0f97800000;\n"  // 7 * 37 - 2^-80
      "cvt.rn.bf16.f32 %rs1, %f1;\ncvt.rn.bf16.f32 %rs2, %f2;\ncvt.rn.bf16.f32 %rs3, %f3;\n"
      "fma.rn.bf16 %rs4, %rs1, %rs2, %rs3;\ncvt.f32.bf16 %f12, %rs4;" +
          from_f12,
      [](float, float) { return 258.0f; });
  check<u32, u32>("neg.f16x2 %r12, %r10;\nabs.bf16x2 %r12, %r12;" + from_r12,
                  [](u32 a, u32) { return a & 0x7fff7fffu; });
}

TEST_CASE("functions that a device approximates are exact to the host's last bit") {
  check<float, float>("ex2.approx.f32 %f12, %f10;" + from_f12, [](float a, float) { return std::exp2(a); });
  check<float, float>("ex2.approx.ftz.f32 %f12, %f10;" + from_f12, [](float a, float) {
    const float x = std::exp2(std::fabs(a) < 0x1p-126f ? 0.0f : a);
    return x < 0x1p-126f ? 0.0f : x;
  });
  check<float, float>("rcp.rn.f32 %f12, %f10;" + from_f12, [](float a, float) { return 1 / a; });
}

TEST_CASE("a product of matrices from shared memory, straight and transposed, by its definition") {
  // A is [16, 16] and B [16, 8] of bf16, small whole numbers: every sum is exact. A's four matrices are loaded
  // straight; B's two, which lie by rows, transposed.
  for (const bool f16 : {false, true}) {
    const std::string type = f16 ? "f16" : "bf16";
    trial t(kernel_text(
        3,
        "mov.u32 %r5, dynamic;\n"
        // 768 bytes: thread i copies 24, in words of 8
        "mul.wide.u32 %rd10, %r1, 24;\nadd.s64 %rd11, %rd1, %rd10;\nmul.lo.u32 %r6, %r1, 24;\nadd.s32 %r6, "
        "%r5, %r6;\nld.global.u64 %rd12, [%rd11];\nst.shared.u64 [%r6], %rd12;\nld.global.u64 %rd12, "
        "[%rd11+8];\nst.shared.u64 [%r6+8], %rd12;\nld.global.u64 %rd12, [%rd11+16];\nst.shared.u64 "
        "[%r6+16], %rd12;\nbar.sync 0;\n"
        // rows of A have 32 bytes: matrix i / 8 begins at row 8 (i / 8 % 2), column 8 (i / 16)
        "and.b32 %r7, %r1, 15;\nshl.b32 %r7, %r7, 5;\nshr.u32 %r8, %r1, 4;\nshl.b32 %r8, %r8, 4;\nadd.s32 %r7, "
        "%r7, %r8;\nadd.s32 %r7, %r7, %r5;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, "
        "%r23}, [%r7];\n"
        // rows of B have 16
        "and.b32 %r9, %r1, 15;\nshl.b32 %r9, %r9, 4;\nadd.s32 %r9, %r9, %r5;\n"
        "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r24, %r25}, [%r9+512];\n"
        "mov.f32 %f1, 0f3F800000;\nmma.sync.aligned.m16n8k16.row.col.f32." +
            type + "." + type +
            ".f32 {%f2, %f3, %f4, %f5}, {%r20, %r21, %r22, %r23}, {%r24, %r25}, {%f1, %f1, %f1, %f1};\n"
            "mul.wide.u32 %rd10, %r1, 16;\nadd.s64 %rd10, %rd2, %rd10;\nst.global.v4.f32 [%rd10], {%f2, %f3, "
            "%f4, %f5};\n"));
    std::vector<std::uint16_t> in(16 * 16 + 16 * 8);
    const auto a = [](int i, int k) { return (i * 5 + k * 3) % 7 - 3; };
    const auto b = [](int k, int j) { return (k * 2 + j * 5) % 11 - 5; };
    const auto bits = [&](int x) {
      const auto value = static_cast<float>(x);
      if (!f16) return static_cast<std::uint16_t>(std::bit_cast<u32>(value) >> 16);
      int e;
      const double part = std::frexp(std::fabs(value), &e);
      return x == 0 ? std::uint16_t{0}
                    : static_cast<std::uint16_t>((x < 0 ? 0x8000 : 0) | (e + 14) << 10 |
                                                 (static_cast<int>(part * 2048) & 1023));
    };
    for (int i = 0; i < 16; ++i)
      for (int k = 0; k < 16; ++k) in[static_cast<std::size_t>(16 * i + k)] = bits(a(i, k));
    for (int k = 0; k < 16; ++k)
      for (int j = 0; j < 8; ++j) in[static_cast<std::size_t>(256 + 8 * k + j)] = bits(b(k, j));
    float* const out = t.make<float>(128);
    t.run(1, 32, 768, t.make(in), out, u64{0});
    REQUIRE(t.all() == "");
    for (int lane = 0; lane < 32; ++lane)
      for (int e = 0; e < 4; ++e) {
        const int i = lane / 4 + 8 * (e / 2), j = 2 * (lane % 4) + e % 2;
        int want = 1;
        for (int k = 0; k < 16; ++k) want += a(i, k) * b(k, j);
        CHECK(out[4 * lane + e] == static_cast<float>(want));
      }
  }
}
