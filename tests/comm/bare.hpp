// A communicator that stands alone: an operation leaves parcels for other ranks when it
// is posted, and takes those for its own rank when it is waited for. It compares nothing but the sizes of parcels:
// ranks that call different things hang or get wrong numbers.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <weft/comm/concept.hpp>

namespace weft_test {
using namespace weft;

class bare : public comm_operations<bare> {
  using clock = std::chrono::steady_clock;
  using bytes = std::vector<std::byte>;
  using lane = std::tuple<std::string, int, int, int>;  // group, from, to, tag, or -1 of collectives
  using place = std::pair<lane, int>;                   // which parcel of the lane, from 0
  struct office {                                       // of all ranks
    std::mutex mutex;
    std::condition_variable news;
    std::map<place, std::pair<bytes, clock::time_point>> parcels;  // and when they arrive
    std::exception_ptr error, consequence;  // what a rank failed by; what it was told when another had
    bool ended = false;
  };
  struct operation {
    comm_call call;
    std::string group;
    std::vector<place> due;
  };
  struct one_rank final : completion_without_queue {
    explicit one_rank(office& shared) : all(shared) {}
    void wait(std::uint64_t ticket) override {
      std::unique_lock lock(all.mutex);
      while (!take(ticket)) all.news.wait_for(lock, std::chrono::milliseconds(1));
    }
    bool test(std::uint64_t ticket) override {
      const std::lock_guard lock(all.mutex);
      return take(ticket);
    }
    void abandon(std::uint64_t ticket) noexcept override {
      const std::lock_guard lock(all.mutex);
      all.ended = open.erase(ticket) > 0 || all.ended;
    }
    bool take(std::uint64_t ticket) {
      const operation& o = open.at(ticket);
      for (const place& p : o.due)
        if (const auto at = all.parcels.find(p); at == all.parcels.end() || at->second.second > clock::now())
          return all.ended ? throw aborted("bare: a rank has failed") : false;
      std::vector<bytes> came;
      for (const place& p : o.due) came.push_back(std::move(all.parcels.extract(p).mapped().first));
      unpack(o, came);
      return open.erase(ticket);
    }
    office& all;
    std::map<lane, int> left, awaited;
    std::map<std::string, int> splits;
    std::map<std::uint64_t, operation> open;
    std::uint64_t next = 0;
  };

 public:
  static inline int (*on_the_way)(int from, int to) = nullptr;  // for how many ms, by ranks of the group
  static inline std::set<std::string> sentences;  // what ranks of the last launch threw, `aborted` left out

  int rank() const { return rank_; }
  int size() const { return size_; }
  request post(const comm_call& c) {
    const bool one = c.pairs() || c.is(comm_operation::broadcast), sized = c.is(comm_operation::all_to_allv),
               parts = sized || c.is(comm_operation::all_to_all) || c.is(comm_operation::reduce_scatter);
    const auto* in = static_cast<const std::byte*>(c.in);
    operation made{c, group_, {}};
    const std::lock_guard lock(own_->all.mutex);
    if (own_->all.ended) throw aborted("bare: a rank has failed");
    const auto alike = [&](const auto& o) {
      return o.second.group == group_ && o.second.call.operation == c.operation && o.second.call.peer == c.peer &&
             o.second.call.tag == c.tag;
    };
    require(!c.pairs() || std::count_if(own_->open.begin(), own_->open.end(), alike) < 16, "bare: more than 16 sends");
    for (int r = 0; r < size_; ++r) {
      const std::int64_t n = c.is(comm_operation::recv) ? 0 : sized ? c.send_bytes[r] : c.bytes();
      const lane to{group_, rank_, r, c.pairs() ? c.tag : -1}, from{group_, r, rank_, c.pairs() ? c.tag : -1};
      if (!c.is(comm_operation::recv) && (!one || (c.pairs() ? r : rank_) == c.peer))
        own_->all.parcels[{to, own_->left[to]++}] = {
            bytes(in, in + n), clock::now() + std::chrono::milliseconds(on_the_way ? on_the_way(rank_, r) : 0)};
      if (!c.is(comm_operation::send) && (!one || r == c.peer)) made.due.push_back({from, own_->awaited[from]++});
      if (parts) in += n;
    }
    own_->all.news.notify_all();
    own_->open.emplace(own_->next, std::move(made));
    return {*own_, own_->next++};
  }
  bare split(int color, int key, const char*) {
    const int mine[] = {color, key};
    std::vector<int> all(static_cast<std::size_t>(2 * size_));
    all_gather(mine, all.data(), sizeof mine).wait();
    const auto of = [&](int r) { return std::tuple(all[std::size_t(2 * r)], all[std::size_t(2 * r + 1)], r); };
    bare made(own_, group_ + " " + std::to_string(own_->splits[group_]++) + ":" + std::to_string(color), 0, 0);
    for (int r = 0; r < size_; ++r)
      if (std::get<0>(of(r)) == color) ++made.size_, made.rank_ += of(r) < of(rank_);
    return made;
  }
  template <class F>
  static void launch(int ranks, F&& f) {
    office all;
    sentences.clear();
    const auto run = [&](int r) {
      const auto end = [&](std::exception_ptr& kept, const char* words) {
        const std::lock_guard lock(all.mutex);
        if (words) sentences.insert(words);
        if (!kept) kept = std::current_exception();
        all.ended = true;
      };
      try {
        bare world(std::make_shared<one_rank>(all), "world", r, ranks);
        f(world);
      } catch (const aborted&) {
        end(all.consequence, nullptr);
      } catch (const std::exception& e) {
        end(all.error, e.what());
      }
    };
    std::vector<std::thread> others;
    for (int r = 1; r < ranks; ++r) others.emplace_back(run, r);
    run(0);
    for (std::thread& t : others) t.join();
    if (all.error || all.consequence) std::rethrow_exception(all.error ? all.error : all.consequence);
  }

 private:
  bare(std::shared_ptr<one_rank> own, std::string group, int rank, int size)
      : own_(std::move(own)), group_(std::move(group)), rank_(rank), size_(size) {}
  // What came, to where the call wants it.
  static void unpack(const operation& o, const std::vector<bytes>& came) {
    const comm_call& c = o.call;
    auto* out = static_cast<std::byte*>(c.out);
    for (std::size_t r = 0; r < came.size(); ++r) {
      const std::int64_t due = c.is(comm_operation::all_to_allv) ? c.recv_bytes[r] : c.bytes();
      require(std::ssize(came[r]) == due, "bare: ", due, " bytes were due from a rank that left ", came[r].size());
      if (!c.computes() && due > 0) std::memcpy(out, came[r].data(), came[r].size());
      if (!c.computes()) out += due;
    }
    if (!c.computes()) return;
    visit_dtype(c.type, [&]<class T>() {
      for (std::int64_t i = 0; i < c.count; ++i) static_cast<T*>(c.out)[i] = folded<T>(came, i, c.how);
    });
  }
  // Element i of all, in the order of ranks: 16 bits in float, rounded once; integers wrap; NaN stays.
  template <class T>
  static T folded(const std::vector<bytes>& came, std::int64_t i, reduction how) {
    using wide = std::conditional_t<sizeof(T) == 2, float, T>;
    const auto of = [&](std::size_t r) { return static_cast<wide>(reinterpret_cast<const T*>(came[r].data())[i]); };
    wide x = of(0);
    for (std::size_t r = 1; r < came.size(); ++r) {
      const wide y = of(r);
      if constexpr (std::is_integral_v<wide>) {
        if (how == reduction::sum) x = static_cast<wide>(static_cast<std::uint64_t>(x) + static_cast<std::uint64_t>(y));
      } else if (how == reduction::sum) {
        x = x + y;
      }
      if (how != reduction::sum && (y != y || (how == reduction::max ? y > x : y < x))) x = y;
    }
    return static_cast<T>(x);
  }

  std::shared_ptr<one_rank> own_;
  std::string group_;
  int rank_, size_;
};

}  // namespace weft_test
