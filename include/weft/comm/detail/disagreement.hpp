// The sentence for ranks of a group whose calls don't fit together. Invariant: members are named by their ranks in the
// world.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/comm/call.hpp"

namespace weft::detail {

inline constexpr std::string_view all_alike =
    "Every rank of a group has to call the same collectives in the same order.";

/// What one rank sends each and receives from each in an all_to_allv.
struct part_sizes {
  const std::int64_t* sent = nullptr;
  const std::int64_t* received = nullptr;
};

/// sizes(m): those of member m. `purpose`: as purpose_of says it. Empty where each receives what it is sent.
template <class Sizes>
[[gnu::cold, gnu::noinline]] std::string uneven_parts(std::string_view group, const std::vector<int>& members,
                                                      std::string_view purpose, const Sizes& sizes) {
  const auto ranks = static_cast<int>(members.size());
  for (int to = 0; to < ranks; ++to)
    for (int from = 0; from < ranks; ++from) {
      const std::int64_t sent = sizes(from).sent[to], received = sizes(to).received[from];
      if (sent == received) continue;
      return text("In the all_to_allv", purpose, " of group '", group, "' rank ", members[static_cast<std::size_t>(to)],
                  " receives ", received, " bytes from rank ", members[static_cast<std::size_t>(from)],
                  ", which sends it ", sent, "; make the two sizes equal.");
    }
  return {};
}
/// says(m): "calls barrier()" of member m. `pair`: they are a send and a recv, and no collective.
template <class Says>
[[gnu::cold, gnu::noinline]] std::string disagreement_of(std::string_view group, const std::vector<int>& members,
                                                         std::uint64_t number, bool pair, const Says& says) {
  std::string message = text("The ranks of group '", group, "' disagree on their ", pair ? "exchange" : "collective",
                             " number ", number, ":");
  for (int m = 0; m < static_cast<int>(members.size()); ++m)
    message += text(m == 0 ? " rank " : "; rank ", members[static_cast<std::size_t>(m)], " ", says(m));
  return message + (pair ? ". A send and the recv it meets must have the same size and label, its line too."
                         : text(". ", all_alike));
}
/// calls(m): the call of member m, all of which meet as operation `number` of the group. Empty where they agree.
template <class Calls>
[[gnu::cold, gnu::noinline]] std::string disagreement(std::string_view group, const std::vector<int>& members,
                                                      std::uint64_t number, const Calls& calls) {
  bool all_agree = true;
  for (int m = 1; m < static_cast<int>(members.size()); ++m) all_agree = all_agree && agree(calls(0), calls(m));
  if (!all_agree)
    return disagreement_of(group, members, number, calls(0).is(comm_operation::send),
                           [&](int m) { return "calls " + describe(calls(m)); });
  if (!calls(0).is(comm_operation::all_to_allv)) return {};
  const auto sizes = [&](int m) { return part_sizes{calls(m).send_bytes, calls(m).recv_bytes}; };
  return uneven_parts(group, members, purpose_of(calls(0)), sizes);
}

}  // namespace weft::detail
