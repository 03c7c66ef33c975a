// One rank's call of one operation, as the other ranks see it.
// Invariant: two calls that `agree` can be run together; every other pair is a mistake in the program.
#pragma once

#include <cstdint>
#include <string>

#include "weft/comm/concept.hpp"

namespace weft::detail {

enum class verb : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  send,
  recv,
  barrier,
  split
};

constexpr const char* name_of(verb operation) {
  constexpr const char* names[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast",
                                   "send",       "recv",       "barrier",        "split"};
  return names[static_cast<int>(operation)];
}

struct call {
  const void* in = nullptr;
  void* out = nullptr;
  std::int64_t count = 0;  // elements where the operation computes, else bytes
  verb operation = verb::barrier;
  collective_label label{};
  dtype type = dtype::u8;
  reduction how = reduction::sum;
  int root = 0;

  bool computes() const { return operation == verb::all_reduce || operation == verb::reduce_scatter; }
  std::int64_t width() const { return computes() ? static_cast<std::int64_t>(size_of(type)) : 1; }
};

inline bool agree(const call& a, const call& b) {
  const bool pair = a.operation == verb::send && b.operation == verb::recv;
  return (a.operation == b.operation || pair) && a.count == b.count && a.type == b.type && a.how == b.how &&
         a.root == b.root && a.label == b.label;
}

/// "all_reduce(96 fp32, sum)", "broadcast(64 bytes, root 1)"
[[gnu::cold, gnu::noinline]] inline std::string describe_operation(const call& what) {
  const char* const name = name_of(what.operation);
  if (what.operation == verb::barrier || what.operation == verb::split) return text(name, "()");
  if (what.computes()) return text(name, "(", what.count, " ", name_of(what.type), ", ", name_of(what.how), ")");
  if (what.operation == verb::broadcast) return text(name, "(", what.count, " bytes, root ", what.root, ")");
  return text(name, "(", what.count, " bytes)");
}
/// " for weights of layer 3"; empty where nothing was said.
[[gnu::cold, gnu::noinline]] inline std::string purpose_of(const call& what) {
  const std::string purpose = text_of(what.label);
  return purpose.empty() ? purpose : " for " + purpose;
}
/// Both: "all_gather(64 bytes) for weights of layer 3".
[[gnu::cold, gnu::noinline]] inline std::string describe(const call& what) {
  return describe_operation(what) + purpose_of(what);
}

}  // namespace weft::detail
