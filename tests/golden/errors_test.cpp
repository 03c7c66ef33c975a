// No operator is off by more than four times as much as PyTorch's is, and none where PyTorch's is exact, over data made
// to hurt, on any instruction set. make_errors.py wrote errors.inc: how far PyTorch is from its own float64, by the
// same data and measure.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;
using std::int64_t;
using doubles = std::vector<double>;

struct pytorch_error {
  const char *name, *what, *data, *type, *measure;
  double error;
};
constexpr pytorch_error pytorch[] = {
#include "errors.inc"
};

struct data_kind {
  int64_t rows, columns;
  double (*number)(double);  // of a hash in [0, 1)
};
double ordinary(double u) { return 8 * u - 4; }
double equal(double) { return 0.1; }
const std::map<std::string, data_kind> kinds{
    {"ordinary", {8, 500, ordinary}},
    {"equal", {8, 500, equal}},
    {"offset", {8, 500, [](double u) { return 1000 + u; }}},
    {"shifted", {8, 500, [](double u) { return 30 + u; }}},
    {"large", {8, 500, [](double u) { return 2e4 * (u - 0.5); }}},
    {"tiny", {8, 500, [](double u) { return (u - 0.5) * 0x1p-124; }}},
    {"long", {2, 100003, ordinary}},
    {"tall", {100003, 2, equal}},
    {"one", {5, 1, ordinary}},
};
double hashed(int64_t i, std::uint32_t salt) {
  std::uint32_t x = static_cast<std::uint32_t>(i) * 16 + salt;
  x = (x ^ (x >> 16)) * 0x7FEB352D;
  x = (x ^ (x >> 15)) * 0x846CA68B;
  return static_cast<double>(x ^ (x >> 16)) / 0x1p32;
}

// An operator over one kind of data, in T over the numbers of Narrow: T is that, or double.
template <class Narrow, class T>
struct trial {
  context& ctx;
  data_kind kind;
  std::map<std::string, doubles> made{};

  using tall = tensor<T, dims<batch, hidden>>;
  using row = tensor<T, dims<hidden>>;
  using heads_of = tensor<T, dims<batch, seq, heads, head_dim>>;

  template <class X>
  X numbers(std::uint32_t salt, std::initializer_list<int64_t> extents, double (*number)(double),
            bool positive = false) {
    const auto f = [=](int64_t i) {
      const double v = number(hashed(i, salt));
      return static_cast<double>(static_cast<accumulate_t<Narrow>>(static_cast<Narrow>(positive ? std::abs(v) : v)));
    };
    return generate<X>(ctx, extents, f).requires_grad();
  }
  tall given(std::uint32_t salt, bool positive = false) {
    return numbers<tall>(salt, {kind.rows, kind.columns}, kind.number, positive);
  }
  row of_weight(std::uint32_t salt) { return numbers<row>(salt, {kind.columns}, ordinary); }

  template <class X>
  static doubles wide(const X& x) {
    doubles out;
    for (const auto v : on_host(x))
      out.push_back(static_cast<double>(static_cast<accumulate_t<typename X::element_type>>(v)));
    return out;
  }
  template <class X>
  void keep_gradient(const char* name, const X& x) {
    made[name] = wide(x.grad());
  }
  // An output, whose gradient then is `dy`.
  template <class Y>
  void keep(const Y& y, std::initializer_list<int64_t> extents) {
    made["y"] = wide(y);
    backward(sum(y * detach(numbers<Y>(9, extents, ordinary))));
  }

  void unary(const std::function<tall(const tall&)>& f, bool positive = false) {
    tall x = given(1, positive);
    keep(f(x), {kind.rows, kind.columns});
    keep_gradient("dx", x);
  }
  void binary(const std::function<tall(const tall&, const tall&)>& f) {
    tall a = given(1), b = given(2, true);
    keep(f(a, b), {kind.rows, kind.columns});
    keep_gradient("da", a), keep_gradient("db", b);
  }

  void run(const std::string& name);
};

template <class Narrow, class T>
void trial<Narrow, T>::run(const std::string& name) {
  const int64_t rows = kind.rows, columns = kind.columns;
  const std::map<std::string, std::function<tall(const tall&)>> unaries{
      {"exp", [](const tall& x) { return exp(x); }},
      {"log", [](const tall& x) { return log(x); }},
      {"sqrt", [](const tall& x) { return sqrt(x); }},
      {"rsqrt", [](const tall& x) { return rsqrt(x); }},
      {"reciprocal", [](const tall& x) { return reciprocal(x); }},
      {"square", [](const tall& x) { return square(x); }},
      {"abs", [](const tall& x) { return abs(x); }},
      {"tanh", [](const tall& x) { return tanh(x); }},
      {"sigmoid", [](const tall& x) { return sigmoid(x); }},
      {"relu", [](const tall& x) { return relu(x); }},
      {"silu", [](const tall& x) { return silu(x); }},
      {"gelu", [](const tall& x) { return gelu(x); }},
      {"gelu_exact", [](const tall& x) { return gelu_exact(x); }},
      {"scale", [](const tall& x) { return scale(x, 0.3); }},
      {"softmax", [](const tall& x) { return softmax<hidden>(x); }},
  };
  const std::map<std::string, std::function<tall(const tall&, const tall&)>> binaries{
      {"plus", [](const tall& a, const tall& b) { return a + b; }},
      {"times", [](const tall& a, const tall& b) { return a * b; }},
      {"over", [](const tall& a, const tall& b) { return a / b; }},
      {"swiglu", [](const tall& a, const tall& b) { return swiglu(a, b); }},
  };
  if (const auto f = unaries.find(name); f != unaries.end())
    return unary(f->second, name == "log" || name.ends_with("sqrt"));
  if (const auto f = binaries.find(name); f != binaries.end()) return binary(f->second);
  if (name == "attention") {
    const auto some = [&](std::uint32_t salt) { return numbers<heads_of>(salt, {1, 40, 2, 16}, kind.number); };
    heads_of q = some(1), k = some(2), v = some(3);
    keep(attention(q, k, v), {1, 40, 2, 16});
    keep_gradient("dq", q), keep_gradient("dk", k), keep_gradient("dv", v);
    return;
  }
  if (name == "embedding") {
    tall table = numbers<tall>(1, {2, columns}, kind.number);
    const auto ids = generate<tensor<std::int32_t, dims<seq>>>(ctx, {rows}, [](int64_t i) { return double(i % 2); });
    keep(embedding(ids, rename<batch, vocab>(table)), {rows, columns});
    keep_gradient("dtable", table);
    return;
  }
  tall x = given(1);
  if (name == "sum") keep(sum<hidden>(x), {rows});
  if (name == "sum_rows") keep(sum<batch>(x), {columns});
  if (name == "mean") keep(mean<hidden>(x), {rows});
  if (name == "cross_entropy") {
    const auto targets =
        generate<tensor<std::int32_t, dims<batch>>>(ctx, {rows}, [=](int64_t i) { return double(i % columns); });
    const auto l = cross_entropy(rename<hidden, vocab>(x), targets);
    made["y"] = wide(l.sum);
    backward(l.sum);
  }
  if (name == "contract") {
    auto b = numbers<tensor<T, dims<ffn, hidden>>>(2, {3, columns}, ordinary);
    keep(contract<hidden>(x, b), {rows, 3});
    keep_gradient("da", x), keep_gradient("db", b);
    return;
  }
  if (name.ends_with("_norm")) {
    row w = of_weight(2), b = of_weight(3);
    keep(name == "rms_norm" ? rms_norm(x, w, 1e-5) : layer_norm(x, w, b, 1e-5), {rows, columns});
    keep_gradient("dw", w);
    if (name == "layer_norm") keep_gradient("db", b);
  }
  keep_gradient("dx", x);
}

struct difference {
  double absolute = 0, relative = 0;  // the largest, and the largest over the number itself
  double size = 0;                    // of the largest number
};
template <class Narrow>
difference difference_of(const doubles& got, doubles exact) {
  const double most = std::is_same_v<Narrow, float> ? std::numeric_limits<float>::max() : 0x1.fep127;
  difference d;
  REQUIRE(got.size() == exact.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::abs(exact[i]) > most) exact[i] = std::copysign(INFINITY, exact[i]);
    const double size = std::isfinite(exact[i]) ? std::abs(exact[i]) : 0;
    d.size = std::max(d.size, size);
    if (got[i] == exact[i] || (std::isnan(got[i]) && std::isnan(exact[i]))) continue;
    const double off = std::abs(got[i] - exact[i]);
    d.absolute = std::isfinite(off) ? std::max(d.absolute, off) : INFINITY;
    d.relative = std::isfinite(off) ? std::max(d.relative, off / std::max(size, 0x1p-126)) : INFINITY;
  }
  return d;
}

// All lines of errors.inc of one type.
template <class Narrow>
void errors_of(const std::string& type, double rounding) {
  const cpu::isa before = cpu::current_isa();
  std::string name, data;
  std::map<std::string, doubles> exact;
  std::map<cpu::isa, std::map<std::string, doubles>> got;
  for (const pytorch_error& line : pytorch) {
    if (type != line.type) continue;
    if (name != line.name || data != line.data) {
      name = line.name, data = line.data;
      launch<strategy<mesh<>>>({}, [&](context& ctx) {
        trial<Narrow, double> t{ctx, kinds.at(data)};
        t.run(name), exact = t.made;
      });
      got.clear();
      for (const cpu::isa level :
           {cpu::isa::portable, cpu::isa::avx2, cpu::isa::avx512, cpu::isa::avx512_bf16, cpu::isa::amx}) {
        if (!cpu::has_isa(level)) continue;
        cpu::use_isa(level);
        launch<strategy<mesh<>>>({}, [&](context& ctx) {
          trial<Narrow, Narrow> t{ctx, kinds.at(data)};
          t.run(name), got[level] = t.made;
        });
        cpu::use_isa(before);
      }
    }
    CAPTURE(name);
    CAPTURE(data);
    CAPTURE(type);
    CAPTURE(std::string(line.what));
    REQUIRE(exact.contains(line.what));
    for (const auto& on_level : got) {
      INFO("instruction set ", std::string(cpu::name_of(on_level.first)));
      const difference d = difference_of<Narrow>(on_level.second.at(line.what), exact.at(line.what));
      const bool of_each = std::string(line.measure) == "each";
      const double least = of_each ? rounding : rounding * d.size;
      CHECK((of_each ? d.relative : d.absolute) <= (line.error == 0 ? 0 : 4 * std::max(line.error, least)));
    }
  }
}

}  // namespace

TEST_CASE("fp32: at most four times PyTorch's error") { errors_of<float>("fp32", 0x1p-25); }
TEST_CASE("bf16: at most four times PyTorch's error") { errors_of<bf16>("bf16", 0x1p-10); }
