// Ranks that are threads, of any communicator of such, whose every operation is done in a device's memory: what it
// reads is brought there, what it writes is fetched. So the laws of communicators, which know the host's memory alone,
// are laws of the device's too.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include <weft/comm/threads.hpp>
#include <weft/memory/arena.hpp>

namespace weft_test {

/// Backend: whose queue and memory. InGraphs: a collective is called while the queue keeps a graph
/// back, which begins where no operation is under way.
template <class Backend, class Inner = weft::threads, bool InGraphs = false>
class in_device_memory : public weft::comm_operations<in_device_memory<Backend, Inner, InGraphs>> {
 public:
  static constexpr bool reduces_in_rank_order = weft::reduces_in_rank_order<Inner>;
  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }

  weft::request post(const weft::comm_call& call) { return rank_->post(inner_, call); }
  in_device_memory split(int color, int key, const char* name) { return {inner_.split(color, key, name), rank_}; }

  template <class F>
  static void launch(int ranks, F&& f) {
    Inner::launch(ranks, [&](Inner& inner) {
      in_device_memory world(inner, std::make_shared<one_rank>(inner.size(), inner.rank()));
      f(world);
    });
  }

 private:
  // A stretch of the host's memory and what stands for it on the device.
  struct stretch {
    std::byte* host = nullptr;
    std::int64_t bytes = 0;
    void* device = nullptr;

    bool meets(const stretch& other) const {
      return bytes > 0 && other.bytes > 0 && host < other.host + other.bytes && other.host < host + bytes;
    }
    std::byte* of(const std::byte* at) const { return static_cast<std::byte*>(device) + (at - host); }
  };
  // All groups of a rank.
  struct one_rank final : weft::completion_without_queue {
    one_rank(int ranks, int rank) : queue(Backend::open(ranks, rank, 1)), memory(Backend::memory()) {}

    weft::request post(Inner& group, weft::comm_call call) {
      if constexpr (InGraphs)
        if (!call.pairs() && std::find(free.begin(), free.end(), false) == free.end()) queue->begin_graph();
      stretch in{const_cast<std::byte*>(static_cast<const std::byte*>(call.in)), call.input_bytes(group.size())};
      stretch out{static_cast<std::byte*>(call.out), call.output_bytes(group.size())};
      stretch both = out;
      if (in.meets(out)) {
        both.host = std::min(in.host, out.host);
        both.bytes = std::max(in.host + in.bytes, out.host + out.bytes) - both.host;
        in.device = out.device = nullptr;
        bring(both);
        call.in = both.of(in.host), call.out = both.of(out.host);
      } else {
        bring(in), bring(both);
        call.in = in.device, call.out = both.device;
        out = both;
      }
      const auto at = static_cast<std::size_t>(std::find(free.begin(), free.end(), true) - free.begin());
      if (at == free.size()) free.push_back(true), open.emplace_back();
      call.queue = weft::queue_ref(*queue);
      operation& made = open[at];
      made.back = {out.host, out.bytes, call.out}, made.in = in.device, made.out = both.device;
      made.under_way = group.post(call);
      free[at] = false;
      return {*this, at};
    }
    void wait(std::uint64_t ticket) override {
      operation& o = open[ticket];
      free[ticket] = true;
      o.under_way.wait(weft::queue_ref(*queue));
      if (o.back.bytes > 0)
        queue->download(o.back.device, o.back.host, static_cast<std::size_t>(o.back.bytes));
      else
        queue->synchronize();
      drop(o);
    }
    bool test(std::uint64_t ticket) override {
      if (!open[ticket].under_way.test()) return false;
      return wait(ticket), true;
    }
    void abandon(std::uint64_t ticket) noexcept override {
      open[ticket].under_way.abandon();
      drop(open[ticket]);
      free[ticket] = true;
    }

    ~one_rank() {
      for (const chunk& c : chunks) memory.release(c.at);
    }

    // A stretch gets the smallest chunk that holds it and nobody has.
    void bring(stretch& s) {
      if (s.bytes == 0) return;
      chunk* found = nullptr;
      for (chunk& c : chunks)
        if (!c.taken && c.bytes >= s.bytes && (!found || c.bytes < found->bytes)) found = &c;
      if (!found) {
        void* const at = memory.allocate(static_cast<std::size_t>(s.bytes));
        weft::require(at != nullptr, "out of device memory");
        chunks.push_back({at, s.bytes});
        found = &chunks.back();
      }
      found->taken = true;
      s.device = found->at;
      queue->upload(s.host, s.device, static_cast<std::size_t>(s.bytes));
    }
    struct operation {
      weft::request under_way;
      stretch back;
      void *in = nullptr, *out = nullptr;
    };
    void drop(operation& o) {
      for (void* const at : {std::exchange(o.in, nullptr), std::exchange(o.out, nullptr)})
        for (chunk& c : chunks)
          if (c.at == at) c.taken = false;
    }

    std::shared_ptr<typename Backend::queue> queue;
    weft::memory_source memory;
    struct chunk {
      void* at;
      std::int64_t bytes;
      bool taken = false;
    };
    std::vector<chunk> chunks;
    std::deque<operation> open;
    std::vector<bool> free;
  };

  in_device_memory(Inner inner, std::shared_ptr<one_rank> rank) : inner_(std::move(inner)), rank_(std::move(rank)) {}

  Inner inner_;
  std::shared_ptr<one_rank> rank_;
};

}  // namespace weft_test
