// The types of generated programs: what a tensor's type says, and what comes out of an operator, as docs/design.md has
// it. Written from that page and not from the library, so that the two can disagree; what is refused is nullopt.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace programs {

enum kind { invariant, replicate, partial, shard };

inline const std::vector<std::string> tags = {"batch", "seq",   "hidden",   "ffn",   "heads",
                                              "vocab", "layer", "head_dim", "expert"};
inline const char* const axes[] = {"dp", "tp"};

struct dimension {
  int tag, extent;
  bool fixed = false;  // written extent<tag, n>
  friend bool operator==(const dimension&, const dimension&) = default;
};

struct placement {
  std::array<kind, 2> on = {invariant, invariant};
  std::array<int, 2> cut = {-1, -1};  // the tag that an axis shards
  bool tp_outside = false;            // of two axes that shard one dimension, tp is the outer one
};

struct tensor {
  std::string name, type = "double";
  std::vector<dimension> dims;
  placement at;
  double most = 1, least = 0;  // |x| <= most; where least > 0, x >= least
  bool trained = false;        // computed from a leaf that wants a gradient

  const dimension* find(int tag) const {
    for (const dimension& d : dims)
      if (d.tag == tag) return &d;
    return nullptr;
  }
  bool has(int tag) const { return find(tag) != nullptr; }
  bool cut(int tag) const { return at.cut[0] == tag || at.cut[1] == tag; }
  bool both_cut_one() const { return at.cut[0] >= 0 && at.cut[0] == at.cut[1]; }
  bool any(kind k) const { return at.on[0] == k || at.on[1] == k; }
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (const dimension& d : dims) n *= d.extent;
    return n;
  }
  bool same_type(const tensor& o) const {
    return type == o.type && dims_text() == o.dims_text() && at.on == o.at.on && at.cut == o.at.cut &&
           (!both_cut_one() || at.tp_outside == o.at.tp_outside);
  }

  std::string dims_text() const {
    std::string out = "dims<";
    for (const dimension& d : dims) {
      if (&d != dims.data()) out += ", ";
      out += d.fixed ? "extent<" + tags[d.tag] + ", " + std::to_string(d.extent) + ">" : tags[d.tag];
    }
    return out + ">";
  }
  std::string text() const {
    std::string out = "tensor<" + type + ", " + dims_text();
    if (both_cut_one()) {
      return out + ", shard<" + tags[at.cut[0]] + (at.tp_outside ? ", tp, dp>>" : ", dp, tp>>");
    }
    for (int a = 0; a < 2; ++a) {
      if (at.on[a] == shard) out += ", shard<" + tags[at.cut[a]] + ", " + axes[a] + ">";
      if (at.on[a] == replicate) out += std::string(", replicate<") + axes[a] + ">";
      if (at.on[a] == partial) out += std::string(", partial<") + axes[a] + ">";
    }
    return out + ">";
  }
};

inline bool twice(const std::vector<dimension>& dims) {
  for (const dimension& a : dims)
    for (const dimension& b : dims)
      if (&a != &b && a.tag == b.tag) return true;
  return false;
}

/// convert<shard<tag, axis>>, or to one of the other kinds.
inline std::optional<tensor> converted(tensor x, int axis, kind to, int tag = -1) {
  const kind from = x.at.on[axis];
  if (to == shard && !x.has(tag)) return {};
  if (from == to && (to != shard || x.at.cut[axis] == tag)) return x;
  if ((from == replicate && to == invariant) || (from == shard && to == partial)) return {};
  if (from == shard && x.both_cut_one() && (axis == 0) == x.at.tp_outside)
    ;  // the innermost of two: fine
  else if (from == shard && x.both_cut_one())
    return {};
  x.at.on[axis] = to;
  x.at.cut[axis] = to == shard ? tag : -1;
  if (x.both_cut_one()) x.at.tp_outside = axis == 0;  // what is new lies inside
  return x;
}

/// What a product (contraction, *, /) or a sum of a and b is placed like; nullopt: refused.
inline std::optional<placement> met(const tensor& a, const tensor& b, bool product, const std::vector<int>& summed) {
  const auto sums = [&](int tag) { return std::count(summed.begin(), summed.end(), tag) > 0; };
  if (a.type != b.type) return {};
  if (a.both_cut_one() && b.both_cut_one() && a.at.cut[0] == b.at.cut[0] && a.at.tp_outside != b.at.tp_outside)
    return {};
  placement out;
  out.tp_outside = a.both_cut_one() ? a.at.tp_outside : b.at.tp_outside;
  for (int i = 0; i < 2; ++i) {
    const kind x = a.at.on[i], y = b.at.on[i];
    if (x == shard && y == shard) {
      if (a.at.cut[i] != b.at.cut[i]) return {};
      out.on[i] = sums(a.at.cut[i]) ? partial : shard;
      out.cut[i] = out.on[i] == shard ? a.at.cut[i] : -1;
    } else if (x == shard || y == shard) {
      const tensor &slice = x == shard ? a : b, &other = x == shard ? b : a;
      const int tag = slice.at.cut[i];
      if (sums(tag) || other.at.on[i] == partial || other.has(tag)) return {};
      out.on[i] = shard;
      out.cut[i] = tag;
    } else if (x == partial || y == partial) {
      if (product ? x == y : x != y) return {};
      out.on[i] = partial;
    } else {
      out.on[i] = x == replicate || y == replicate ? replicate : invariant;
    }
  }
  return out;
}

/// a * b, a + b and their kin. Extents may differ: see `fit`.
inline std::optional<tensor> paired(const tensor& a, const tensor& b, bool product,
                                    const std::vector<int>& summed = {}) {
  for (const int k : summed)
    if (!a.has(k) || !b.has(k)) return {};
  const auto at = met(a, b, product, summed);
  if (!at) return {};
  for (const dimension& d : b.dims)
    if (const dimension* own = a.find(d.tag); own && own->fixed && d.fixed && own->extent != d.extent) return {};
  tensor out = a;
  for (const dimension& d : b.dims)
    if (!a.has(d.tag)) out.dims.push_back(d);
  std::erase_if(out.dims, [&](const dimension& d) { return std::count(summed.begin(), summed.end(), d.tag) > 0; });
  out.at = *at;
  out.trained = a.trained || b.trained;
  return out;
}
/// Whether the dimensions that both have are as long on both sides: else a weft::failure is thrown.
inline bool fit(const tensor& a, const tensor& b) {
  for (const dimension& d : b.dims)
    if (const dimension* own = a.find(d.tag); own && own->extent != d.extent) return false;
  return true;
}

inline std::optional<tensor> reduced(tensor x, const std::vector<int>& over) {
  for (const int tag : over) {
    if (!x.has(tag)) return {};
    for (int i = 0; i < 2; ++i)
      if (x.at.cut[i] == tag) x.at.on[i] = partial, x.at.cut[i] = -1;
    std::erase_if(x.dims, [&](const dimension& d) { return d.tag == tag; });
  }
  return x;
}

inline std::optional<tensor> renamed(tensor x, int from, int to) {
  if (!x.has(from)) return {};
  for (dimension& d : x.dims)
    if (d.tag == from) d.tag = to;
  for (int& tag : x.at.cut)
    if (tag == from) tag = to;
  if (twice(x.dims)) return {};
  return x;
}

/// Rows of `table` [rows, width] for ids.
inline std::optional<tensor> embedded(const tensor& ids, const tensor& table) {
  if (ids.any(partial) || table.dims.size() != 2) return {};
  tensor out = table;
  out.dims = ids.dims;
  out.dims.push_back(table.dims[1]);
  if (twice(out.dims)) return {};
  placement at;
  at.tp_outside = ids.both_cut_one() ? ids.at.tp_outside : table.at.tp_outside;
  for (int i = 0; i < 2; ++i) {
    const kind x = ids.at.on[i], y = table.at.on[i];
    if (y == shard && table.at.cut[i] == table.dims[0].tag) {
      if (x == shard) return {};
      at.on[i] = partial;
    } else if (x == shard || y == shard) {
      if (x == y || y == partial) return {};
      at.on[i] = shard;
      at.cut[i] = x == shard ? ids.at.cut[i] : table.at.cut[i];
    } else {
      at.on[i] = y == partial ? partial : x == replicate || y == replicate ? replicate : invariant;
    }
  }
  out.at = at;
  return out;
}

/// The loss (a scalar) of logits [..., vocab] and targets [...].
inline std::optional<tensor> crossed(const tensor& logits, const tensor& targets) {
  if (logits.any(partial) || targets.any(partial) || logits.dims.empty()) return {};
  if (logits.dims.size() != targets.dims.size() + 1) return {};
  for (std::size_t d = 0; d < targets.dims.size(); ++d)
    if (logits.dims[d].tag != targets.dims[d].tag) return {};
  if (logits.both_cut_one() && targets.both_cut_one() && logits.at.tp_outside != targets.at.tp_outside) return {};
  tensor out = logits;
  out.dims.clear();
  out.at = {};
  for (int i = 0; i < 2; ++i) {
    const kind x = logits.at.on[i], y = targets.at.on[i];
    const bool columns = x == shard && logits.at.cut[i] == logits.dims.back().tag;
    if (columns) {
      if (y == shard) return {};
    } else if ((x == shard) != (y == shard) || logits.at.cut[i] != targets.at.cut[i]) {
      return {};
    } else if (x == shard) {
      out.at.on[i] = partial;
    } else {
      out.at.on[i] = x;
    }
  }
  return out;
}

}  // namespace programs
