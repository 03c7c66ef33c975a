// What streams are given while they are captured: the nodes of a graph, each behind those that its stream, or an event
// which that waited for, had. Invariant: what isn't permitted during a capture is refused, and ends that capture.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "streams.hpp"

namespace device {

/// Of another process, maybe.
inline void let_others(held_lock& held) {
  held.unlock();
  std::this_thread::sleep_for(std::chrono::microseconds(100));
  held.lock();
}

/// Why a call is refused, as CUDA's errors of like names.
enum class refusal : std::uint8_t {
  none,
  unsupported,     // a wait of the host, or what may not be called while something is captured
  invalidated,     // the capture has had such a call
  merge,           // a stream of one capture waits for an event of another
  unmatched,       // an end on a stream where no capture began
  unjoined,        // an end while another stream's last node isn't waited for
  isolation,       // a wait for what lies outside of the capture
  implicit,        // the default stream, by a thread that captures
  captured_event,  // a wait from outside for an event of a capture
  wrong_thread,    // an end on another thread than the beginning
  illegal_state,   // a beginning on a stream that is captured
};
/// Whose calls a capture forbids: memory that is taken, and waits of the host for anything.
enum class capture_mode : std::uint8_t { global, of_thread, relaxed };

using nodes_before = std::set<std::size_t>;
/// What waits for others: asked again until it says that it is done.
using waiting_work = std::function<bool(held_lock&)>;
struct graph_node {
  std::string kind;  // what no other executable may have in its place
  std::function<void(held_lock&)> work;
  bool on_host = false;
  /// In place of `work`: what a launch does, which is this piece of that stream's work.
  std::function<waiting_work(streams::name, std::uint64_t)> launched{};
  nodes_before after{};
};
struct graph {
  std::vector<graph_node> nodes;
  /// Why an executable of this one can't take the other's arguments; empty: it can.
  std::string differs_from(const graph& other) const {
    if (nodes.size() != other.nodes.size()) return "topology";
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].after != other.nodes[i].after) return "topology";
      if (nodes[i].kind != other.nodes[i].kind) return "kind";
    }
    return {};
  }
  bool on_host() const {
    for (const graph_node& n : nodes)
      if (n.on_host) return true;
    return false;
  }
  /// By node: what a launch has to wait for, begun in the nodes' order.
  std::map<std::size_t, waiting_work> launch(streams::name on, std::uint64_t number) const {
    std::map<std::size_t, waiting_work> all;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].launched) all[i] = nodes[i].launched(on, number);
    return all;
  }
  /// Runs all, each behind those before it; who is next is drawn, and others go on where one waits.
  void run(held_lock& held, std::uint64_t seed, const std::map<std::size_t, waiting_work>& waiting) const {
    std::vector<std::size_t> left(nodes.size()), ready;
    std::vector<std::vector<std::size_t>> behind(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      left[i] = nodes[i].after.size();
      for (const std::size_t b : nodes[i].after) behind[b].push_back(i);
      if (left[i] == 0) ready.push_back(i);
    }
    for (std::size_t in_vain = 0; !ready.empty();) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
      std::swap(ready[(seed >> 33) % ready.size()], ready.back());
      const std::size_t now = ready.back();
      if (const auto waits = waiting.find(now); waits == waiting.end()) {
        nodes[now].work(held);
      } else if (!waits->second(held)) {
        if (++in_vain > 2 * ready.size()) in_vain = 0, let_others(held);
        continue;
      }
      in_vain = 0;
      ready.pop_back();
      for (const std::size_t b : behind[now])
        if (--left[b] == 0) ready.push_back(b);
    }
  }
};

/// A point of a stream's during a capture: behind which nodes it lies, and what streams had done by then. capture 0:
/// outside of any.
struct captured_point {
  std::uint64_t capture = 0;
  nodes_before after{};
  std::map<streams::name, std::uint64_t> seen{};
};

class captures {
 public:
  using name = streams::name;

  refusal begin(name stream, capture_mode mode) {
    if (!stream) return refusal::unsupported;
    if (of(stream)) return refusal::illegal_state;
    auto made = std::make_unique<one>();
    made->number = ++begun_, made->origin = stream, made->mode = mode;
    made->joins(stream);
    all_.push_back(std::move(made));
    return refusal::none;
  }
  refusal end(name stream, graph& out) {
    one* const c = of(stream);
    if (!c) return refusal::illegal_state;
    if (c->origin != stream) return ended_by(c, refusal::unmatched);
    if (c->mode != capture_mode::relaxed && c->thread != std::this_thread::get_id()) return refusal::wrong_thread;
    refusal why = c->invalid ? refusal::invalidated : refusal::none;
    for (const auto& [other, is] : c->at)  // the last that another stream did is waited for
      if (why == refusal::none && c->at[stream].seen[other] != is.seen.at(other)) why = refusal::unjoined;
    if (why == refusal::none) out = std::move(c->made);
    for (auto at = all_.begin(); at != all_.end(); ++at)
      if (at->get() == c) {
        all_.erase(at);
        break;
      }
    return why;
  }
  bool captures_on(name stream) const { return of(stream) != nullptr; }
  bool any_of_thread() const {
    for (const auto& c : all_)
      if (c->thread == std::this_thread::get_id()) return true;
    return false;
  }
  bool is_captured(const captured_point& p) const { return p.capture != 0 && numbered(p.capture) != nullptr; }

  refusal add(name stream, graph_node node) {
    one* const c = of(stream);
    if (c->invalid) return refusal::invalidated;
    captured_point& is = c->at[stream];
    node.after = std::move(is.after);
    c->made.nodes.push_back(std::move(node));
    is.after = {c->made.nodes.size() - 1};
    ++is.seen[stream];
    return refusal::none;
  }
  /// Where a stream is.
  captured_point at(name stream) const {
    const one* const c = of(stream);
    return c ? c->at.at(stream) : captured_point{};
  }
  /// A stream waits for a point, and joins its capture by that where it is in none.
  refusal wait(name stream, const captured_point& p) {
    one *const c = of(stream), *const other = p.capture ? numbered(p.capture) : nullptr;
    if (p.capture && !other) return ended_by(c, refusal::captured_event);
    if (!other) return c ? ended_by(c, refusal::isolation) : refusal::none;
    if (!stream) return ended_by(other, refusal::unsupported);
    if (c && c != other) return ended_by(other, ended_by(c, refusal::merge));
    if (other->invalid) return refusal::invalidated;
    if (!c) other->joins(stream);
    captured_point& is = other->at[stream];
    is.after.insert(p.after.begin(), p.after.end());
    for (const auto& [from, number] : p.seen) is.seen[from] = std::max(is.seen[from], number);
    ++is.seen[stream];
    return refusal::none;
  }
  /// The host waits for a stream, or asks for it.
  refusal host_waits(name stream) {
    if (one* const c = of(stream)) return ended_by(c, refusal::unsupported);
    return stream ? forbidden() : by_default_stream();
  }
  /// The host waits for an event, or asks for it.
  refusal host_waits(const captured_point& p) {
    if (p.capture) return ended_by(numbered(p.capture), refusal::captured_event);
    return forbidden();
  }
  /// The host waits for the whole device.
  refusal host_waits_for_all() {
    refusal why = refusal::none;
    for (const auto& c : all_) why = ended_by(c.get(), refusal::unsupported);
    return why;
  }
  /// What the capture of this thread, or a global one, forbids.
  refusal forbidden() {
    const auto me = std::this_thread::get_id();
    for (const auto& c : all_)
      if (c->mode == capture_mode::global || (c->mode == capture_mode::of_thread && c->thread == me))
        return ended_by(c.get(), refusal::unsupported);
    return refusal::none;
  }
  /// A piece of work for the default stream. CUDA refuses it where captured streams wait for that one; here always, by
  /// a thread that captures: it isn't in the graph.
  refusal by_default_stream() {
    for (const auto& c : all_)
      if (c->thread == std::this_thread::get_id()) return ended_by(c.get(), refusal::implicit);
    return refusal::none;
  }

 private:
  struct one {
    std::uint64_t number = 0;
    name origin = nullptr;
    capture_mode mode = capture_mode::global;
    std::thread::id thread = std::this_thread::get_id();
    bool invalid = false;
    graph made{};
    std::map<name, captured_point> at{};  // where each stream is that takes part
    void joins(name stream) { at[stream] = {number, {}, {{stream, 0}}}; }
  };
  one* of(name stream) const {
    for (const auto& c : all_)
      if (c->at.count(stream)) return c.get();
    return nullptr;
  }
  one* numbered(std::uint64_t number) const {
    for (const auto& c : all_)
      if (c->number == number) return c.get();
    return nullptr;
  }
  static refusal ended_by(one* c, refusal why) {
    if (c) c->invalid = true;
    return why;
  }
  std::vector<std::unique_ptr<one>> all_;
  std::uint64_t begun_ = 0;
};

}  // namespace device
