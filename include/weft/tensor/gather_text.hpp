// Texts of all ranks on the first one: what files about a whole run are made from, over any communicator.
#pragma once

#include <string>
#include <vector>

#include <weft/tensor/context.hpp>

namespace weft::detail {

/// Every rank's text, in rank order, on the first rank; an empty list on the others. All ranks call it.
WEFT_LINKED std::vector<std::string> gather_text(context& ctx, const std::string& own) {
  any_communicator host = ctx.world.host();
  if (!ctx.is_first()) {
    auto bytes = static_cast<std::int64_t>(own.size());
    host.send(&bytes, sizeof bytes, 0, 0, {"length of a text"}).wait();
    if (bytes > 0) host.send(own.data(), bytes, 0, 0, {"text"}).wait();
    return {};
  }
  std::vector<std::string> all{own};
  for (int from = 1; from < ctx.size(); ++from) {
    std::int64_t bytes = 0;
    host.recv(&bytes, sizeof bytes, from, 0, {"length of a text"}).wait();
    std::string& text = all.emplace_back(static_cast<std::size_t>(bytes), '\0');
    if (bytes > 0) host.recv(text.data(), bytes, from, 0, {"text"}).wait();
  }
  return all;
}

}  // namespace weft::detail
