// Texts of all ranks on the first one: what files about a whole run are made from, over any communicator.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <weft/tensor/agree.hpp>

namespace weft::detail {

/// Every rank's text, in rank order, on the first rank; an empty list on the others. All ranks call it. Throws on all
/// of them where one has no memory for it.
WEFT_LINKED std::vector<std::string> gather_text(context& ctx, const std::string& own) {
  if (ctx.size() == 1) return {own};
  const auto ranks = static_cast<std::size_t>(ctx.size());
  std::vector<std::int64_t> sent, taken;  // bytes, to each rank and from it
  on_all_or_none(ctx, [&] { sent.assign(ranks, static_cast<std::int64_t>(own.size())), taken.resize(ranks); });
  any_communicator host = ctx.world.host();
  host.all_to_all(sent.data(), taken.data(), sizeof(std::int64_t), {"length of a text"}).wait();
  std::vector<std::string> all;
  std::string joined;
  on_all_or_none(ctx, [&] {
    if (!ctx.is_first()) return;
    std::size_t bytes = 0;
    for (const std::int64_t n : taken) bytes += all.emplace_back(static_cast<std::size_t>(n), '\0').size();
    joined.resize(bytes);
  });
  if (!ctx.is_first()) std::fill(taken.begin(), taken.end(), 0);
  std::fill(sent.begin() + 1, sent.end(), 0);
  host.all_to_allv(own.data(), sent.data(), joined.data(), taken.data(), {"text"}).wait();
  std::size_t from = 0;
  for (std::string& text : all) from += joined.copy(text.data(), text.size(), from);
  return all;
}

}  // namespace weft::detail
