// What one rank keeps of a bucket whose weights are stored in few bits. Invariant: a share is its codes and then its
// levels, as one run of bytes, which is what ranks gather; scales are whole on every rank.
#pragma once

#include <weft/backend/quantise.hpp>
#include <weft/parallel/flat_bucket.hpp>

namespace weft::detail {

struct quantised_bucket {
  weight_format format = weight_format::plain;
  std::int64_t share = 0;           // elements of each part
  int parts = 1, index = 0;         // of the bucket, and which of them this rank keeps
  std::vector<local_array> scales;  // of each region
  std::vector<bool> given;          // whether each has numbers

  explicit operator bool() const { return format != weight_format::plain; }
  std::int64_t share_bytes() const { return code_bytes(format, share) + level_bytes(format, share); }
  std::int64_t whole_bytes() const { return parts * share_bytes(); }
  flat_range kept() const { return {share * index, share * (index + 1)}; }

  /// Scales that last; codes are a share of bytes, which the caller has.
  WEFT_LINKED void allocate(context& ctx, const flat_bucket& flat, void (*zero)(context&, const local_array&)) {
    format = flat.key.format;
    parts = flat.key.shards_parameters ? flat.parts : 1, index = flat.key.shards_parameters ? flat.index : 0;
    share = flat.size / parts;
    for (const flat_region& r : flat.regions) {
      const parameter_record& p = *r.parameter;
      const std::int64_t n = scales_of(format, p.global.elements(), p.stored.row);
      scales.push_back(ctx.make(dtype::f32, {1, {n}}, memory::parameters));
      zero(ctx, scales.back());
    }
    given.resize(flat.regions.size());
  }

  /// Throws where a parameter has no numbers yet.
  WEFT_LINKED void require_given(const flat_bucket& flat) const {
    for (std::size_t k = 0; k < given.size(); ++k) require_numbers(*flat.regions[k].parameter, given[k]);
  }

  /// Elements `part`, which lie in share p of `packed`, of region k.
  quantised_slice slice(const flat_region& r, std::size_t k, flat_range part, int p, const std::byte* packed) const {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(packed);
    const std::int64_t within = part.begin - p * share;
    return {format,
            r.parameter->at,
            r.parameter->stored.row,
            part.begin - r.begin,
            part.size(),
            bytes + code_bytes(format, within),
            bytes + code_bytes(format, share) + level_bytes(format, within),
            scales[k].as<float>()};
  }
  /// Elements `part` of region k, which this rank keeps, for p.
  void show(std::size_t k, flat_range part, std::byte* own, stored_parameter& p) const {
    const std::int64_t within = part.begin - kept().begin;
    const auto bytes = [](std::byte* at, std::int64_t n) { return local_array(at, dtype::u8, {1, {n}}); };
    p.codes = bytes(own + code_bytes(format, within), code_bytes(format, part.size()));
    if (format == weight_format::nf4)
      p.levels = bytes(own + code_bytes(format, share) + level_bytes(format, within), level_bytes(format, part.size()));
    p.scales = scales[k];
    p.has_numbers = given[k];
  }
  /// The whole bucket in the compute type, of all shares one behind another.
  WEFT_LINKED void dequantise(context& ctx, const flat_bucket& flat, const std::byte* packed,
                              const local_array& to) const {
    for (std::size_t k = 0; k < flat.regions.size(); ++k)
      for (int p = 0; p < parts; ++p) {
        const flat_region& r = flat.regions[k];
        const flat_range part = flat_range{p * share, (p + 1) * share}.overlap(r);
        if (part.size() > 0)
          r.parameter->stored.dequantise(ctx, slice(r, k, part, p, packed + p * share_bytes()),
                                         seen(to, part.begin, {1, {part.size()}}));
      }
  }

  /// Region k from the numbers of the whole parameter, of which each rank reads all, for the scales.
  template <class Backend, class Numbers>
  void load(context& ctx, const flat_region& r, std::size_t k, const Numbers& numbers, std::byte* own) {
    const parameter_record& p = *r.parameter;
    quantiser made(format, p.global.elements(), p.stored.row);
    each_piece(0, p.global.elements(), [&](std::int64_t begin, std::int64_t n, float* piece) {
      read(numbers, whole_slice(p), begin, n, piece);
      const std::int64_t bad = made.see(begin, n, piece);
      require(bad < 0, "parameter ", p.name, " is stored as ", name_of(format), ", and its number ", bad,
              " is not finite, or above ", made.most(), ": such weights can't be stored in few bits");
    });
    const std::vector<float> all_scales = made.scales();
    const flat_range part = kept().overlap(r);
    std::vector<std::uint8_t> codes, levels;
    each_piece(part.begin - r.begin, part.size(), [&](std::int64_t begin, std::int64_t n, float* piece) {
      read(numbers, p.at, begin, n, piece);
      p.at.runs(begin, n, [&](std::int64_t i, std::int64_t at, std::int64_t count) {
        for (std::int64_t j = 0; j < count; ++j) {
          const bool few = format == weight_format::nf4, upper = (begin + i + j) % 2 == 0;
          const std::uint8_t code = at < 0 ? std::uint8_t{0} : made.code(at + j, piece[i + j]);
          if (few && (begin + i + j) % quantised_slice::block == 0)
            levels.push_back(at < 0 ? std::uint8_t{0} : made.level(at + j));
          if (few && !upper)
            codes.back() = static_cast<std::uint8_t>(codes.back() | code);
          else
            codes.push_back(few ? static_cast<std::uint8_t>(code << 4) : code);
        }
      });
    });
    put<Backend>(ctx, r, k, codes, levels, all_scales, own);
  }

 private:
  static placed_slice whole_slice(const parameter_record& p) {
    placed_slice all{p.global.ndim, {}, {}, {}, {}};
    for (int d = 0; d < all.ndim; ++d) all.local[d] = all.global[d] = all.valid[d] = p.global[d];
    return all;
  }
  template <class F>
  static void each_piece(std::int64_t first, std::int64_t count, F&& f) {
    constexpr std::int64_t most = std::int64_t{1} << 16;
    std::vector<float> piece(static_cast<std::size_t>(std::min(count, most)));
    for (std::int64_t done = 0; done < count; done += most) f(first + done, std::min(count - done, most), piece.data());
  }
  /// Elements begin ... begin + n - 1 of a slice; padding is 0.
  template <class Numbers>
  static void read(const Numbers& numbers, const placed_slice& at, std::int64_t begin, std::int64_t n, float* out) {
    if constexpr (requires { numbers.template read<float>(at, begin, n, out); })
      return numbers.template read<float>(at, begin, n, out);
    else
      at.runs(begin, n, [&](std::int64_t i, std::int64_t global, std::int64_t count) {
        for (std::int64_t j = 0; j < count; ++j)
          out[i + j] = global < 0 ? 0.0f : static_cast<float>(numbers.data()[global + j]);
      });
  }
  template <class Backend>
  void put(context& ctx, const flat_region& r, std::size_t k, const std::vector<std::uint8_t>& codes,
           const std::vector<std::uint8_t>& levels, const std::vector<float>& all_scales, std::byte* own) {
    auto& queue = ctx.queue<Backend>();
    const std::int64_t within = kept().overlap(r).begin - kept().begin;
    const auto upload = [&](const auto& from, void* to) {
      if (!from.empty())
        Backend::upload(queue, from.data(), to, static_cast<std::int64_t>(from.size() * sizeof(from[0])));
    };
    upload(codes, own + code_bytes(format, within));
    upload(levels, own + code_bytes(format, share) + level_bytes(format, within));
    upload(all_scales, scales[k].data);
    given[k] = true;
  }
};

}  // namespace weft::detail
