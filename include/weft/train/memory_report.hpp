// memory.json: the ledger of every rank, by category, and what lies beside the arena: kernels' scratch, and
// page-locked memory of the host's.
#pragma once

#include <weft/io/file.hpp>
#include <weft/io/json.hpp>
#include <weft/tensor/gather_text.hpp>

namespace weft::detail {

/// A member "categories": of each, what it holds now, its highest, and what it held when the total was highest.
WEFT_LINKED void write_categories(json_writer& w, const memory_ledger& ledger) {
  w.key("categories").begin_object();
  for (std::size_t c = 0; c < static_cast<std::size_t>(memory_categories); ++c)
    w.key(memory_names[c])
        .begin_object()
        .member("current", ledger.current[c])
        .member("peak", ledger.peak[c])
        .member("at_peak", ledger.at_peak[c])
        .end_object();
  w.end_object();
}

/// A member "scratch", what kernels keep beside the arena, and the like: null where the queue doesn't say.
WEFT_LINKED void write_bytes(json_writer& w, const char* name, const std::optional<std::size_t>& bytes) {
  w.key(name);
  if (bytes)
    w.value(*bytes);
  else
    w.raw("null");
}

/// One rank's ledger, in bytes: held now, the highest of each category, and what each held when the total was highest.
/// `elsewhere`: what the optimizer's state takes in an arena of its own; `offloaded`: the most that activations took in
/// the host's memory.
WEFT_LINKED std::string memory_json(int rank, const memory_ledger& ledger, std::size_t elsewhere,
                                    std::size_t offloaded) {
  json_writer w;
  w.begin_object().member("rank", rank).member("current", ledger.total).member("peak", ledger.peak_total);
  w.member("reserved", ledger.reserved);
  write_bytes(w, "scratch", ledger.scratch);
  write_bytes(w, "pinned", ledger.pinned);
  w.member("optimizer_elsewhere", elsewhere).member("offloaded", offloaded);
  write_categories(w, ledger);
  return w.end_object().text();
}

/// Writes all ranks' ledgers to `path`. All ranks call it; the first one writes.
WEFT_LINKED void write_memory_report(context& ctx, const std::string& path) {
  const memory_ledger &own = ctx.memory.ledger(), &state = ctx.optimizer_ledger();
  const auto all = gather_text(
      ctx, memory_json(ctx.rank().here(), own, &state == &own ? 0 : state.total, ctx.offload_ledger().peak_total));
  if (!ctx.is_first()) return;
  json_writer w(2);
  w.begin_object().member("unit", "bytes").key("ranks").begin_array();
  for (const std::string& one : all) w.raw(one);
  write_file(path, w.end_array().end_object().text() + '\n');
}

}  // namespace weft::detail
