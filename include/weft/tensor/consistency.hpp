// That ranks hold the same numbers where types say that they do. A type sees placements, not numbers: no seed plus a
// rank, no branch on one rank, no file that only rank 0 read. Where launch_options.check is on, each rank has one of
// these, and what is used as equal is compared. Invariant: a comparison is a collective of its own, in which all ranks
// of an axis take part; numbers and memory stay as they are. Stages of a pipeline hold different things, so nothing is
// compared over pp.
#pragma once

#include <bit>
#include <initializer_list>

#include <weft/comm/detail/difference.hpp>
#include <weft/tensor/context.hpp>

namespace weft {

/// A number of the program on which all ranks have to agree: a learning rate, say.
struct named_number {
  const char* name;
  double number;
};

class consistency {
 public:
  explicit consistency(context& ctx) : ctx_(ctx) {}
  consistency(const consistency&) = delete;
  consistency& operator=(const consistency&) = delete;

  /// The program calls an operator. What has no line, as a * b, stands behind the last that had one, which is returned.
  call_site called(call_site at) { return at.line > 0 ? (last_ = at, call_site{}) : last_; }

  /// Calls f(group) for every axis that has more than one rank and whose ranks aren't stages.
  template <class F>
  void each_axis(F&& f) {
    for (const axis_group& g : ctx_.axes())
      if (compares_along(g)) f(ctx_.along(g.axis));
  }
  /// Whether it is such an axis's.
  static bool compares_along(const axis_group& g) {
    return g.degree > 1 && g.axis != id_of<pp> && g.axis != id_of<pipeline_ends>;
  }

  /// x is the same along an axis: the first `valid` elements of each dimension, in the host's memory. hash: hash_of it.
  /// Throws weft::failure on all ranks of the axis where it isn't. Here and below.
  [[gnu::cold]] WEFT_LINKED void compare(axis_group& along, const compared_value& what, std::uint64_t hash,
                                         const local_array& x, const shape& valid) {
    gather(along.comm, along.name, what, &hash, 1);
    if (words_.first_difference() == 0)
      detail::fail_array(along.comm, along.name, ctx_.rank().here(), label(what), what.after, what.tensor, x, valid,
                         words_.each());
  }
  /// The same of several arrays at once; x(i, f) calls f(name, array, valid) for number i, and is asked for one that
  /// differs only.
  template <class X>
  void compare_all(axis_group& along, const compared_value& what, const std::vector<std::uint64_t>& hashes, X&& x) {
    gather(along.comm, along.name, what, hashes.data(), hashes.size());
    const std::size_t i = words_.first_difference();
    if (i == hashes.size()) return;
    x(i, [&, differing = words_.each(i)](std::string_view name, const local_array& numbers, const shape& valid) {
      detail::fail_array(along.comm, along.name, ctx_.rank().here(), label(what), what.after, name, numbers, valid,
                         differing);
    });
  }
  /// Numbers of the program are the same on all ranks of a group, whose name is `along`.
  [[gnu::cold]] WEFT_LINKED void compare(any_communicator& comm, std::string_view along, const compared_value& what,
                                         const std::vector<named_number>& numbers) {
    own_.clear();
    for (const named_number& n : numbers) own_.push_back(std::bit_cast<std::uint64_t>(n.number));
    gather(comm, along, what, own_.data(), own_.size());
    const std::size_t i = words_.first_difference();
    if (i == own_.size()) return;
    const std::vector<std::uint64_t> differing = words_.each(i);
    detail::fail_check(comm, along, ctx_.rank().here(), label(what), {}, numbers[i].name, "", differing,
                       [&](std::size_t r) { return detail::number_text(std::bit_cast<double>(differing[r])); });
  }

  /// Remembers that the program read x, which is whole on every axis. It is compared later, where all ranks of an axis
  /// read as often: so one rank alone may print a loss. number: x, if it is one number, of this type.
  WEFT_LINKED void read(const compared_value& what, std::uint64_t hash, std::uint64_t number, dtype type) {
    if (reads_.size() == most_reads) return;
    const std::uint64_t line = detail::hash_text(what.at.file, static_cast<std::uint64_t>(what.at.line));
    reads_.push_back(
        {what, detail::hash_text(what.operation, detail::hash_text(what.tensor, line)), hash, number, type});
  }
  /// Compares what was read since the last time.
  [[gnu::cold]] void compare_reads() {
    each_axis([&](axis_group& along) { compare_reads(along); });
    reads_.clear();
  }

  /// A backward begins, or one within it.
  void begin_backward() { ++depth_; }
  /// It backpropagates what `name` made, a value of these sizes. numbers: stands for those of the program in it.
  void carries_back(const char* name, const shape& sizes, std::uint64_t numbers) {
    steps_.push_back({name, sizes, detail::hash_of_step(name, sizes, numbers)});
  }
  /// It ends: all ranks have backpropagated the same operators, in the same order.
  [[gnu::cold]] WEFT_LINKED void end_backward() {
    if (--depth_ > 0) return;
    std::uint64_t hash = steps_.size();
    for (const step& s : steps_) hash = detail::mix(hash ^ s.hash);
    each_axis([&](axis_group& along) {
      gather(along.comm, along.name, {"backward", "the operators"}, &hash, 1);
      if (words_.first_difference() == 0) steps_differ(along);
    });
    steps_.clear();
  }
  /// It ends by an exception.
  void leave_backward() {
    if (--depth_ == 0) steps_.clear();
  }

  /// The members of a group, number i being rank first + i * stride of the world, lie in that order in what they
  /// gather.
  [[gnu::cold]] WEFT_LINKED void check_order(axis_group& along, int first, int stride) {
    const auto mine = static_cast<std::uint64_t>(ctx_.rank().here());
    gather(along.comm, along.name, {"launch", "the ranks' order"}, &mine, 1);
    for (int i = 0; i < along.degree; ++i) {
      const auto here = words_.of(static_cast<std::size_t>(i), 0), due = static_cast<std::uint64_t>(first + i * stride);
      require(here == due, "check: part ", i, " of what all_gather gathers along ", along.name, " is that of rank ",
              here, ", where that of rank ", due, " belongs; mend the communicator's split or all_gather");
    }
  }

 private:
  static constexpr std::size_t most_reads = 1 << 16;  // between two comparisons

  struct read_number {
    compared_value what;
    std::uint64_t key, hash, number;  // key: of the place in the program
    dtype type;
  };
  struct step {
    const char* name;
    shape sizes;
    std::uint64_t hash;
  };

  collective_label label(const compared_value& what) const {
    return {what.operation, what.tensor, ctx_.unit, ctx_.micro_batch, what.at, label_kind::check};
  }
  [[gnu::cold]] void gather(any_communicator& comm, std::string_view along, const compared_value& what,
                            const std::uint64_t* words, std::size_t count) {
    words_.gather(comm, along, label(what), words, count);
  }

  // The reads of one place in the program are compared where all ranks have as many of them.
  [[gnu::cold]] WEFT_LINKED void compare_reads(axis_group& along) {
    const std::uint64_t count = reads_.size();
    gather(along.comm, along.name, {"launch", "how often was read"}, &count, 1);
    const std::vector<std::uint64_t> counts = words_.each();
    const std::uint64_t most = *std::max_element(counts.begin(), counts.end());
    if (most == 0) return;
    own_.assign(3 * most, 0);
    for (std::size_t i = 0; i < count; ++i)
      own_[3 * i] = reads_[i].key, own_[3 * i + 1] = reads_[i].hash, own_[3 * i + 2] = reads_[i].number;
    gather(along.comm, along.name, {"launch", "what was read"}, own_.data(), own_.size());
    std::vector<std::uint64_t> seen;
    for (std::size_t k = 0; k < counts.front(); ++k) {
      const std::uint64_t key = words_.of(0, 3 * k);
      if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
      seen.push_back(key);
      compare_place(along, key, counts);
    }
  }
  WEFT_LINKED void compare_place(axis_group& along, std::uint64_t key, const std::vector<std::uint64_t>& counts) {
    std::vector<std::vector<std::size_t>> at(counts.size());  // by rank
    for (std::size_t r = 0; r < counts.size(); ++r)
      for (std::size_t i = 0; i < counts[r]; ++i)
        if (words_.of(r, 3 * i) == key) at[r].push_back(3 * i);
    for (const auto& places : at)
      if (places.size() != at.front().size()) return;
    for (std::size_t n = 0; n < at.front().size(); ++n) {
      std::vector<std::uint64_t> hashes, numbers;
      bool differ = false;
      for (std::size_t r = 0; r < at.size(); ++r) {
        hashes.push_back(words_.of(r, at[r][n] + 1));
        numbers.push_back(words_.of(r, at[r][n] + 2));
        differ = differ || hashes[r] != hashes[0];
      }
      if (!differ) continue;
      const read_number& mine = reads_[at[static_cast<std::size_t>(along.index)][n] / 3];
      detail::fail_check(along.comm, along.name, ctx_.rank().here(), {mine.what.operation, {}, {}, -1, mine.what.at},
                         {}, mine.what.tensor, "", hashes, [&](std::size_t r) {
                           return mine.what.tensor == "[]" ? detail::number_text(mine.type, numbers[r]) : std::string();
                         });
    }
  }

  [[noreturn, gnu::cold]] WEFT_LINKED void steps_differ(axis_group& along) {
    const std::uint64_t count = steps_.size();
    gather(along.comm, along.name, {"backward", "how many operators"}, &count, 1);
    const std::vector<std::uint64_t> counts = words_.each();
    own_.clear();
    for (const step& s : steps_) own_.push_back(s.hash);
    own_.resize(*std::max_element(counts.begin(), counts.end()), 0);
    gather(along.comm, along.name, {"backward", "all operators"}, own_.data(), own_.size());
    const std::size_t i = std::min(words_.first_difference(), own_.size() - 1);
    const std::vector<std::uint64_t> hashes = words_.each(i);
    std::string said = "nothing";
    if (i < count) {
      said = detail::text(steps_[i].name, " of [");
      for (int d = 0; d < steps_[i].sizes.ndim; ++d) said += detail::text(d == 0 ? "" : ", ", steps_[i].sizes[d]);
      said += "]";
    }
    said.resize(64);
    std::uint64_t characters[8];
    std::memcpy(characters, said.data(), sizeof characters);
    gather(along.comm, along.name, {"backward", "names of operators"}, characters, std::size(characters));
    const auto name = [&](std::size_t r) { return std::string(reinterpret_cast<const char*>(words_.begin() + 8 * r)); };
    detail::fail_check(along.comm, along.name, ctx_.rank().here(), label({"backward"}), {}, "what it backpropagates",
                       detail::text("as step ", i, " "), hashes, [&](std::size_t r) {
                         return name(r) +
                                (r > 0 && name(r) == name(0)
                                     ? " with another number (weights that are meant to differ are a sharded tensor)"
                                     : "");
                       });
  }

  context& ctx_;
  detail::gathered_words words_;
  call_site last_;  // that the program called
  std::vector<std::uint64_t> own_;
  std::vector<read_number> reads_;
  std::vector<step> steps_;
  int depth_ = 0;
};

/// A backward, checked where anything is.
class checked_backward {
 public:
  explicit checked_backward(consistency* by) : by_(by) {
    if (by_) by_->begin_backward();
  }
  ~checked_backward() {
    if (by_) by_->leave_backward();
  }
  checked_backward(const checked_backward&) = delete;
  checked_backward& operator=(const checked_backward&) = delete;

  /// It has run.
  void end() {
    if (consistency* by = std::exchange(by_, nullptr)) by->end_backward();
  }

 private:
  consistency* by_;
};

}  // namespace weft
