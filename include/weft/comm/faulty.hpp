// A decorator that makes a communicator fail as machines do, by a plan that a seed repeats: ranks are late, one stops,
// bits flip on the way. Invariant: what is planned happens at the same operation in every run; all else is as under C.
#pragma once

#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "weft/comm/concept.hpp"
#include "weft/core/random.hpp"

namespace weft {

/// What happens to one rank. Operations are counted from 0 over all its groups, splits not. Which of them stops and
/// which is changed is said here, not drawn.
struct planned_faults {
  /// Of Philox numbers, by the rank's number and the operation's: they draw how long the rank sleeps before each
  /// operation, of late_us, and which bit is flipped, of all that the operation has received. Nothing else.
  std::uint64_t seed = 1;
  double late_us = 0;          // before each operation the rank sleeps up to so long
  std::int64_t stops_at = -1;  // throws in place of this operation; -1: never
  std::int64_t flips_at = -1;  // one bit of what this operation (or the next that receives) has received; -1: none
};

namespace detail {

template <class F>
concept are_faults = requires(int rank) {
  { F::of(rank) } -> std::same_as<planned_faults>;
};

/// One rank's plan, how far it has come, and the operation whose output is to be changed.
class fault_state final : public completion {
 public:
  fault_state(planned_faults plan, int rank) : plan_(plan), rank_(rank), numbers_{plan.seed, std::uint64_t(rank)} {}

  /// Starts an operation that receives `bytes` in `out`.
  template <class Start>
  request post(const char* operation, void* out, std::int64_t bytes, Start&& start) {
    const std::int64_t number = count_++;
    const std::uint64_t word = numbers_.word(static_cast<std::uint64_t>(number));
    if (plan_.late_us > 0)
      std::this_thread::sleep_for(
          std::chrono::duration<double, std::micro>(plan_.late_us * double(word % 1024) / 1024));
    require(number != plan_.stops_at, "rank ", rank_, " stops in place of its operation ", number, ", ", operation,
            ", as its planned_faults say");
    if (plan_.flips_at < 0 || number < plan_.flips_at || bytes == 0) return start();
    plan_.flips_at = -1;
    inner_ = start();
    flip_.byte = static_cast<unsigned char*>(out) + word / 8 % static_cast<std::uint64_t>(bytes);
    flip_.bit = static_cast<unsigned char>(1u << word % 8);
    return {*this, 0};
  }

  void wait(std::uint64_t) override {
    inner_.wait();
    flip_.run();
  }
  void make_wait(std::uint64_t, const queue_ref& queue) override {
    inner_.wait(queue);
    queue.runs_behind() ? queue.enqueue(std::make_shared<flip>(flip_)) : flip_.run();
  }
  bool test(std::uint64_t) override {
    if (!inner_.test()) return false;
    flip_.run();
    return true;
  }
  void abandon(std::uint64_t) noexcept override { inner_.abandon(); }

 private:
  struct flip final : queued_work {
    void run() override { *byte ^= bit; }
    unsigned char* byte = nullptr;
    unsigned char bit = 0;
  };

  planned_faults plan_;
  int rank_;
  philox numbers_;
  std::int64_t count_ = 0;
  request inner_;
  flip flip_;
};

}  // namespace detail

/// C, with what `Faults::of(rank)`, static, plans for each rank of the world. For tests of what a program does then:
///
///   struct one_stops {
///     static planned_faults of(int rank) { return {.stops_at = rank == 1 ? 20 : -1}; }
///   };
///   using S = strategy<mesh<dp>, faulty<threads, one_stops>>;
///
/// Throws weft::failure in place of the operation at which a rank stops. A link's plan: see `paced`.
template <communicator C, class Faults>
class faulty : public comm_operations<faulty<C, Faults>> {
 public:
  static constexpr bool reduces_in_rank_order = weft::reduces_in_rank_order<C>;
  static constexpr bool joins_graphs = weft::joins_graphs<C>;

  /// `inner` is the world.
  explicit faulty(C inner)
      : inner_(std::move(inner)),
        state_(std::make_shared<detail::fault_state>(Faults::of(inner_.rank()), inner_.rank())) {
    static_assert(detail::are_faults<Faults>,
                  "weft: faulty<C, Faults> asks Faults for each rank's plan: static planned_faults of(int rank)");
  }

  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }
  C& inner() { return inner_; }

  request post(const comm_call& call) {
    return state_->post(name_of(call.operation), call.out, call.output_bytes(size()),
                        [&] { return inner_.post(call); });
  }
  faulty split(int color, int key, const char* name) { return {inner_.split(color, key, name), state_}; }

  /// As C::launch.
  template <class F>
  static void launch(int ranks, F&& f) {
    C::launch(ranks, [&](C& inner) {
      faulty world(inner);
      f(world);
    });
  }
  /// As C::launch_checked, where it has one: C's calls are compared.
  template <class F>
  static void launch_checked(int ranks, F&& f) requires detail::launches_checked<C> {
    C::launch_checked(ranks, [&](auto& inner) {
      faulty<std::remove_cvref_t<decltype(inner)>, Faults> world(inner);
      f(world);
    });
  }

 private:
  faulty(C inner, std::shared_ptr<detail::fault_state> state) : inner_(std::move(inner)), state_(std::move(state)) {}

  C inner_;
  std::shared_ptr<detail::fault_state> state_;
};

}  // namespace weft
