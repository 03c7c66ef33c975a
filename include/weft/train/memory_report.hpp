// memory.json: the ledger of every rank, by category, and beside it what kernels keep for scratch.
#pragma once

#include <weft/io/file.hpp>
#include <weft/io/json.hpp>
#include <weft/train/gather_text.hpp>

namespace weft {

/// One rank's ledger, in bytes: held now, the highest of each category, and what each held when the total was highest.
/// `scratch`: what its kernels keep beside that, at its highest.
inline std::string memory_json(int rank, const memory_ledger& ledger, std::size_t scratch) {
  json_writer w;
  w.begin_object().member("rank", rank).member("current", ledger.total).member("peak", ledger.peak_total);
  w.member("reserved", ledger.reserved).member("scratch", scratch).key("categories").begin_object();
  for (std::size_t c = 0; c < static_cast<std::size_t>(memory_categories); ++c)
    w.key(memory_names[c])
        .begin_object()
        .member("current", ledger.current[c])
        .member("peak", ledger.peak[c])
        .member("at_peak", ledger.at_peak[c])
        .end_object();
  return w.end_object().end_object().text();
}

/// Writes all ranks' ledgers to `path`. `scratch`: bytes that this rank's kernels keep. All ranks call it; the first
/// one writes.
inline void write_memory_report(context& ctx, const std::string& path, std::size_t scratch) {
  const auto all = gather_text(ctx, memory_json(ctx.rank(), ctx.memory.ledger(), scratch));
  if (!ctx.is_first()) return;
  json_writer w(2);
  w.begin_object().member("unit", "bytes").key("ranks").begin_array();
  for (const std::string& one : all) w.raw(one);
  write_file(path, w.end_array().end_object().text() + '\n');
}

}  // namespace weft
