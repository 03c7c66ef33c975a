// Opcodes against NVIDIA's assembler: of numbers that it knows ptxas computes the output itself, and what it stores in
// the machine's code has to be what the device on the host computes. Without ptxas the test says so.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../temporary.hpp"
#include "trial.hpp"

namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

// What is in the registers of each type; `code` takes a, b and c of it, and leaves its output in a register of `gives`.
enum class kind { i32, i64, f32, f64 };
struct opcode {
  kind takes, gives;
  std::string code;
};

const std::vector<u64>& numbers_of(kind k) {
  static const std::map<kind, std::vector<u64>> all = {
      {kind::i32, {0, 1, 2, 7, 31, 32, 33, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff9, 0x12345678, 0xdeadbeef}},
      {kind::i64,
       {0, 1, 7, 63, 64, 65, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff, 0xfffffffffffffff9,
        0x123456789abcdef0, 0x00000001fffffffe, 0xdeadbeefcafe1234}},
      // 0, -0, 1, -1, 1.5, -2.5, infinities, NaN, the largest, the least, one without a leading bit, 65520, pi, -1e-6
      {kind::f32,
       {0, 0x80000000, 0x3f800000, 0xbf800000, 0x3fc00000, 0xc0200000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f7fffff,
        0x00800000, 0x00000001, 0x477ff000, 0x40490fdb, 0xb58637bd}},
      {kind::f64,
       {0, 0x8000000000000000, 0x3ff0000000000000, 0x3ff8000000000000, 0xc004000000000000, 0x7ff0000000000000,
        0xfff0000000000000, 0x7ff8000000000000, 0x7fefffffffffffff, 0x0000000000000001, 0x400921fb54442d18,
        0xbeb0c6f7a0b5ed8d}},
  };
  return all.at(k);
}
bool is_nan(kind k, u64 bits) {
  if (k == kind::f32) return (bits & 0x7fffffff) > 0x7f800000;
  return k == kind::f64 && (bits & 0x7fffffffffffffff) > 0x7ff0000000000000;
}
std::string hex(u64 x) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(x));
  return text;
}

struct inputs {
  u64 a, b, c;
};
std::vector<inputs> inputs_of(kind k) {
  const std::vector<u64>& all = numbers_of(k);
  std::vector<inputs> out;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < all.size(); ++j) out.push_back({all[i], all[j], all[(3 * i + 5 * j + 1) % all.size()]});
  return out;
}

// Kernel `name` stores the outputs of all inputs, 8 bytes each. a, b, c are %r10 ..., %rd10 ..., %f10 ..., %fd10 ...;
// the output is %r13, %rd13, %f13 or %fd13.
std::string kernel_of(const std::string& name, const opcode& o) {
  std::string out =
      ".visible .entry " + name +
      "(\n.param .u64 p\n)\n{\n.reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<20>;\n.reg .f32 %f<20>;\n.reg .f64 "
      "%fd<20>;\n.reg .b64 %rd<20>;\nld.param.u64 %rd1, [p];\n";
  const bool wide = o.takes == kind::i64 || o.takes == kind::f64;
  int place = 0;
  for (const inputs& in : inputs_of(o.takes)) {
    for (const auto& [number, bits] : {std::pair("10", in.a), std::pair("11", in.b), std::pair("12", in.c)}) {
      const std::string reg = std::string(wide ? "%rd" : "%r") + number, n = number;
      out += (wide ? "mov.b64 " : "mov.b32 ") + reg + ", " + hex(bits) + ";\n";
      if (o.takes == kind::f32) out += "mov.b32 %f" + n + ", " + reg + ";\n";
      if (o.takes == kind::f64) out += "mov.b64 %fd" + n + ", " + reg + ";\n";
    }
    out += o.code + "\n";
    if (o.gives == kind::f32) out += "mov.b32 %r13, %f13;\n";
    if (o.gives == kind::f64) out += "mov.b64 %rd13, %fd13;\n";
    if (o.gives == kind::i32 || o.gives == kind::f32) out += "cvt.u64.u32 %rd13, %r13;\n";
    out += "st.global.u64 [%rd1+" + std::to_string(8 * place++) + "], %rd13;\n";
  }
  return out + "ret;\n}\n";
}

// The constants that a kernel of sm_90 stores, by their byte's place: those of straight code in which a register gets
// its value from an instruction that holds it. Nothing where the code branches.
std::map<int, u32> stored(const unsigned char* code, std::size_t bytes) {
  constexpr unsigned none = 255;  // the register that is 0
  std::map<int, u32> out;
  std::map<unsigned, u32> known = {{none, 0}};
  for (std::size_t at = 0; at + 16 <= bytes; at += 16) {
    u64 low, high;
    std::memcpy(&low, code + at, 8), std::memcpy(&high, code + at + 8, 8);
    const unsigned what = low & 0xfff, to = low >> 16 & 255, first = low >> 24 & 255, third = high & 255;
    const u32 value = static_cast<u32>(low >> 32);
    const bool always = (low >> 12 & 15) == 7;
    if (what == 0x94d && always) return out;                         // EXIT
    if (what == 0x947 || what == 0x944 || what == 0x94d) return {};  // BRA, CALL, an EXIT of some threads
    if (what == 0x986) {                                             // STG, of 4, 8 or 16 bytes
      const int words = 1 << ((high >> 9 & 7) - 4), place = static_cast<int>(low >> 40 & 0xffffff);
      for (int w = 0; w < words; ++w) {
        const unsigned from =
            (low >> 32 & 255) == none ? none : static_cast<unsigned>(low >> 32 & 255) + static_cast<unsigned>(w);
        if (always && known.count(from)) out[place + 4 * w] = known[from];
      }
      continue;
    }
    const bool nothing_added = first == none && (what == 0x802 || third == none);  // a product of zeros, or none
    std::optional<u32> value_of;
    if (what == 0x802 || ((what == 0x424 || what == 0x435) && nothing_added)) value_of = value;
    if (!always || to == none) value_of = {};
    if (!value_of && to != none) known.erase(to), known.erase(to + 1);  // some write two
    if (value_of) known[to] = *value_of;
  }
  return out;
}
// By kernel, of a file of ptxas's.
std::map<std::string, std::map<int, u32>> stored_in(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  const auto* const bytes = reinterpret_cast<const unsigned char*>(all.data());
  const auto number = [&](std::size_t at, std::size_t size) {
    u64 x = 0;
    REQUIRE(at + size <= all.size());
    std::memcpy(&x, bytes + at, size);
    return x;
  };
  std::map<std::string, std::map<int, u32>> out;
  const u64 sections = number(40, 8), count = number(60, 2), names = number(sections + 64 * number(62, 2) + 24, 8);
  for (u64 s = 0; s < count; ++s) {
    const u64 section = sections + 64 * s, begin = number(section + 24, 8), size = number(section + 32, 8);
    const std::string name = all.c_str() + names + number(section, 4);
    if (name.rfind(".text.", 0) != 0) continue;
    REQUIRE(begin + size <= all.size());
    out[name.substr(6)] = stored(bytes + begin, size);
  }
  return out;
}

std::optional<std::string> assembler() {
  for (const char* const path : {"ptxas", "/usr/local/cuda/bin/ptxas"})
    if (std::system((std::string(path) + " --version >/dev/null 2>&1").c_str()) == 0) return path;
  return {};
}

std::vector<opcode> opcodes() {
  std::vector<opcode> out;
  const auto add = [&](kind takes, kind gives, std::initializer_list<const char*> codes) {
    for (const char* code : codes) out.push_back({takes, gives, code});
  };
  add(kind::i32, kind::i32,
      {"add.s32 %r13, %r10, %r11;",
       "sub.s32 %r13, %r10, %r11;",
       "mul.lo.s32 %r13, %r10, %r11;",
       "mul.hi.s32 %r13, %r10, %r11;",
       "mul.hi.u32 %r13, %r10, %r11;",
       "mad.lo.s32 %r13, %r10, %r11, %r12;",
       "min.s32 %r13, %r10, %r11;",
       "max.u32 %r13, %r10, %r11;",
       "shl.b32 %r13, %r10, %r11;",
       "shr.u32 %r13, %r10, %r11;",
       "shr.s32 %r13, %r10, %r11;",
       "and.b32 %r13, %r10, %r11;",
       "or.b32 %r13, %r10, %r11;",
       "xor.b32 %r13, %r10, %r11;",
       "not.b32 %r13, %r10;",
       "neg.s32 %r13, %r10;",
       "abs.s32 %r13, %r10;",
       "shf.l.wrap.b32 %r13, %r10, %r11, %r12;",
       "shf.r.wrap.b32 %r13, %r10, %r11, %r12;",
       "shf.l.clamp.b32 %r13, %r10, %r11, %r12;",
       "shf.r.clamp.b32 %r13, %r10, %r11, %r12;",
       "bfe.u32 %r13, %r10, %r11, %r12;",
       "bfe.s32 %r13, %r10, 4, 9;",
       "bfi.b32 %r13, %r10, %r11, 8, 8;",
       "brev.b32 %r13, %r10;",
       "popc.b32 %r13, %r10;",
       "clz.b32 %r13, %r10;",
       "setp.lt.s32 %p1, %r10, %r11;\nselp.b32 %r13, %r11, %r12, %p1;"});
  add(kind::i32, kind::i64,
      {"mul.wide.u32 %rd13, %r10, %r11;", "mul.wide.s32 %rd13, %r10, %r11;", "cvt.s64.s32 %rd13, %r10;"});
  add(kind::i32, kind::f32, {"cvt.rn.f32.s32 %f13, %r10;", "cvt.rn.f32.u32 %f13, %r10;"});
  add(kind::i64, kind::i64,
      {"add.s64 %rd13, %rd10, %rd11;", "sub.s64 %rd13, %rd10, %rd11;", "mul.lo.s64 %rd13, %rd10, %rd11;",
       "min.s64 %rd13, %rd10, %rd11;", "max.u64 %rd13, %rd10, %rd11;", "and.b64 %rd13, %rd10, %rd11;",
       "xor.b64 %rd13, %rd10, %rd11;", "mov.b64 {%r10, %r11}, %rd11;\nshl.b64 %rd13, %rd10, %r10;",
       "mov.b64 {%r10, %r11}, %rd11;\nshr.s64 %rd13, %rd10, %r10;"});
  add(kind::f32, kind::f32,
      {"add.rn.f32 %f13, %f10, %f11;", "add.ftz.f32 %f13, %f10, %f11;", "sub.rn.f32 %f13, %f10, %f11;",
       "mul.rn.f32 %f13, %f10, %f11;", "mul.ftz.f32 %f13, %f10, %f11;", "min.f32 %f13, %f10, %f11;",
       "max.f32 %f13, %f10, %f11;", "abs.f32 %f13, %f10;", "neg.f32 %f13, %f10;", "cvt.rni.f32.f32 %f13, %f10;",
       "cvt.rzi.f32.f32 %f13, %f10;", "cvt.rmi.f32.f32 %f13, %f10;", "cvt.sat.f32.f32 %f13, %f10;",
       "setp.ltu.f32 %p1, %f10, %f11;\nselp.f32 %f13, %f11, %f12, %p1;",
       "setp.ge.f32 %p1, %f10, %f11;\nselp.f32 %f13, %f11, %f12, %p1;",
       "cvt.rn.f16.f32 %rs1, %f10;\ncvt.f32.f16 %f13, %rs1;", "cvt.rn.bf16.f32 %rs1, %f10;\ncvt.f32.bf16 %f13, %rs1;"});
  add(kind::f32, kind::i32,
      {"cvt.rni.s32.f32 %r13, %f10;", "cvt.rzi.u32.f32 %r13, %f10;", "cvt.rzi.s32.f32 %r13, %f10;"});
  add(kind::f32, kind::f64, {"cvt.f64.f32 %fd13, %f10;"});
  add(kind::f64, kind::f64, {"min.f64 %fd13, %fd10, %fd11;", "abs.f64 %fd13, %fd10;", "neg.f64 %fd13, %fd10;"});
  add(kind::f64, kind::f32, {"cvt.rn.f32.f64 %f13, %fd10;"});
  add(kind::f64, kind::i32, {"cvt.rzi.s32.f64 %r13, %fd10;"});
  return out;
}

}  // namespace

TEST_CASE("of numbers that are known NVIDIA's assembler computes the same") {
  const auto ptxas = assembler();
  if (!ptxas) {
    MESSAGE("skipped: there is no ptxas here");
    return;
  }
  const std::vector<opcode> all = opcodes();
  std::string text = ".version 9.0\n.target sm_90\n.address_size 64\n";
  for (std::size_t i = 0; i < all.size(); ++i) text += kernel_of("k" + std::to_string(i), all[i]);
  const weft_test::temporary_folder folder;
  const std::string& at = folder.path();
  std::ofstream(folder / "kernels.ptx") << text;
  REQUIRE(std::system((*ptxas + " -arch=sm_90 -O3 -o '" + at + "/cubin' '" + at + "/kernels.ptx'").c_str()) == 0);
  const auto folded = stored_in(at + "/cubin");
  device_test::trial t(text + ".file 1 \"kernel.cu\"\n");
  std::size_t compared = 0, opcodes_compared = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name = "k" + std::to_string(i);
    const std::map<int, u32>& theirs = folded.at(name);
    const std::vector<inputs> in = inputs_of(all[i].takes);
    u64* const out = t.make<u64>(in.size());
    t.gpu.launch(t.unit, t.unit.find(name), {{1, 1, 1}, {1, 1, 1}, 0}, &out);
    REQUIRE(t.all() == "");
    std::size_t of_this = 0;
    for (std::size_t k = 0; k < in.size(); ++k) {
      const int place = static_cast<int>(8 * k);
      if (!theirs.count(place) || !theirs.count(place + 4)) continue;
      const u64 want = theirs.at(place) | u64{theirs.at(place + 4)} << 32;
      ++of_this;
      if (out[k] == want || (is_nan(all[i].gives, out[k]) && is_nan(all[i].gives, want))) continue;
      FAIL_CHECK(all[i].code << " of " << hex(in[k].a) << ", " << hex(in[k].b) << ", " << hex(in[k].c) << " is "
                             << hex(out[k]) << ", and ptxas says " << hex(want));
      break;
    }
    compared += of_this;
    opcodes_compared += of_this > in.size() / 2;
  }
  CHECK(opcodes_compared >= all.size() / 4 * 3);  // another ptxas may leave some to the GPU
  MESSAGE(compared << " outputs, of " << opcodes_compared << " opcodes of " << all.size());
}
