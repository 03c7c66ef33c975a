// What operators compute on one rank, against loops over named indices. (Laws tie every placement to one rank's value,
// and gradients to values; here the values are tied to their definitions.)
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include <weft/op/arithmetic.hpp>
#include <weft/op/attention.hpp>
#include <weft/op/contract.hpp>
#include <weft/op/create.hpp>
#include <weft/op/embedding.hpp>
#include <weft/op/reduce.hpp>
#include <weft/op/softmax.hpp>
#include <weft/op/view.hpp>
#include <weft/parallel/launch.hpp>

namespace {

using namespace weft;
template <class... Es>
using real = tensor<double, dims<Es...>>;
using indices = std::map<std::string, std::int64_t>;

void alone(const std::function<void(context&)>& f) { launch<strategy<mesh<dp>>>({}, f); }

template <class X>
X numbers(context& ctx, std::initializer_list<std::int64_t> sizes, const char* name) {
  return normal<X>(ctx, name, sizes);
}

/// The element of x at named indices; others are ignored.
template <any_tensor X>
double at(const X& x, const indices& where) {
  std::int64_t i = 0;
  for (int d = 0; d < dims_of<X>::ndim; ++d)
    i = i * untyped(x).held().shape[d] + where.at(std::string(dims_of<X>::names[d]));
  return double(x.local_share()[i]);
}

/// Calls f at every combination of the named extents.
void each(const indices& sizes, const std::function<void(const indices&)>& f) {
  indices where;
  std::function<void(indices::const_iterator)> go = [&](indices::const_iterator d) {
    if (d == sizes.end()) return f(where);
    for (where[d->first] = 0; where[d->first] < d->second; ++where[d->first]) go(std::next(d));
  };
  go(sizes.begin());
}
template <any_tensor... Xs>
indices sizes_of(const Xs&... xs) {
  indices out;
  const auto add = [&](const auto& x) {
    using X = std::remove_cvref_t<decltype(x)>;
    for (int d = 0; d < dims_of<X>::ndim; ++d) out[std::string(dims_of<X>::names[d])] = untyped(x).held().shape[d];
  };
  (add(xs), ...);
  return out;
}

/// out = sum over the indices that out lacks of f; out has exactly the dimensions Out.
template <class Out, any_tensor Y, class F>
void is_sum(const Y& y, const indices& all, F f) {
  static_assert(std::same_as<dims_of<Y>, Out>);
  std::vector<double> expected(static_cast<std::size_t>(y.local_share().size()), 0.0);
  each(all, [&](const indices& where) {
    std::size_t i = 0;
    for (int d = 0; d < Out::ndim; ++d)
      i = i * static_cast<std::size_t>(untyped(y).held().shape[d]) +
          static_cast<std::size_t>(where.at(std::string(Out::names[d])));
    expected[i] += f(where);
  });
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::abs(expected[i] - y.local_share()[i]));
  CHECK(worst < 1e-12);  // sums of at most 200 products of numbers near 1, in two orders
}

template <class Out, class... Ks, class A, class B>
void contraction(const A& a, const B& b) {
  is_sum<Out>(contract<Ks...>(a, b), sizes_of(a, b), [&](const indices& w) { return at(a, w) * at(b, w); });
}

TEST_CASE("contract sums over the named dimensions, in every order of the others") {
  alone([](context& ctx) {
    contraction<dims<batch, ffn>, hidden>(numbers<real<batch, hidden>>(ctx, {3, 5}, "a"),
                                          numbers<real<hidden, ffn>>(ctx, {5, 4}, "b"));
    contraction<dims<batch, ffn>, hidden>(numbers<real<hidden, batch>>(ctx, {5, 3}, "a"),
                                          numbers<real<ffn, hidden>>(ctx, {4, 5}, "b"));
    contraction<dims<seq, batch, ffn>, hidden>(numbers<real<seq, hidden, batch>>(ctx, {2, 5, 3}, "a"),
                                               numbers<real<ffn, hidden>>(ctx, {4, 5}, "b"));
    contraction<dims<batch, seq, ffn>, hidden, heads>(numbers<real<batch, heads, seq, hidden>>(ctx, {2, 3, 4, 5}, "a"),
                                                      numbers<real<hidden, ffn, heads>>(ctx, {5, 3, 3}, "b"));
    contraction<dims<head_dim, batch, seq, ffn, vocab>, hidden>(
        numbers<real<head_dim, batch, hidden, seq>>(ctx, {2, 3, 4, 5}, "a"),
        numbers<real<hidden, ffn, batch, vocab>>(ctx, {4, 2, 3, 3}, "b"));
    contraction<dims<seq, batch, ffn>, hidden>(numbers<real<hidden, seq, batch>>(ctx, {4, 3, 2}, "a"),
                                               numbers<real<hidden, ffn, batch>>(ctx, {4, 5, 2}, "b"));
    contraction<dims<batch, heads>, seq, hidden>(numbers<real<batch, seq, heads, hidden>>(ctx, {2, 3, 4, 5}, "a"),
                                                 numbers<real<hidden, heads, batch, seq>>(ctx, {5, 4, 2, 3}, "b"));
    contraction<dims<>, seq, hidden>(numbers<real<seq, hidden>>(ctx, {3, 4}, "a"),
                                     numbers<real<hidden, seq>>(ctx, {4, 3}, "b"));
    contraction<dims<batch>, hidden>(numbers<real<batch, hidden>>(ctx, {1, 4}, "a"),
                                     numbers<real<hidden>>(ctx, {4}, "b"));
    contraction<dims<batch, ffn>, hidden>(numbers<real<batch, hidden>>(ctx, {6, 1}, "a"),
                                          numbers<real<hidden, ffn>>(ctx, {1, 7}, "b"));
  });
}

TEST_CASE("arithmetic broadcasts by name") {
  alone([](context& ctx) {
    const auto a = numbers<real<batch, seq, hidden>>(ctx, {2, 3, 4}, "a");
    const auto b = numbers<real<hidden, batch>>(ctx, {4, 2}, "b");
    const auto c = numbers<real<ffn>>(ctx, {5}, "c");
    using abc = dims<batch, seq, hidden>;
    is_sum<abc>(a + b, sizes_of(a, b), [&](const indices& w) { return at(a, w) + at(b, w); });
    is_sum<abc>(a - b, sizes_of(a, b), [&](const indices& w) { return at(a, w) - at(b, w); });
    is_sum<dims<hidden, batch, ffn>>(b * c, sizes_of(b, c), [&](const indices& w) { return at(b, w) * at(c, w); });
    is_sum<dims<hidden, batch, seq>>(b - a, sizes_of(a, b), [&](const indices& w) { return at(b, w) - at(a, w); });
    const auto positive = square(b) + ones<real<>>(ctx, {});
    is_sum<dims<ffn, hidden, batch>>(c / positive, sizes_of(b, c),
                                     [&](const indices& w) { return at(c, w) / (at(b, w) * at(b, w) + 1); });
  });
}

TEST_CASE("sums, means, softmax, permutations and slices") {
  alone([](context& ctx) {
    const auto x = numbers<real<batch, seq, hidden>>(ctx, {2, 3, 4}, "x");
    const auto here = [&](const indices& w) { return at(x, w); };
    is_sum<dims<batch, hidden>>(sum<seq>(x), sizes_of(x), here);
    is_sum<dims<seq>>(sum<hidden, batch>(x), sizes_of(x), here);
    is_sum<dims<>>(mean(x), sizes_of(x), [&](const indices& w) { return here(w) / 24; });
    is_sum<dims<hidden, seq>>(mean<batch>(permute<hidden, batch, seq>(x)), sizes_of(x),
                              [&](const indices& w) { return here(w) / 2; });
    is_sum<dims<seq, hidden, batch>>(permute<seq, hidden, batch>(x), sizes_of(x), here);
    const auto total = sum<seq>(exp(x));
    is_sum<dims_of<decltype(x)>>(softmax<seq>(x), sizes_of(x),
                                 [&](const indices& w) { return std::exp(at(x, w)) / at(total, w); });
    is_sum<dims<batch, seq, hidden>>(slice<hidden>(x, 1, 2), {{"batch", 2}, {"seq", 3}, {"hidden", 2}}, [&](indices w) {
      ++w["hidden"];
      return at(x, w);
    });
  });
}

TEST_CASE("embedding takes rows, and zeros for what is no token") {
  alone([](context& ctx) {
    const auto table = numbers<real<vocab, hidden>>(ctx, {5, 3}, "t");
    const std::int32_t which[] = {4, 0, -1, 3, 2, 2};
    const auto ids = from_global<tensor<std::int32_t, dims<batch, seq>>>(ctx, {2, 3}, which);
    is_sum<dims<batch, seq, hidden>>(embedding(ids, table), {{"batch", 2}, {"seq", 3}, {"hidden", 3}}, [&](indices w) {
      w["vocab"] = std::int64_t(at(ids, w));
      return w["vocab"] < 0 ? 0.0 : at(table, w);
    });
  });
}

TEST_CASE("attention is the softmax of scores over the keys seen, times values") {
  alone([](context& ctx) {
    const auto q = numbers<real<batch, seq, heads, head_dim>>(ctx, {2, 3, 4, 5}, "q");
    const auto k =
        numbers<real<batch, vocab, kv_heads, head_dim>>(ctx, {2, 5, 2, 5}, "k");  // vocab: the keys' dimension
    const auto v = numbers<real<batch, vocab, kv_heads, head_dim>>(ctx, {2, 5, 2, 5}, "v");
    for (bool causal : {false, true}) {
      const auto weight = [&](indices w, std::int64_t key) {
        if (causal && key > w.at("seq") + 2) return 0.0;
        w["vocab"] = key, w["kv_heads"] = w.at("heads") / 2;
        double score = 0;
        for (w["head_dim"] = 0; w["head_dim"] < 5; ++w["head_dim"]) score += at(q, w) * at(k, w);
        return std::exp(score * 0.7);
      };
      is_sum<dims_of<decltype(q)>>(attention<seq, heads, head_dim, vocab>(q, k, v, {causal, 0.7}),
                                   {{"batch", 2}, {"seq", 3}, {"heads", 4}, {"head_dim", 5}, {"vocab", 5}},
                                   [&](indices w) {
                                     double total = 0;
                                     for (std::int64_t j = 0; j < 5; ++j) total += weight(w, j);
                                     const double mine = weight(w, w["vocab"]);
                                     w["kv_heads"] = w["heads"] / 2;
                                     return mine / total * at(v, w);
                                   });
    }
  });
}

TEST_CASE("sizes that don't fit are errors that name them") {
  alone([](context& ctx) {
    const auto q = ones<real<batch, seq, heads, head_dim>>(ctx, {2, 3, 4, 5});
    CHECK_THROWS_WITH_AS(attention(q, ones<real<batch, seq, heads, head_dim>>(ctx, {2, 3, 3, 5}),
                                   ones<real<batch, seq, heads, head_dim>>(ctx, {2, 3, 3, 5})),
                         doctest::Contains("4 query heads don't divide into groups of 3"), weft::failure);
    const auto wide = ones<real<batch, seq, heads, head_dim>>(ctx, {2, 3, 4, 6});
    CHECK_THROWS_WITH_AS(attention(q, wide, wide),
                         doctest::Contains("queries have 2 sequences and heads of width 5, keys have 2 and 6"),
                         weft::failure);
    CHECK_THROWS_WITH_AS((ones<tensor<float, dims<extent<hidden, 8>>>>(ctx, {9})),
                         doctest::Contains("dimension hidden has 8 elements by its type, not 9"), weft::failure);
    CHECK_THROWS_WITH_AS((ones<real<batch, hidden>>(ctx, {2, 0})),
                         doctest::Contains("a tensor's extents are (2, 0), and each is at least 1: number 2 is 0"),
                         weft::failure);
    CHECK_THROWS_WITH_AS((ones<real<hidden>>(ctx, {2, 3})),
                         doctest::Contains("a tensor of 1 dimensions was given 2 extents"), weft::failure);
  });
}

}  // namespace
