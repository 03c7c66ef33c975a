// What may fail on one rank and has to fail on all. Invariant: either every rank goes on, or every rank throws the
// same.
#pragma once

#include <string>

#include <weft/tensor/context.hpp>

namespace weft::detail {

/// Throws on every rank what rank `first` has to say. All ranks call it.
[[noreturn]] inline void fail_as(context& ctx, int first, std::string said) {
  any_communicator host = ctx.world.host();
  auto bytes = static_cast<std::int64_t>(said.size());
  host.broadcast(&bytes, sizeof bytes, first, {"length of a text"}).wait();
  said.resize(static_cast<std::size_t>(bytes));
  if (bytes > 0) host.broadcast(said.data(), bytes, first, {"text"}).wait();
  throw failure(said);
}

/// Runs f on every rank; where it throws weft::failure on any, all throw what it said on the first of those. All ranks
/// call it, and f calls no collective.
template <class F>
void on_all_or_none(context& ctx, F&& f) {
  std::string said;
  std::int64_t failed = ctx.size();
  try {
    f();
  } catch (const failure& e) {
    if (ctx.size() == 1) throw;
    said = e.what();
    failed = ctx.rank().here();
  }
  if (ctx.size() == 1) return;
  failed = -failed;
  ctx.world.host().all_reduce(&failed, &failed, 1, dtype::i64, reduction::max, {"the rank that failed"}).wait();
  if (const int first = static_cast<int>(-failed); first < ctx.size()) fail_as(ctx, first, said);
}

}  // namespace weft::detail
