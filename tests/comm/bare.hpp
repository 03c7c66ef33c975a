// A communicator that compares nothing: what a rank sends is bytes in a box, which whoever looks there takes. Ranks
// that call different things hang or get wrong numbers; `wrong` counts the operations that met another size than their
// own.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <weft/comm/concept.hpp>
#include <weft/comm/detail/fold.hpp>

namespace weft_test {

using namespace weft;

class bare : public comm_operations<bare> {
 public:
  static inline std::atomic<int> wrong{0};
  /// How long what one rank sends another is on its way, in ms, by their ranks in the group; null: no time.
  static inline int (*on_the_way)(int from, int to) = nullptr;
  /// How many sentences the ranks of the last launch threw, those of `aborted` not counted.
  static int sentences() { return static_cast<int>(thrown().size()); }

  int rank() const { return group_.rank; }
  int size() const { return group_.size; }
  request post(const comm_call& call) { return rank_->post(group_, *numbers_, call); }

  bare split(int color, int key, const char*) {
    const int own[] = {color, key};
    std::vector<int> all(std::size_t(2 * size()));
    all_gather(own, all.data(), sizeof own).wait();
    const auto chosen = [&](int r) { return std::tuple(all[std::size_t(2 * r)], all[std::size_t(2 * r + 1)], r); };
    group made{rank_->all->id_of({group_.id, numbers_->collectives, color}), 0, 0};
    for (int r = 0; r < size(); ++r) {
      if (std::get<0>(chosen(r)) != color) continue;
      ++made.size;
      made.rank += chosen(r) < chosen(rank());
    }
    return bare(rank_, made);
  }

  template <class F>
  static void launch(int ranks, F&& f) {
    boxes all;
    thrown().clear();
    const auto run = [&](int r) {
      try {
        bare world(std::make_shared<one_rank>(&all), {0, r, ranks});
        f(world);
      } catch (const aborted&) {
        all.end(std::current_exception(), {});
      } catch (const std::exception& e) {
        all.end(std::current_exception(), e.what());
      }
    };
    std::vector<std::thread> others;
    for (int r = 1; r < ranks; ++r) others.emplace_back(run, r);
    run(0);
    for (std::thread& t : others) t.join();
    if (all.error) std::rethrow_exception(all.error);
    if (all.consequence) std::rethrow_exception(all.consequence);
  }

 private:
  static std::set<std::string>& thrown() {
    static std::set<std::string> all;
    return all;
  }
  using clock = std::chrono::steady_clock;
  struct bytes : std::vector<std::byte> {
    using vector::vector;
    clock::time_point arrives{};
  };
  using lane = std::tuple<int, int, int, int>;  // group, from, to, tag or -1
  struct group {
    int id, rank, size;
  };
  struct counts {
    int collectives = 0;
  };
  /// What all ranks share.
  struct boxes {
    std::mutex lock;
    std::map<lane, std::deque<bytes>> at;
    std::map<std::tuple<int, int, int>, int> ids;
    std::exception_ptr error, consequence;  // what a rank failed by; what it was told when another had
    std::atomic<bool> ended{false};

    int id_of(std::tuple<int, int, int> split) {
      const std::lock_guard guard(lock);
      return ids.try_emplace(split, static_cast<int>(ids.size()) + 1).first->second;
    }
    void end(std::exception_ptr why, const std::string& words) {
      const std::lock_guard guard(lock);
      if (!words.empty()) thrown().insert(words);
      std::exception_ptr& kept = words.empty() ? consequence : error;
      if (!kept) kept = std::move(why);
      ended = true;
    }
  };
  struct operation {
    group in;
    comm_call call;
    std::vector<bytes> came;  // from each rank
  };
  struct one_rank final : completion_without_queue {
    explicit one_rank(boxes* shared) : all(shared) {}

    request post(const group& in, counts& numbers, const comm_call& call) {
      if (all->ended) throw aborted("bare: a rank has failed");
      if (!call.pairs()) ++numbers.collectives;
      put(in, call);
      const auto alike = [&](const auto& o) {
        const operation& other = o.second;
        return other.in.id == in.id && other.call.operation == call.operation && other.call.peer == call.peer &&
               other.call.tag == call.tag;
      };
      if (call.pairs() && std::count_if(open.begin(), open.end(), alike) >= 16) ++wrong;
      open.emplace(next, operation{in, call, {}});
      return {*this, next++};
    }
    void wait(std::uint64_t ticket) override {
      while (!test(ticket)) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    bool test(std::uint64_t ticket) override {
      const std::lock_guard guard(all->lock);
      std::set<lane> waits;  // calls of a lane are served in their order
      for (auto at = open.begin(); at != open.end();) {
        const operation& o = at->second;
        const bool pairs = o.call.pairs();
        const lane own{o.in.id, pairs ? o.call.peer : -1, o.call.is(comm_operation::send), pairs ? o.call.tag : -1};
        if (!waits.count(own) && take(at->second)) {
          at = open.erase(at);
        } else {
          waits.insert(own);
          ++at;
        }
      }
      if (open.count(ticket) && all->ended) throw aborted("bare: a rank has failed");
      return !open.count(ticket);
    }
    void abandon(std::uint64_t ticket) noexcept override {
      if (open.erase(ticket)) all->ended = true;
    }

    void put(const group& in, const comm_call& call) {
      const auto* from = static_cast<const std::byte*>(call.in);
      const std::lock_guard guard(all->lock);
      const auto send = [&](int to, int tag, std::int64_t offset, std::int64_t size) {
        bytes& sent = all->at[{in.id, in.rank, to, tag}].emplace_back(from + offset, from + offset + size);
        if (on_the_way) sent.arrives = clock::now() + std::chrono::milliseconds(on_the_way(in.rank, to));
      };
      if (call.is(comm_operation::send)) return send(call.peer, call.tag, 0, call.count);
      if (call.is(comm_operation::recv)) return;
      std::int64_t offset = 0;
      for (int r = 0; r < in.size; ++r) {
        const bool parts = call.is(comm_operation::all_to_all) || call.is(comm_operation::reduce_scatter);
        const std::int64_t size = call.is(comm_operation::all_to_allv) ? call.send_bytes[r] : call.bytes();
        send(r, -1, parts ? r * size : call.is(comm_operation::all_to_allv) ? offset : 0, size);
        offset += size;
      }
    }
    bool take(operation& o) {
      const comm_call& c = o.call;
      if (c.is(comm_operation::send)) return true;
      const auto box = [&](int from) -> std::deque<bytes>& {
        return all->at[{o.in.id, from, o.in.rank, c.pairs() ? c.tag : -1}];
      };
      const int first = c.pairs() ? c.peer : 0, last = c.pairs() ? c.peer + 1 : o.in.size;
      for (int r = first; r < last; ++r)
        if (box(r).empty() || box(r).front().arrives > clock::now()) return false;
      for (int r = first; r < last; ++r) o.came.push_back(std::move(box(r).front())), box(r).pop_front();
      arrive(o);
      return true;
    }
    static void arrive(operation& o) {
      const comm_call& c = o.call;
      auto* out = static_cast<std::byte*>(c.out);
      for (std::size_t r = 0; r < o.came.size(); ++r) {
        const std::int64_t due = c.is(comm_operation::all_to_allv) ? c.recv_bytes[r] : c.bytes();
        if (static_cast<std::int64_t>(o.came[r].size()) != due) {
          ++wrong;
          return;
        }
      }
      if (c.computes()) {
        std::vector<const std::byte*> rows;
        for (const bytes& b : o.came) rows.push_back(b.data());
        return weft::detail::fold(c.type, c.how, {rows.data(), o.in.size, 0, &out, 1, 0, c.count});
      }
      if (c.is(comm_operation::broadcast)) {
        if (c.count > 0) std::memcpy(out, o.came[std::size_t(c.peer)].data(), std::size_t(c.count));
        return;
      }
      for (const bytes& b : o.came) {
        if (!b.empty()) std::memcpy(out, b.data(), b.size());
        out += b.size();
      }
    }

    boxes* all;
    std::map<std::uint64_t, operation> open;
    std::uint64_t next = 0;
  };

  bare(std::shared_ptr<one_rank> rank, group in)
      : rank_(std::move(rank)), numbers_(std::make_shared<counts>()), group_(in) {}

  std::shared_ptr<one_rank> rank_;
  std::shared_ptr<counts> numbers_;
  group group_;
};

}  // namespace weft_test
