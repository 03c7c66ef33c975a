// Statistics of a model's units over all ranks: of weights, gradients, the optimizer's moments and activations.
// Invariant: a part is known by its unit, its kind and its place along the axes that it is cut over; ranks with equal
// parts hold the same numbers, which count once.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <weft/backend/concept.hpp>
#include <weft/io/json.hpp>
#include <weft/tensor/gather_text.hpp>

namespace weft {

enum class measured : std::uint8_t { weight, gradient, first_moment, second_moment, activation };
inline constexpr int measured_kinds = 5;
constexpr const char* measured_names[measured_kinds] = {"weight", "gradient", "first_moment", "second_moment",
                                                        "activation"};

/// One unit's statistics. A kind that was not measured has 0 elements.
struct unit_statistics {
  std::string unit;
  array_statistics of[measured_kinds];
  const array_statistics& operator[](measured kind) const { return of[static_cast<int>(kind)]; }
};

/// What one rank has measured.
class measured_parts {
 public:
  /// Adds statistics of a tensor or of a share of one. `cut`: the axes along which other ranks hold other parts of it;
  /// `stored_over`: those of its storage.
  WEFT_LINKED void add(const context& ctx, const std::string& unit, measured kind, const std::vector<axis_id>& cut,
                       const axis_set& stored_over, const array_statistics& s) {
    std::string key = unit + '\n' + static_cast<char>('0' + static_cast<int>(kind));
    for (const axis_group& g : ctx.axes())
      if (g.cuts(cut, stored_over))
        ((key += ' ') += std::to_string(&g - ctx.axes().data()) += ':') += std::to_string(g.index);
    part(key).join(s);
  }
  void clear() { parts_.clear(), next_ = 0; }

  /// All ranks' units on the first rank, in the order in which ranks and units come; nothing on the others. All ranks
  /// call it.
  WEFT_LINKED std::vector<unit_statistics> gather(context& ctx) const {
    std::string bytes;
    for (const auto& [key, s] : parts_) {
      const std::size_t n = key.size();
      bytes.append(reinterpret_cast<const char*>(&n), sizeof n)
          .append(key)
          .append(reinterpret_cast<const char*>(&s), sizeof s);
    }
    measured_parts all;
    for (const std::string& one : detail::gather_text(ctx, bytes))
      for (std::size_t at = 0; at < one.size();) {
        std::size_t n = 0;
        array_statistics s;
        std::memcpy(&n, one.data() + at, sizeof n);
        std::memcpy(&s, one.data() + at + sizeof n + n, sizeof s);
        all.part(one.substr(at + sizeof n, n)) = s;  // ranks with this key hold the same
        at += sizeof n + n + sizeof s;
      }
    return all.units();
  }

 private:
  // Looked for from where the last was found: ranks and steps name their parts in one order.
  WEFT_LINKED array_statistics& part(const std::string& key) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const std::size_t at = (next_ + i) % parts_.size();
      if (parts_[at].first != key) continue;
      next_ = at + 1;
      return parts_[at].second;
    }
    parts_.push_back({key, {}});
    next_ = parts_.size();
    return parts_.back().second;
  }
  WEFT_LINKED std::vector<unit_statistics> units() const {
    std::vector<unit_statistics> out;
    for (const auto& [key, s] : parts_) {
      const std::size_t name = key.find('\n');
      const std::string unit = key.substr(0, name);
      std::size_t at = out.size();  // the last ones are the likeliest
      while (at > 0 && out[at - 1].unit != unit) --at;
      if (at == 0) out.push_back({unit, {}}), at = out.size();
      out[at - 1].of[key[name + 1] - '0'].join(s);
    }
    return out;
  }

  std::vector<std::pair<std::string, array_statistics>> parts_;
  std::size_t next_ = 0;
};

namespace detail {

/// {"step":3,"unit":"layer 0","weight":{"norm":..,"min":..,"max":..,"not_finite":0},...}: what was measured of one
/// unit. Norm, minimum and maximum are those of the finite elements.
WEFT_LINKED std::string statistics_json(std::int64_t step, const unit_statistics& u) {
  json_writer w;
  w.begin_object().member("step", step).member("unit", u.unit);
  for (int k = 0; k < measured_kinds; ++k) {
    const array_statistics& s = u.of[k];
    if (s.elements == 0) continue;
    w.key(measured_names[k])
        .begin_object()
        .member("norm", std::sqrt(s.squares))
        .member("min", s.lowest)
        .member("max", s.highest);
    w.member("not_finite", s.not_finite).member("elements", s.elements).end_object();
  }
  return w.end_object().text();
}

}  // namespace detail
}  // namespace weft
