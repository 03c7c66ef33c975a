// One collective with its inputs and what must come out, computed here from all ranks' inputs.
// Invariant: values are small integers, so that every order of summation is exact, in every dtype.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <weft/comm/concept.hpp>

namespace weft::testing::detail::collectives {

using bytes = std::vector<std::byte>;

enum class kind { all_reduce, all_gather, reduce_scatter, all_to_all, all_to_allv, broadcast, ring, barrier };
inline constexpr int kinds = 8;
inline constexpr dtype dtypes[] = {dtype::f64, dtype::f32, dtype::bf16, dtype::f16, dtype::i64, dtype::i32, dtype::u8};
inline constexpr reduction reductions[] = {reduction::sum, reduction::max, reduction::min};

inline std::uint64_t mix(std::uint64_t x) {  // splitmix64's output function
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

struct choice {
  kind what = kind::barrier;
  std::int64_t count = 0;
  dtype type = dtype::f32;
  reduction how = reduction::sum;
  int root = 0;
  bool in_place = false;
  std::uint64_t seed = 0;  // also names the group, so that a mix-up of groups shows
};

/// Input element i of rank r of the group: -8 to 7, or 0 to 15 for the unsigned.
inline std::int64_t value(const choice& c, int r, std::int64_t i) {
  const auto v = static_cast<std::int64_t>(mix(mix(c.seed) ^ mix(std::uint64_t(r) << 40 | std::uint64_t(i))) % 16);
  return c.type == dtype::u8 ? v : v - 8;
}

template <class F>
bytes fill(const choice& c, std::int64_t count, F value_at) {
  bytes out(static_cast<std::size_t>(count) * size_of(c.type));
  visit_dtype(c.type, [&]<class T>() {
    for (std::int64_t i = 0; i < count; ++i) {
      const T x = static_cast<T>(value_at(i));
      std::memcpy(out.data() + i * static_cast<std::int64_t>(sizeof(T)), &x, sizeof x);
    }
  });
  return out;
}

/// Posts on construction, `finish` waits and says what is wrong ("" if nothing).
class trial {
 public:
  template <class C>
  trial(C& c, const choice& how) : choice_(how), rank_(c.rank()), ranks_(c.size()) {
    if (!computes()) choice_.type = dtype::u8;
    const std::int64_t n = choice_.count;
    const bool wide = how.what == kind::reduce_scatter || how.what == kind::all_to_all;
    for (int r = 0; r < ranks_; ++r) send_bytes_.push_back(part(rank_, r)), recv_bytes_.push_back(part(r, rank_));
    const std::int64_t own = how.what == kind::all_to_allv ? begin_of(rank_, ranks_) : wide ? n * ranks_ : n;
    in_ = fill(choice_, own, [&](std::int64_t i) { return value(choice_, rank_, i); });
    before_ = in_;
    expect();
    post(c);
  }
  trial(trial&&) = default;
  trial& operator=(trial&&) = default;

  bool test() { return first_.test() && second_.test(); }
  std::string finish() {
    first_.wait();
    second_.wait();
    if (!expected_.empty() && std::memcmp(place_, expected_.data(), expected_.size()) != 0) return name() + differs();
    if (!choice_.in_place && choice_.what != kind::broadcast && in_ != before_) return name() + ": input changed";
    for (std::size_t i = expected_.size(); i < out_.size(); ++i) {
      if (out_[i] != std::byte{0x5a}) return name() + ": wrote past its buffer";
    }
    return {};
  }

  std::string name() const {
    const char* names[] = {"all_reduce",  "all_gather", "reduce_scatter", "all_to_all",
                           "all_to_allv", "broadcast",  "ring",           "barrier"};
    return std::string(names[int(choice_.what)]) + " of " + std::to_string(choice_.count) + " " +
           name_of(choice_.type) + (computes() ? std::string(" ") + name_of(choice_.how) : "") +
           (choice_.in_place ? " in place" : "") + " on rank " + std::to_string(rank_) + " of " +
           std::to_string(ranks_);
  }

 private:
  bool computes() const { return choice_.what == kind::all_reduce || choice_.what == kind::reduce_scatter; }
  /// Elements that rank `from` sends rank `to` in an all_to_allv: none, count, or twice as many.
  std::int64_t part(int from, int to) const {
    return choice_.count * std::int64_t((std::uint64_t(from) + 2 * std::uint64_t(to) + choice_.seed) % 3);
  }
  /// Where what `from` sends `to` begins in its input.
  std::int64_t begin_of(int from, int to) const {
    std::int64_t at = 0;
    for (int r = 0; r < to; ++r) at += part(from, r);
    return at;
  }
  /// The first element that isn't what is due.
  std::string differs() const {
    return visit_dtype(choice_.type, [&]<class T>() {
      T got{}, due{};
      std::size_t i = 0;
      for (; i * sizeof(T) < expected_.size(); ++i) {
        std::memcpy(&got, place_ + i * sizeof(T), sizeof got);
        std::memcpy(&due, expected_.data() + i * sizeof(T), sizeof due);
        if (std::memcmp(&got, &due, sizeof got) != 0) break;
      }
      return weft::detail::text(": element ", i, " is ", static_cast<double>(got), " where ", static_cast<double>(due),
                                " is due");
    });
  }

  std::int64_t fold(std::int64_t i) const {
    std::int64_t sum = value(choice_, 0, i);
    for (int r = 1; r < ranks_; ++r) {
      const std::int64_t x = value(choice_, r, i);
      sum = choice_.how == reduction::sum ? sum + x : (choice_.how == reduction::max) == (x > sum) ? x : sum;
    }
    return sum;
  }

  void expect() {
    const std::int64_t n = choice_.count;
    const auto of = [&](std::int64_t count, auto f) { expected_ = fill(choice_, count, f); };
    switch (choice_.what) {
      case kind::all_reduce:
        return of(n, [&](std::int64_t i) { return fold(i); });
      case kind::reduce_scatter:
        return of(n, [&](std::int64_t i) { return fold(rank_ * n + i); });
      case kind::all_gather:
        return of(n * ranks_, [&](std::int64_t i) { return value(choice_, int(i / n), i % n); });
      case kind::all_to_all:
        return of(n * ranks_, [&](std::int64_t i) { return value(choice_, int(i / n), rank_ * n + i % n); });
      case kind::all_to_allv: {
        std::int64_t all = 0;
        for (int r = 0; r < ranks_; ++r) all += part(r, rank_);
        return of(all, [&](std::int64_t i) {
          int from = 0;
          for (; i >= part(from, rank_); ++from) i -= part(from, rank_);
          return value(choice_, from, begin_of(from, rank_) + i);
        });
      }
      case kind::broadcast:
        return of(n, [&](std::int64_t i) { return value(choice_, choice_.root, i); });
      case kind::ring:
        return of(n, [&](std::int64_t i) { return value(choice_, (rank_ + ranks_ - 1) % ranks_, i); });
      case kind::barrier:
        return;
    }
  }

  template <class C>
  void post(C& c) {
    const std::int64_t n = choice_.count, width = static_cast<std::int64_t>(size_of(choice_.type));
    out_.assign(expected_.size() + 64, std::byte{0x5a});  // with a border that must stay
    place_ = out_.data();
    const std::byte* in = in_.data();
    const auto purpose = static_cast<std::int64_t>(choice_.seed % 1000);
    const collective_label label{"a trial", "numbers", "the laws", purpose};
    if (choice_.in_place && choice_.what == kind::all_reduce) place_ = in_.data();
    if (choice_.in_place && choice_.what == kind::reduce_scatter) place_ = in_.data() + rank_ * n * width;
    if (choice_.in_place && choice_.what == kind::all_gather) {
      if (n > 0) std::memcpy(out_.data() + rank_ * n, in_.data(), static_cast<std::size_t>(n));
      in = out_.data() + rank_ * n;
    }
    switch (choice_.what) {
      case kind::all_reduce:
        first_ = c.all_reduce(in, place_, n, choice_.type, choice_.how, label);
        break;
      case kind::reduce_scatter:
        first_ = c.reduce_scatter(in, place_, n, choice_.type, choice_.how, label);
        break;
      case kind::all_gather:
        first_ = c.all_gather(in, place_, n, label);
        break;
      case kind::all_to_all:
        first_ = c.all_to_all(in, place_, n, label);
        break;
      case kind::all_to_allv:
        first_ = c.all_to_allv(in, send_bytes_.data(), place_, recv_bytes_.data(), label);
        break;
      case kind::broadcast:
        place_ = in_.data();
        first_ = c.broadcast(place_, n, choice_.root, label);
        break;
      case kind::ring:
        first_ = c.send(in, n, (rank_ + 1) % ranks_, 0, label);
        second_ = c.recv(place_, n, (rank_ + ranks_ - 1) % ranks_, 0, label);
        break;
      case kind::barrier:
        first_ = c.barrier(label);
        break;
    }
  }

  choice choice_;
  int rank_, ranks_;
  bytes in_, before_, out_, expected_;
  std::vector<std::int64_t> send_bytes_, recv_bytes_;
  std::byte* place_ = nullptr;
  request first_, second_;
};

}  // namespace weft::testing::detail::collectives
