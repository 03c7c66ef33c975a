// Words that the ranks of a group exchange to see whether they hold the same, and what to say where they don't.
// Invariant: all ranks of the group come to one conclusion, in the same calls; ranks that hold the same are named
// together.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "weft/comm/any.hpp"
#include "weft/comm/detail/hash.hpp"

namespace weft {

/// What is compared: what takes it to be the same on every rank, and what it is.
struct compared_value {
  const char* operation = "";  // "contract"
  std::string_view tensor{};   // its dimensions, or the name of a parameter or of a number
  call_site at{};
  call_site after{};  // a line before it, where its own isn't known
};

namespace detail {

/// Every rank's words, as many on each.
class gathered_words {
 public:
  /// Throws where the communicator hasn't put this rank's own words in their place.
  [[gnu::cold]] WEFT_LINKED void gather(any_communicator& comm, std::string_view along, const collective_label& label,
                                        const std::uint64_t* words, std::size_t count) {
    constexpr std::uint64_t nothing = 0xa5a5a5a5a5a5a5a5u;
    count_ = count;
    ranks_ = static_cast<std::size_t>(comm.size());
    all_.assign(count * ranks_, nothing);
    comm.host().all_gather(words, all_.data(), static_cast<std::int64_t>(count * sizeof *words), label).wait();
    for (std::size_t i = 0; i < count; ++i)
      require(of(static_cast<std::size_t>(comm.rank()), i) == words[i], "check: all_gather along ", along,
              " has not put this rank's own part in its place by the time that wait() returns; mend the communicator");
  }
  std::size_t ranks() const { return ranks_; }
  std::size_t count() const { return count_; }
  std::uint64_t of(std::size_t rank, std::size_t i) const { return all_[rank * count_ + i]; }
  /// Word i of every rank.
  WEFT_LINKED std::vector<std::uint64_t> each(std::size_t i = 0) const {
    std::vector<std::uint64_t> out;
    for (std::size_t r = 0; r < ranks_; ++r) out.push_back(of(r, i));
    return out;
  }
  /// The first that isn't the same on all ranks; count() where all are.
  std::size_t first_difference() const {
    for (std::size_t i = 0; i < count_; ++i)
      for (std::size_t r = 1; r < ranks_; ++r)
        if (of(r, i) != of(0, i)) return i;
    return count_;
  }
  const std::uint64_t* begin() const { return all_.data(); }

 private:
  std::vector<std::uint64_t> all_;
  std::size_t count_ = 0, ranks_ = 0;
};

/// An element, in a word.
WEFT_LINKED std::uint64_t word_of(const local_array& x, std::int64_t offset) {
  std::uint64_t word = 0;
  std::memcpy(&word, static_cast<const std::byte*>(x.data) + offset * static_cast<std::int64_t>(size_of(x.type)),
              size_of(x.type));
  return word;
}

/// What rank r of a group has, in words: any function, seen as one type, so that the sentences below compile once.
class text_of_rank {
 public:
  template <class F>
  text_of_rank(const F& f)
      : of_(&f), say_([](const void* of, std::size_t r) -> std::string { return (*static_cast<const F*>(of))(r); }) {}
  std::string operator()(std::size_t r) const { return say_(of_, r); }

 private:
  const void* of_;
  std::string (*say_)(const void*, std::size_t);
};

/// "ranks 0, 2 have 0.5, rank 1 has 0.25": those whose words are equal stand together; said(r) is what number r has.
/// "rank 1 differs from ranks 0, 2" where it says nothing. ranks: by their numbers in the world.
[[gnu::cold]] WEFT_LINKED std::string who_has_what(const std::vector<std::uint64_t>& ranks,
                                                   const std::vector<std::uint64_t>& words, const text_of_rank& said) {
  std::string out, first;
  std::vector<bool> named(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (named[r]) continue;
    std::string who = text(ranks[r]);
    bool one = true;
    for (std::size_t s = r + 1; s < ranks.size(); ++s) {
      if (words[s] != words[r]) continue;
      named[s] = true, one = false;
      who += text(", ", ranks[s]);
    }
    who = (one ? "rank " : "ranks ") + who;
    const std::string has = said(r);
    if (!has.empty())
      out += text(out.empty() ? "" : ", ", who, one ? " has " : " have ", has);
    else if (r == 0)
      first = who;
    else
      out += text(out.empty() ? "" : ", ", who, one ? " differs" : " differ", " from ", first);
  }
  return out;
}

/// The sentence in which a check ends: on all ranks of `comm`. name: of what differs. after: a line before the label's,
/// where that has none.
[[noreturn, gnu::cold]] WEFT_LINKED void fail_check(any_communicator& comm, std::string_view along, int world_rank,
                                                    const collective_label& label, call_site after,
                                                    std::string_view name, std::string_view where,
                                                    const std::vector<std::uint64_t>& words, const text_of_rank& said) {
  gathered_words ranks;
  const auto mine = static_cast<std::uint64_t>(world_rank);
  ranks.gather(comm, along, {"the check's ranks"}, &mine, 1);
  std::string place = text_of(collective_label{"", {}, label.unit, label.number, {}});
  if (!place.empty()) place = "in " + place + ", ";
  if (label.at.line > 0)
    place += text((place.empty() ? "in " : ""), text_of(label.at), ", ");
  else if (after.line > 0)
    place += text("after ", text_of(after), ", ");
  fail("check: ", place, label.what, " takes ", name, " to be the same on every rank along ", along,
       ", and it is not: ", where, who_has_what(ranks.each(), words, said),
       ". Look for what depends on the rank: a seed, a branch, a divisor, a file");
}

/// The first element in which ranks differ: all ranks of the group look for it together. hashes: where no element says.
[[noreturn, gnu::cold]] WEFT_LINKED void fail_array(any_communicator& comm, std::string_view along, int world_rank,
                                                    const collective_label& label, call_site after,
                                                    std::string_view name, const local_array& x, const shape& valid,
                                                    const std::vector<std::uint64_t>& hashes) {
  gathered_words words;
  const auto size = static_cast<std::uint64_t>(valid.elements());
  words.gather(comm, along, {"the check's sizes"}, &size, 1);
  const std::vector<std::uint64_t> sizes = words.each();
  if (words.first_difference() == 0)
    fail_check(comm, along, world_rank, label, after, name, "", sizes,
               [&](std::size_t r) { return text(sizes[r], " elements"); });
  std::vector<std::uint64_t> block;
  for (std::int64_t from = 0; from < valid.elements(); from += 512) {
    block.clear();
    for (std::int64_t i = from; i < std::min(valid.elements(), from + 512); ++i)
      block.push_back(word_of(x, element_place(x, valid, i).offset));
    words.gather(comm, along, {"the check's search"}, block.data(), block.size());
    const std::size_t i = words.first_difference();
    if (i == words.count()) continue;
    const std::vector<std::uint64_t> numbers = words.each(i);
    const element_place place(x, valid, from + static_cast<std::int64_t>(i));
    fail_check(comm, along, world_rank, label, after, name, text_of(place, valid.ndim), numbers,
               [&](std::size_t r) { return number_text(x.type, numbers[r]); });
  }
  fail_check(comm, along, world_rank, label, after, name, "", hashes, [](std::size_t) { return std::string(); });
}

}  // namespace detail
}  // namespace weft
