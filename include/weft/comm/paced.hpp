// A decorator that makes a communicator as slow as the links that it stands for, so that a laptop shows what overlaps
// with what. Invariant: what moves is what C moves; only the moment of completion is another.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "weft/comm/clock.hpp"
#include "weft/comm/concept.hpp"
#include "weft/core/finite.hpp"

namespace weft {

/// How fast a group's ranks reach each other: before the first byte arrives, and from then on, of each rank.
struct link_speed {
  double latency_us = 0;
  double bytes_per_us = __builtin_inf();  // 1000 of them are 1 GB/s
};

namespace detail {

template <class L>
concept are_links = requires(std::string_view group) {
  { L::of(group) } -> std::same_as<link_speed>;
};

template <class L>
link_speed speed_of(std::string_view group) {
  if constexpr (are_links<L>) return L::of(group);
  return {};
}

/// The operations of one rank that are under way, and when each may complete.
template <class Clock>
class pacer final : public completion {
 public:
  /// `start(stamp)` posts an operation, and beside it one that makes `*stamp` the latest moment at which a rank posted
  /// it; it returns both. It completes `microseconds` after that.
  template <class Start>
  request post(double microseconds, Start&& start) {
    if (free_.empty()) {
      free_.push_back(open_.size());
      open_.push_back(std::make_unique<operation>());
    }
    operation& o = *open_[free_.back()];
    o.stamp = Clock::now();
    constexpr double most = 1e13;  // a third of a year, which a clock can count
    o.cost = static_cast<std::int64_t>(1000 * (microseconds < most ? microseconds : most));
    std::tie(o.data, o.stamped) = start(&o.stamp);
    const std::size_t place = free_.back();
    free_.pop_back();
    return {*this, place};
  }

  void wait(std::uint64_t ticket) override {
    operation& o = *open_[ticket];
    const giving_back place{*this, ticket};
    o.data.wait();  // first: it has the name under which a rank that waits in vain is told of
    o.stamped.wait();
    Clock::wait_until(o.stamp + o.cost);
  }
  void make_wait(std::uint64_t ticket, const queue_ref& queue) override {
    operation& o = *open_[ticket];
    const giving_back place{*this, ticket};
    o.data.wait(queue);
    o.stamped.wait();  // until all ranks have posted it, which says when it completes
    if (queue.runs_behind())
      queue.enqueue(std::make_shared<until>(o.stamp + o.cost));
    else
      Clock::wait_until(o.stamp + o.cost);
  }
  bool test(std::uint64_t ticket) override {
    operation& o = *open_[ticket];
    if (!o.data.test() || !o.stamped.test() || !Clock::reached(o.stamp + o.cost)) return false;
    free_.push_back(ticket);
    return true;
  }
  void abandon(std::uint64_t ticket) noexcept override {
    const giving_back place{*this, ticket};
    open_[ticket]->data.abandon();
    open_[ticket]->stamped.abandon();
  }

 private:
  struct operation {
    request data, stamped;
    std::int64_t stamp = 0, cost = 0;  // nanoseconds
  };
  struct until final : queued_work {
    explicit until(std::int64_t at) : moment(at) {}
    void run() override { Clock::wait_until(moment); }
    const std::int64_t moment;
  };
  struct giving_back {
    pacer& to;
    std::uint64_t ticket;
    ~giving_back() { to.free_.push_back(ticket); }  // has room: post took the place from here
  };

  std::vector<std::unique_ptr<operation>> open_;
  std::vector<std::size_t> free_;
};

}  // namespace detail

/// C, as if its groups were joined by links: an operation completes `latency + received / bandwidth` after the last of
/// its ranks has posted it, a send after its own post. Received is what each of n ranks receives in a ring: 2(n-1)/n of
/// an all_reduce's buffer, (n-1)/n of what all_gather, reduce_scatter and all_to_all make whole; all of it in broadcast
/// and recv, and as long takes a send. Operations don't slow each other down. `Links::of(name)`, static, is the
/// link_speed of the group "tp", "world" or another of more than one rank. Beside every operation goes another, of the
/// moment at which it was posted, by a clock that the ranks share; so half as many may be under way as C takes. Where a
/// rank fails, those that wait for a link end when their operation would have. wait(queue) has the queue wait for the
/// moment, by the clock of the thread that runs it; the host waits until all ranks have posted the operation.
/// `Clock`: wall_clock, by which whoever waits sleeps; under virtual_clock nobody does, and a program that doesn't ask
/// whether something is complete takes the same time on every run and machine.
template <communicator C, class Links, class Clock = wall_clock>
class paced : public comm_operations<paced<C, Links, Clock>> {
 public:
  static constexpr bool reduces_in_rank_order = weft::reduces_in_rank_order<C>;
  static constexpr bool joins_graphs = weft::joins_graphs<C>;

  /// `name`: the group's, by which its speed is asked for.
  explicit paced(C inner, std::string_view name = "world")
      : inner_(std::move(inner)),
        pacer_(std::make_shared<detail::pacer<Clock>>()),
        speed_(detail::speed_of<Links>(name)) {
    static_assert(detail::are_links<Links>,
                  "weft: paced<C, Links> asks Links for the speed of each group: static link_speed of(std::string_view "
                  "group)");
    require(detail::is_finite(speed_.latency_us) && speed_.latency_us >= 0 && speed_.bytes_per_us > 0,
            "the link of the group ", name, " has a latency of ", speed_.latency_us, " us and moves ",
            speed_.bytes_per_us, " bytes per us; latency is a number of at least 0, and speed above it");
  }

  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }
  C& inner() { return inner_; }

  request post(const comm_call& call) {
    return pacer_->post(cost(call), [&](std::int64_t* stamp) {
      request data = inner_.post(call);
      const collective_label pace{"pace"};
      if (call.is(comm_operation::send))
        return std::pair(std::move(data), inner_.send(stamp, sizeof *stamp, call.peer, call.tag, pace));
      if (call.is(comm_operation::recv))
        return std::pair(std::move(data), inner_.recv(stamp, sizeof *stamp, call.peer, call.tag, pace));
      return std::pair(std::move(data), inner_.all_reduce(stamp, stamp, 1, dtype::i64, reduction::max, pace));
    });
  }
  paced split(int color, int key, const char* name) { return paced(inner_.split(color, key, name), name); }

  /// As C::launch.
  template <class F>
  static void launch(int ranks, F&& f) {
    C::launch(ranks, [&](C& inner) {
      Clock::begin();
      paced world(inner);
      f(world);
    });
  }
  /// As C::launch_checked, where it has one: C's calls are compared.
  template <class F>
  static void launch_checked(int ranks, F&& f) requires detail::launches_checked<C> {
    C::launch_checked(ranks, [&](auto& inner) {
      Clock::begin();
      paced<std::remove_cvref_t<decltype(inner)>, Links, Clock> world(inner);
      f(world);
    });
  }

 private:
  /// Microseconds.
  double cost(const comm_call& call) const {
    return size() > 1 ? speed_.latency_us + ring_bytes(call) / speed_.bytes_per_us : 0;
  }
  double ring_bytes(const comm_call& call) const {
    const auto whole = static_cast<double>(std::max(call.input_bytes(size()), call.output_bytes(size())));
    switch (call.operation) {
      case comm_operation::all_reduce:
        return 2 * whole * (size() - 1) / size();
      case comm_operation::all_gather:
      case comm_operation::reduce_scatter:
      case comm_operation::all_to_all:
        return whole * (size() - 1) / size();
      case comm_operation::all_to_allv:
        return static_cast<double>(call.output_bytes(size()) - call.recv_bytes[rank()]);
      default:
        return whole;
    }
  }

  C inner_;
  std::shared_ptr<detail::pacer<Clock>> pacer_;
  link_speed speed_;
};

}  // namespace weft
