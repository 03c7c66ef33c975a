// What the programs here and the scripts that read their folders agree on: tokens, and weights that are drawn by their
// names.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include <weft/io/file.hpp>
#include <weft/weft.hpp>

namespace peer {

constexpr std::int64_t rows = 4, length = 16, vocabulary = 96;

/// As the scripts' `tokens`.
template <class S>
weft::token_ids<S> tokens(weft::context& ctx) {
  return weft::generate<weft::token_ids<S>>(ctx, {rows, length},
                                            [](std::int64_t i) { return (31 + i * i * 5 + i * 3) % vocabulary; });
}

/// A parameter's numbers: far from 0 and from each other, as wide as bf16 has them.
inline std::vector<double> numbers_of(const weft::parameter_record& p) {
  std::vector<double> all(static_cast<std::size_t>(p.global.elements()));
  const double width = p.global.ndim > 1 ? 0.6 : 1, middle = p.name.find("norm") != p.name.npos ? 1 : 0;
  std::uint64_t x = 0;
  for (const char c : p.name) x = x * 131 + static_cast<unsigned char>(c);
  for (double& y : all) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    y = middle + width * (static_cast<double>(x >> 56) / 256 - 0.5);  // 8 bits
  }
  return all;
}

/// The logits of those tokens, to a file of numbers, one a line.
template <class S, class Model>
void write_logits(weft::context& ctx, Model& model, const std::string& to) {
  const weft::recording off(ctx, nullptr);
  const auto logits = on_host(all_gather<weft::dp>(all_gather<weft::tp>(model(tokens<S>(ctx)))));
  if (!ctx.is_first()) return;
  std::string text;
  char line[40];
  for (const double x : logits)
    text.append(line, static_cast<std::size_t>(std::snprintf(line, sizeof line, "%.17g\n", x)));
  weft::write_file(to, text);
}

}  // namespace peer
