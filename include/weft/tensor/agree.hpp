// What may fail on one rank and has to fail on all. Invariant: either every rank goes on, or every rank throws the
// same.
#pragma once

#include <new>
#include <string>

#include <weft/tensor/context.hpp>

namespace weft::detail {

/// What every rank throws, with the same text: one that catches it goes on together with the others.
class failure_of_all final : public failure {
 public:
  using failure::failure;
};

/// Throws on every rank what rank `first` has to say. All ranks call it.
[[noreturn]] inline void fail_as(context& ctx, int first, std::string said) {
  any_communicator host = ctx.world.host();
  auto bytes = static_cast<std::int64_t>(said.size());
  host.broadcast(&bytes, sizeof bytes, first, {"length of a text"}).wait();
  said.resize(static_cast<std::size_t>(bytes));
  if (bytes > 0) host.broadcast(said.data(), bytes, first, {"text"}).wait();
  throw failure_of_all(said);
}

/// What the exception that is caught says, in a catch block; never nothing.
[[gnu::cold]] inline std::string said_by_what_is_caught() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return "out of memory";  // short enough to take none
  } catch (const std::exception& e) {
    if (*e.what() != '\0') return e.what();
  } catch (...) {
  }
  return "what was thrown says nothing: it is no std::exception, or its text is empty";
}

/// Runs f on one of the ranks. Where it throws, the others have to be told: what it said goes into `said`, which is
/// empty until then. A rank alone throws it itself.
template <class F>
void run_or_say(const context& ctx, std::string& said, F&& f) {
  try {
    f();
  } catch (...) {
    if (ctx.size() == 1) throw;
    said = said_by_what_is_caught();
  }
}

/// Throws on every rank what the first one says that says something; where none does, goes on. All ranks call it.
inline void fail_where_said(context& ctx, const std::string& said) {
  if (ctx.size() == 1) return;
  std::int64_t failed = ctx.size();
  if (!said.empty()) failed = ctx.rank().here();
  failed = -failed;
  ctx.world.host().all_reduce(&failed, &failed, 1, dtype::i64, reduction::max, {"the rank that failed"}).wait();
  if (const int first = static_cast<int>(-failed); first < ctx.size()) fail_as(ctx, first, said);
}

/// Runs f on every rank; where it throws on any, all throw failure_of_all with what it said on the first of those (a
/// rank alone what f threw). All ranks call it, and f calls no collective.
template <class F>
void on_all_or_none(context& ctx, F&& f) {
  std::string said;
  run_or_say(ctx, said, f);
  fail_where_said(ctx, said);
}

}  // namespace weft::detail
