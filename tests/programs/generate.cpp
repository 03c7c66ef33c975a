// Writes random programs over typed tensors: generate FOLDER SEED FIRST COUNT, a file program_N.cpp each, whose first
// line says what typed.hpp expects of it: `right` (to compile, and to equal one rank or throw a weft::failure), or
// `wrong` (to be refused by the compiler). Invariant: program N of seed S is the same everywhere and for ever, whatever
// other programs are asked for, until this file changes.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "typed.hpp"

namespace programs {
namespace {

class dice {
 public:
  explicit dice(std::uint64_t seed) : state_(seed) {}
  /// 0 ... n - 1
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
  bool chance(double p) { return static_cast<double>(next() >> 11) * 0x1p-53 < p; }
  template <class T>
  const T& of(const std::vector<T>& some) {
    return some[static_cast<std::size_t>(below(static_cast<int>(some.size())))];
  }
  template <class T>
  void shuffle(std::vector<T>& some) {
    for (int i = static_cast<int>(some.size()); i > 1; --i) std::swap(some[i - 1], some[below(i)]);
  }

 private:
  std::uint64_t next() {  // splitmix64
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

// An operator applied: the expression, what it makes (nullopt: refused), and the leaves that it needs.
struct step {
  std::string text;
  std::optional<tensor> out;
  std::vector<std::pair<tensor, std::string>> leaves;  // and the creator's arguments behind the type
};

class author {
 public:
  author(std::uint64_t seed, int number) : dice_(seed * 1000003 + static_cast<std::uint64_t>(number)) {
    static const std::vector<int> extents = {1, 2, 2, 3, 3, 3, 4, 4, 5, 5, 5, 6, 7, 7, 8, 9};
    for (std::size_t t = 0; t < tags.size(); ++t)
      shape_.push_back({static_cast<int>(t), dice_.of(extents), dice_.chance(0.06)});
  }

  /// The program's body. wrong: ends with what is expected to be refused.
  std::string write(bool wrong) {
    const int phases = wrong ? 1 : dice_.chance(0.55) ? 1 : 2 + dice_.below(2);
    stale_ = !wrong && phases > 1 && dice_.chance(0.12);
    std::vector<tensor> values;
    for (int p = 0; p < phases; ++p) {
      if (!stale_) values.clear();
      const bool last = p + 1 == phases;
      phase(values, wrong && last, !wrong && !last && dice_.chance(0.3) ? 1 : 0);
      if (!last && dice_.chance(0.15)) forget();
    }
    std::string out = leaves_ + body_;
    if (wrong) return out;
    for (std::size_t i = 0; i < trained_.size(); ++i) out += gradient_line(trained_[i]);
    if (rounded_) out = "  t.rounds_to(1e-3);\n" + out;
    return out;
  }

 private:
  std::string fresh(const char* prefix) { return prefix + std::to_string(++names_); }
  std::string indent() const { return std::string(static_cast<std::size_t>(2 * depth_), ' '); }
  void line(const std::string& text) { body_ += indent() + text + "\n"; }
  std::string gradient_line(const std::string& leaf) {
    return "  t.gradient(\"" + leaf + "\", " + leaf.substr(1) + ", " + leaf + ");\n";
  }
  void forget() {
    for (const std::string& leaf : trained_) line(leaf + ".zero_grad();");
    line("t.forget_gradients();");
  }

  // One recording and its backward. nested: another one, on a tape of its own, happens within.
  void phase(std::vector<tensor>& values, bool wrong, int nested) {
    const bool block = !stale_ && !wrong, own_tape = block && dice_.chance(0.25);
    if (block) line("{"), ++depth_;
    if (own_tape) line("tape own;"), line("const recording on(t.ctx, &own);");
    start(values);
    const int steps = 2 + dice_.below(wrong ? 6 : 8);
    for (int s = 0; s < steps; ++s) {
      if (nested && s == steps / 2) {
        std::vector<tensor> inner;
        line("{"), ++depth_;
        line("tape within;"), line("const recording on_within(t.ctx, &within);");
        start(inner);
        const int few = 1 + dice_.below(3);
        for (int i = 0; i < few; ++i) grow(inner);
        finish(inner);
        --depth_, line("}");
      }
      if (!wrong && dice_.chance(0.12))
        recompute(values);
      else
        grow(values);
    }
    if (wrong)
      refuse(values);
    else
      finish(values);
    if (block) --depth_, line("}");
  }

  // ---- leaves ----

  std::vector<dimension> some_dims(int count) {
    std::vector<int> order;
    for (int t = 0; t < 7; ++t) order.push_back(t);
    dice_.shuffle(order);
    std::vector<dimension> out;
    for (int i = 0; i < count; ++i) out.push_back(shape_[order[static_cast<std::size_t>(i)]]);
    return out;
  }
  // A placement of these dimensions; as `like` where that shards one of them, mostly.
  placement some_placement(const std::vector<dimension>& dims, const tensor* like) {
    placement at;
    at.tp_outside = like && like->both_cut_one() ? like->at.tp_outside != dice_.chance(0.05) : dice_.chance(0.5);
    for (int a = 0; a < 2; ++a) {
      const auto cut_alike = [&] {
        for (const dimension& d : dims)
          if (like && like->at.cut[a] == d.tag) return true;
        return false;
      };
      if (dice_.chance(0.75) && like && (cut_alike() || like->at.on[a] == partial)) {
        at.on[a] = like->at.on[a] == shard ? shard : dice_.chance(0.5) ? invariant : replicate;
        at.cut[a] = like->at.cut[a];
        continue;
      }
      const int which = dice_.below(20);
      at.on[a] = which < 8 || (which >= 13 && dims.empty()) ? invariant : which < 13 ? replicate : shard;
      if (at.on[a] == shard) at.cut[a] = dice_.of(dims).tag;
    }
    return at;
  }
  tensor new_leaf(step& s, std::vector<dimension> dims, const tensor* like, bool positive = false,
                  bool constant = false) {
    tensor x;
    x.dims = std::move(dims);
    x.at = some_placement(x.dims, like);
    x.type = like ? like->type : "double";
    x.most = positive ? 1.5 : 1.25, x.least = positive ? 0.5 : 0;
    x.name = "w" + std::to_string(leaf_count_ + static_cast<int>(s.leaves.size()));
    x.trained = !constant && dice_.chance(0.85);
    s.leaves.emplace_back(x, std::string(x.trained ? "leaf" : "constant") + "|" + (positive ? ", true" : ""));
    return x;
  }
  tensor new_ids(step& s, std::vector<dimension> dims, const tensor* like, int rows) {
    tensor x;
    x.dims = std::move(dims);
    x.at = some_placement(x.dims, like);
    for (kind& k : x.at.on)
      if (k == partial) k = invariant;
    x.type = "std::int32_t";
    x.name = "w" + std::to_string(leaf_count_ + static_cast<int>(s.leaves.size()));
    s.leaves.emplace_back(x, "ids|, " + std::to_string(rows));
    return x;
  }
  void declare(const step& s) {
    for (const auto& [x, how] : s.leaves) {
      const std::size_t bar = how.find('|');
      std::string sizes;
      for (const dimension& d : x.dims) sizes += (sizes.empty() ? "" : ", ") + std::to_string(d.extent);
      leaves_ += "  auto " + x.name + " = t." + how.substr(0, bar) + "<" + x.text() + ">(" +
                 std::to_string(leaf_count_) + ", {" + sizes + "}" + how.substr(bar + 1) + ");\n";
      if (how.substr(0, bar) == "leaf") trained_.push_back(x.name);
      if (x.type != "std::int32_t") all_leaves_.push_back(x);
      ++leaf_count_;
    }
  }

  // ---- operators: each draws its arguments without a look at the rules ----

  using drawn = std::optional<step>;

  tensor pick(const std::vector<tensor>& values) { return dice_.chance(0.7) ? values.back() : dice_.of(values); }
  // Another tensor for an operator of x: one that is there, or a leaf that may fit.
  tensor partner(step& s, const tensor& x, const std::vector<tensor>& values, bool positive = false) {
    if (dice_.chance(0.3)) {
      const tensor& y = dice_.chance(0.6) || all_leaves_.empty() ? dice_.of(values) : dice_.of(all_leaves_);
      if (!positive || y.least > 0.1) return y;
    }
    std::vector<dimension> dims;
    for (const dimension& d : x.dims)
      if (dice_.chance(0.7)) dims.push_back(d);
    if (dice_.chance(0.15))
      for (const dimension& d : some_dims(1))
        if (!x.has(d.tag)) dims.push_back(d);
    if (dice_.chance(0.3)) dice_.shuffle(dims);
    return new_leaf(s, dims, &x, positive);
  }

  drawn convert_step(const std::vector<tensor>& values) {
    const tensor x = pick(values);
    const int axis = dice_.below(2);
    const kind from = x.at.on[axis], to = static_cast<kind>(dice_.below(4));
    const int tag = to == shard ? (x.dims.empty() || dice_.chance(0.03) ? dice_.below(7) : dice_.of(x.dims).tag) : -1;
    const std::string a = axes[axis], d = tag < 0 ? "" : tags[static_cast<std::size_t>(tag)];
    step s{"", converted(x, axis, to, tag), {}};
    const std::string targets[] = {"invariant<" + a + ">", "replicate<" + a + ">", "partial<" + a + ">",
                                   "shard<" + d + ", " + a + ">"};
    s.text = "convert<" + targets[to] + ">(" + x.name + ")";
    if (dice_.chance(0.7)) {
      if (to == invariant && from == partial) s.text = "all_reduce<" + a + ">(" + x.name + ")";
      if (to == replicate && from == shard) s.text = "all_gather<" + a + ">(" + x.name + ")";
      if (to == shard && from == partial) s.text = "reduce_scatter<" + d + ", " + a + ">(" + x.name + ")";
      if (to == shard && (from == invariant || from == replicate))
        s.text = "split<" + d + ", " + a + ">(" + x.name + ")";
      if (to == shard && from == shard && x.at.cut[axis] != tag)
        s.text = "all_to_all<" + d + ", " + a + ">(" + x.name + ")";
    } else if (dice_.chance(0.1)) {  // a name that asks for another placement than x has
      if (to == invariant && from != partial) s.text = "all_reduce<" + a + ">(" + x.name + ")", s.out = {};
      if (to == replicate && from != shard) s.text = "all_gather<" + a + ">(" + x.name + ")", s.out = {};
      if (to == shard && from != partial) s.text = "reduce_scatter<" + d + ", " + a + ">(" + x.name + ")", s.out = {};
    }
    return s;
  }

  drawn unary_step(const std::vector<tensor>& values) {
    const tensor x = pick(values);
    static const std::vector<std::string> functions = {"exp",    "log",  "sqrt",      "rsqrt",   "reciprocal",
                                                       "square", "abs",  "tanh",      "sigmoid", "relu",
                                                       "silu",   "gelu", "gelu_exact"};
    const std::string f = dice_.of(functions);
    step s{f + "(" + x.name + ")", x, {}};
    tensor& y = *s.out;
    const bool positive = x.least > 0.1;
    if (f == "exp") {
      if (x.most > 3) return {};
      y.most = std::exp(x.most), y.least = std::exp(-x.most);
    } else if (f == "log" || f == "sqrt" || f == "rsqrt" || f == "reciprocal") {
      if (!positive) return {};
      const auto of = [&](double v) {
        return f == "log"     ? std::abs(std::log(v))
               : f == "sqrt"  ? std::sqrt(v)
               : f == "rsqrt" ? 1 / std::sqrt(v)
                              : 1 / v;
      };
      y.most = std::max(of(x.most), of(x.least));
      y.least = f == "log" ? 0 : std::min(of(x.most), of(x.least));
    } else if (f == "square") {
      y.most = x.most * x.most, y.least = x.least * x.least;
    } else if (f == "tanh") {
      y.most = 1, y.least = x.least > 0 ? std::tanh(x.least) : 0;
    } else if (f == "sigmoid") {
      y.most = 1, y.least = 1 / (1 + std::exp(x.most));
    } else if (f == "silu" || f == "gelu" || f == "gelu_exact") {
      y.least = x.least / 2;
    }
    if (x.any(partial)) s.out = {};
    return s;
  }

  drawn scale_step(const std::vector<tensor>& values) {
    const tensor x = pick(values);
    const int which = dice_.below(4);
    const char* const forms[] = {"0.5 * ", "-", "scale(", "2.0 * "};
    step s{forms[which] + x.name + (which == 2 ? ", -1.5)" : ""), x, {}};
    const double factors[] = {0.5, -1, -1.5, 2};
    s.out->most = x.most * std::abs(factors[which]);
    s.out->least = factors[which] > 0 ? x.least * factors[which] : 0;
    return s;
  }

  drawn binary_step(const std::vector<tensor>& values) {
    const tensor x = pick(values);
    const char f = "++-**/"[dice_.below(6)];
    step s;
    tensor a = x, b = partner(s, x, values, f == '/');
    if (f != '/' && dice_.chance(0.3)) std::swap(a, b);
    s.text = a.name + " " + f + " " + b.name;
    s.out = paired(a, b, f == '*' || f == '/');
    if (f == '/' && b.any(partial)) s.out = {};
    if (s.out && !fit(a, b)) {
      if (!mismatch()) return {};
    }
    if (!s.out) return s;
    tensor& y = *s.out;
    const bool positive = a.least > 0 && b.least > 0 && !a.any(partial) && !b.any(partial);
    if (f == '*') y.most = a.most * b.most, y.least = positive ? a.least * b.least : 0;
    if (f == '/') y.most = a.most / b.least, y.least = positive ? a.least / b.most : 0;
    if (f == '+' || f == '-') y.most = a.most + b.most, y.least = positive && f == '+' ? a.least + b.least : 0;
    return s;
  }

  drawn contract_step(const std::vector<tensor>& values) {
    const tensor x = pick(values);
    if (x.dims.empty()) return {};
    std::vector<int> over = {dice_.of(x.dims).tag};
    if (x.dims.size() > 1 && dice_.chance(0.2))
      if (const int more = dice_.of(x.dims).tag; more != over[0]) over.push_back(more);
    step s;
    tensor y;
    if (dice_.chance(0.2)) {
      y = dice_.of(values);
    } else {
      std::vector<dimension> dims;
      for (const int k : over)
        if (!dice_.chance(0.02)) dims.push_back(*x.find(k));
      for (const dimension& d : x.dims)
        if (!std::count(over.begin(), over.end(), d.tag) && dice_.chance(0.2)) dims.push_back(d);
      for (const dimension& d : some_dims(dice_.below(3)))
        if (!x.has(d.tag)) dims.push_back(d);
      dice_.shuffle(dims);
      y = new_leaf(s, dims, &x);
    }
    const bool swapped = dice_.chance(0.3);
    const tensor &a = swapped ? y : x, &b = swapped ? x : y;
    s.text = "contract<" + list(over) + ">(" + a.name + ", " + b.name + ")";
    s.out = paired(a, b, true, over);
    if (s.out && !fit(a, b)) {
      if (!mismatch()) return {};
    }
    if (!s.out) return s;
    double terms = 1;
    for (const int k : over) terms *= x.find(k)->extent;
    s.out->most = a.most * b.most * terms;
    s.out->least = a.least * b.least * terms;
    return s;
  }

  drawn reduce_step(const std::vector<tensor>& values) {
    const tensor x = pick(values);
    if (x.dims.size() < 2) return {};
    std::vector<int> over;
    for (const dimension& d : x.dims)
      if (dice_.chance(0.4) && over.size() + 1 < x.dims.size()) over.push_back(d.tag);
    if (dice_.chance(0.02)) over.push_back(dice_.below(7));
    if (over.empty() || (over.size() > 1 && over.back() == over[over.size() - 2])) return {};
    const bool is_mean = dice_.chance(0.4);
    step s{std::string(is_mean ? "mean<" : "sum<") + list(over) + ">(" + x.name + ")", reduced(x, over), {}};
    if (!s.out) return s;
    double n = 1;
    for (const int k : over) n *= is_mean || !x.has(k) ? 1 : x.find(k)->extent;
    s.out->most = x.most * n, s.out->least = x.least * n;
    return s;
  }

  drawn softmax_step(const std::vector<tensor>& values) {
    const tensor x = pick(values);
    if (x.dims.empty() || x.most > 20) return {};
    const dimension d = dice_.chance(0.03) ? shape_[static_cast<std::size_t>(dice_.below(7))] : dice_.of(x.dims);
    step s{"softmax<" + tags[static_cast<std::size_t>(d.tag)] + ">(" + x.name + ")", x, {}};
    s.out->most = 1, s.out->least = std::exp(-2 * x.most) / d.extent;
    if (!x.has(d.tag) || x.cut(d.tag) || x.any(partial)) s.out = {};
    return s;
  }

  drawn norm_step(const std::vector<tensor>& values) {
    const tensor x = pick(values);
    if (x.dims.empty()) return {};
    if (x.dims.back().extent == 1) return {};  // nothing to normalise: gradients are rounding
    const bool layer = dice_.chance(0.5);
    step s;
    const dimension over = dice_.chance(0.03) ? shape_[static_cast<std::size_t>(dice_.below(7))] : x.dims.back();
    const tensor w = new_leaf(s, {over}, dice_.chance(0.5) ? &x : nullptr, dice_.chance(0.3));
    if (w.type != x.type && dice_.chance(0.9)) return {};
    const tensor b = layer ? new_leaf(s, {over}, &w) : w;
    s.text = layer ? "layer_norm(" + x.name + ", " + w.name + ", " + b.name + ")"
                   : "rms_norm(" + x.name + ", " + w.name + (dice_.chance(0.3) ? ", 1e-2)" : ")");
    const int last = x.dims.back().tag;
    s.out = paired(x, w, true);
    if (s.out && layer) s.out = paired(*s.out, b, false);
    if (over.tag != last || x.any(partial) || x.cut(last) || w.cut(last) || b.cut(last)) s.out = {};
    if (s.out) s.out->most = 3.5 * std::sqrt(over.extent), s.out->least = 0;
    return s;
  }

  drawn swiglu_step(const std::vector<tensor>& values) {
    const tensor x = pick(values);
    step s;
    tensor y = dice_.chance(0.3) ? dice_.of(values) : new_leaf(s, x.dims, &x);
    const bool swapped = dice_.chance(0.5);
    const tensor &a = swapped ? y : x, &b = swapped ? x : y;
    s.text = "swiglu(" + a.name + ", " + b.name + ")";
    s.out = paired(a, b, false);
    if (a.dims_text() != b.dims_text() || a.any(partial) || b.any(partial)) s.out = {};
    if (s.out && !fit(a, b) && !mismatch()) return {};
    if (s.out) s.out->most = a.most * b.most, s.out->least = a.least * b.least / 2;
    return s;
  }

  drawn view_step(const std::vector<tensor>& values) {
    const tensor x = pick(values);
    if (x.dims.empty()) return {};
    step s;
    const int which = dice_.below(10);
    if (which < 3) {
      std::vector<int> order;
      for (const dimension& d : x.dims) order.push_back(d.tag);
      dice_.shuffle(order);
      if (dice_.chance(0.02)) order.pop_back();
      tensor y = x;
      y.dims.clear();
      for (const int tag : order) y.dims.push_back(*x.find(tag));
      s.text = "permute<" + list(order) + ">(" + x.name + ")";
      if (order.empty()) return {};
      if (order.size() == x.dims.size()) s.out = y;
    } else if (which < 6) {
      const int from = dice_.chance(0.03) ? dice_.below(7) : dice_.of(x.dims).tag;
      const int to = dice_.chance(0.8) ? 7 + dice_.below(2) : dice_.below(7);
      s.text = "rename<" + list({from}) + ", " + list({to}) + ">(" + x.name + ")";
      s.out = renamed(x, from, to);
      if (from == to) return {};
    } else if (which < 9) {
      const dimension d = dice_.of(x.dims);
      const int begin = dice_.below(d.extent), count = 1 + dice_.below(d.extent - begin);
      s.text =
          "slice<" + list({d.tag}) + ">(" + x.name + ", " + std::to_string(begin) + ", " + std::to_string(count) + ")";
      if (!x.cut(d.tag)) {
        s.out = x;
        for (dimension& e : s.out->dims)
          if (e.tag == d.tag) e.extent = count, e.fixed = false;
      }
    } else {
      s.out = x;
      s.out->type = x.type == "double" ? "float" : "double";
      s.text = "cast<" + s.out->type + ">(" + x.name + ")";
      if (x.type == "double" && !dice_.chance(0.4)) return {};
      rounded_ = true;
    }
    return s;
  }

  drawn dropout_step(const std::vector<tensor>& values) {
    const tensor x = pick(values);
    step s{"dropout(" + x.name + ", 0.25, dropout_stream(\"" + std::to_string(dice_.below(100)) + "\", 1))", x, {}};
    s.out->most = x.most / 0.75, s.out->least = 0;
    return s;
  }

  drawn turn_step(const std::vector<tensor>& values) {
    const tensor x = pick(values);
    const int axis = dice_.below(2);
    step s{std::string("whole_turn<") + axes[axis] + ">(" + x.name + ")", x, {}};
    if (x.at.on[axis] != shard) s.out = {};
    if (x.at.on[axis] == shard) {  // uneven slices can't change places: mostly even ones
      const int n = x.find(x.at.cut[axis])->extent;
      if ((axis == 0 ? n % 6 : n % 12) != 0 && !dice_.chance(0.1)) return {};
    }
    return s;
  }

  drawn embedding_step(const std::vector<tensor>& values) {
    step s;
    const auto dims = some_dims(2 + dice_.below(2));
    const tensor table = new_leaf(s, {dims[0], dims[1]}, nullptr);
    std::vector<dimension> of_ids(dims.begin() + 2, dims.end());
    if (of_ids.empty() || dice_.chance(0.5)) {
      const tensor near = pick(values);
      const dimension more = dice_.of(near.dims.empty() ? dims : near.dims);
      of_ids.push_back(more);
    }
    if (twice(of_ids)) return {};
    const tensor like = pick(values);
    const tensor ids = new_ids(s, of_ids, &like, dims[0].extent);
    s.text = "embedding(" + ids.name + ", " + table.name + ")";
    s.out = embedded(ids, table);
    if (s.out) s.out->most = 1.25, s.out->least = 0;
    return s;
  }

  drawn declared_step(const std::vector<tensor>& values) {  // a tensor made from one of another type
    const tensor x = pick(values);
    tensor y = x;
    y.at = some_placement(y.dims, dice_.chance(0.5) ? &x : nullptr);
    if (dice_.chance(0.2)) dice_.shuffle(y.dims);
    if (dice_.chance(0.1)) y.type = "float";
    const char* const forms[] = {"(", "{", " = "};
    const int form = dice_.below(3);
    step s{"=" + y.text() + "|" + forms[form] + x.name + (form == 0 ? ")" : form == 1 ? "}" : ""), {}, {}};
    if (y.same_type(x)) return {};
    return s;
  }

  drawn draw(const std::vector<tensor>& values) {
    struct choice {
      int weight;
      drawn (author::*make)(const std::vector<tensor>&);
    };
    static const choice choices[] = {
        {26, &author::convert_step},  {10, &author::unary_step}, {3, &author::scale_step},   {12, &author::binary_step},
        {10, &author::contract_step}, {6, &author::reduce_step}, {4, &author::softmax_step}, {14, &author::norm_step},
        {5, &author::swiglu_step},    {9, &author::view_step},   {2, &author::dropout_step}, {2, &author::turn_step},
        {2, &author::embedding_step}};
    int all = 0;
    for (const choice& c : choices) all += c.weight;
    int at = dice_.below(all);
    for (const choice& c : choices)
      if ((at -= c.weight) < 0) return (this->*c.make)(values);
    return {};
  }

  // Two dimensions of one name and of different extents, which throw; seldom, and only as a program's last fault.
  bool mismatch() { return dice_.chance(0.01); }

  std::string list(const std::vector<int>& some) const {
    std::string out;
    for (const int tag : some) out += (out.empty() ? "" : ", ") + tags[static_cast<std::size_t>(tag)];
    return out;
  }

  // ---- lines of the program ----

  // Some values to begin with.
  void start(std::vector<tensor>& values) {
    step s;
    if (all_leaves_.empty() || dice_.chance(0.6))
      values.push_back(new_leaf(s, some_dims(1 + dice_.below(3)), nullptr, dice_.chance(0.3)));
    declare(s);
    if (s.leaves.empty()) values.push_back(dice_.of(all_leaves_));
  }

  bool sound(const step& s) const {
    return s.out && s.out->dims.size() <= 4 && s.out->elements() <= 400 && s.out->most < 1e4;
  }
  // A line more, accepted by the rules.
  void grow(std::vector<tensor>& values) {
    for (int tries = 0; tries < 200; ++tries) {
      drawn s = draw(values);
      if (s && sound(*s)) return put(values, *s);
    }
  }
  void put(std::vector<tensor>& values, step& s) {
    declare(s);
    tensor y = *s.out;
    y.name = fresh("v");
    line((dice_.chance(0.2) ? "const " + y.text() : std::string("auto")) + " " + y.name + " = " + s.text + ";");
    values.push_back(y);
    if (y.most > 20) {
      tensor z = y;
      z.name = fresh("v");
      char factor[32];
      std::snprintf(factor, sizeof factor, "%.4f", 2 / y.most);
      line("auto " + z.name + " = " + factor + " * " + y.name + ";");
      z.most = 2, z.least *= 2 / y.most;
      values.push_back(z);
    }
  }
  // A line that the rules refuse.
  void refuse(std::vector<tensor>& values) {
    for (int tries = 0; tries < 2000; ++tries) {
      if (dice_.chance(0.03)) {
        const tensor x = pick(values);
        const bool replicated = x.any(replicate);
        if (!x.dims.empty()) return line("backward(" + x.name + ");");
        if (replicated) return line("backward(" + x.name + ");");
      }
      drawn s = dice_.chance(0.06) ? declared_step(values) : draw(values);
      if (!s || s->out) continue;
      declare(*s);
      const std::string name = fresh("v");
      if (s->text[0] == '=') {
        const std::size_t bar = s->text.find('|');
        return line("const " + s->text.substr(1, bar - 1) + " " + name + s->text.substr(bar + 1) + ";");
      }
      return line("auto " + name + " = " + s->text + ";");
    }
  }

  // A function that is run again in the backward.
  void recompute(std::vector<tensor>& values) {
    const tensor x = pick(values);
    static const std::vector<std::string> policies = {"", "<checkpoint_full>", "<checkpoint_selective>",
                                                      "<checkpoint_none>"};
    const std::string name = fresh("v");
    line("auto " + name + " = checkpoint" + dice_.of(policies) + "([=](const auto& " + name + "x) {");
    ++depth_;
    tensor seen = x;
    seen.name = name + "x";
    std::vector<tensor> inner = {seen};
    if (dice_.chance(0.15)) inner.insert(inner.begin(), dice_.of(values));  // reads a value that isn't a leaf
    const int steps = 1 + dice_.below(4);
    for (int s = 0; s < steps; ++s) grow(inner);
    line("return " + inner.back().name + ";");
    --depth_;
    line("}, " + x.name + ");");
    inner.back().name = name;
    values.push_back(inner.back());
  }

  // A scalar of x. The loss may be replicate on no axis.
  std::optional<tensor> scalar(std::vector<tensor>& values, const tensor& x) {
    std::vector<tensor> of = {x};
    const int which = dice_.below(10);
    if (which < 3 && x.dims.size() >= 2 && !x.any(partial)) {
      for (int tries = 0; tries < 20; ++tries) {
        step s;
        const tensor ids = new_ids(s, {x.dims.begin(), x.dims.end() - 1}, &x, x.dims.back().extent);
        const auto l = crossed(x, ids);
        if (!l) continue;
        declare(s);
        const std::string name = fresh("l");
        const bool moved = x.name[0] == 'v' && x.name == values.back().name && values.size() > 1 && dice_.chance(0.3);
        line("auto " + name + "c = cross_entropy(" + (moved ? "std::move(" + x.name + ")" : x.name) + ", " + ids.name +
             (dice_.chance(0.2) ? ", {.label_smoothing = 0.1});" : ");"));
        if (moved) values.pop_back();
        line("t.look(\"count " + name + "\", " + name + "c.count);");
        line("auto " + name + " = " + name + "c.sum;");
        tensor out = *l;
        out.name = name;
        return out;
      }
    }
    if (which < 7 && !x.dims.empty())
      for (int tries = 0; tries < 20; ++tries) {
        step s;
        const tensor c = new_leaf(s, x.dims, &x, false, dice_.chance(0.7));
        s.out = paired(x, c, true);
        if (!s.out) continue;
        s.text = x.name + " * " + c.name;
        put(of, s);
        break;
      }
    const tensor y = of.back();
    tensor out = y;
    std::vector<int> all;
    for (const dimension& d : y.dims) all.push_back(d.tag);
    out = *reduced(y, all);
    out.name = fresh("l");
    line("auto " + out.name + (dice_.chance(0.5) ? " = sum(" : " = mean(") + y.name + ");");
    return out;
  }
  tensor loss(std::vector<tensor>& values, const tensor& x) {
    tensor l = *scalar(values, x);
    for (int a = 0; a < 2; ++a) {
      const bool counted_often = l.at.on[a] == replicate;
      if (!counted_often && !(l.at.on[a] == partial && dice_.chance(0.4))) continue;
      const std::string name = fresh("l");
      line("auto " + name + " = " +
           (counted_often ? std::string("convert<partial<") + axes[a] + ">>("
                          : std::string("all_reduce<") + axes[a] + ">(") +
           l.name + ");");
      l.at.on[a] = counted_often ? partial : invariant;
      l.name = name;
    }
    return l;
  }
  // The backward: of one loss, or of two added up.
  void finish(std::vector<tensor>& values) {
    while (!values.back().trained && values.size() > 1) values.pop_back();
    if (!values.back().trained) {
      step s;
      tensor w = new_leaf(s, some_dims(2), nullptr);
      s.leaves.back().second = "leaf|";
      w.trained = true;
      declare(s);
      values.push_back(w);
    }
    tensor l = loss(values, values.back());
    if (values.size() > 1 && dice_.chance(0.25)) {
      const tensor more = loss(values, dice_.of(values));
      if (const auto both = paired(l, more, false); both && l.type == more.type) {
        const std::string name = fresh("l");
        line("auto " + name + " = " + l.name + " + " + more.name + ";");
        l = *both, l.name = name;
      }
    }
    const char* const seeds[] = {"1", "1", "0.5", "-2"};
    line("t.carry_back(\"loss " + l.name + "\", " + l.name + ", " + seeds[dice_.below(4)] + ");");
    if (dice_.chance(0.2)) line("t.look(\"" + values.back().name + "\", " + values.back().name + ");");
  }

  dice dice_;
  std::vector<dimension> shape_;  // by tag
  std::vector<tensor> all_leaves_;
  std::vector<std::string> trained_;
  std::string leaves_, body_;
  int names_ = 0, leaf_count_ = 0, depth_ = 1;
  bool stale_ = false, rounded_ = false;
};

}  // namespace
}  // namespace programs

int main(int count, char** arguments) {
  if (count != 5) {
    std::fputs("generate FOLDER SEED FIRST COUNT\n", stderr);
    return 2;
  }
  const std::string folder = arguments[1];
  const std::uint64_t seed = std::strtoull(arguments[2], nullptr, 10);
  const int first = std::atoi(arguments[3]), end = first + std::atoi(arguments[4]);
  for (int n = first; n < end; ++n) {
    const bool wrong = n % 3 == 0;
    programs::author by(seed, n);
    const std::string body = by.write(wrong), number = std::to_string(n);
    std::ofstream out(folder + "/program_" + number + ".cpp");
    out << "// " << (wrong ? "wrong" : "right") << ": program " << number << " of seed " << seed << "\n"
        << "#include \"trial.hpp\"\nnamespace programs {\nvoid program_" << number << "(trial& t) {\n"
        << body << "}\n}  // namespace programs\n";
    if (!out) {
      std::fprintf(stderr, "generate: %s can't be written\n", folder.c_str());
      return 1;
    }
  }
  return 0;
}
