// Whose turn it is: blocks, warps and, where a warp's lanes went different ways, groups of lanes. Invariant: an
// instruction of a warp or a barrier runs once all that it needs are there; who can never come is a finding.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <utility>

#include "lanes.hpp"

namespace device {

class block_run {
 public:
  block_run(machine& of, warp_view view) : machine_(of), v_(view) {
    for (const instruction& in : v_.code->code) {
      has_products_ |= in.text.starts_with("wgmma.");
      has_phases_ |= in.text.starts_with("mbarrier.");
    }
  }

  void run() {
    const std::uint64_t all = v_.shape.grid.count();
    std::vector<std::unique_ptr<block>> running;
    std::uint64_t next = 0;
    while (next < all || !running.empty()) {
      if (machine_.never_ends()) {
        machine_.find_fault(v_.code->name + " never ends: more than " +
                            std::to_string(machine_.set_.most_instructions) + " instructions of warps ran");
        return;
      }
      while (next < all && running.size() < static_cast<std::size_t>(machine_.set_.blocks_at_once))
        running.push_back(begin(next++));
      for (const auto& b : running) turn(*b);
      std::erase_if(running, [](const auto& b) {
        return std::all_of(b->warps.begin(), b->warps.end(), [](const warp& w) { return w.groups.empty(); });
      });
    }
  }

 private:
  std::uint64_t draw(std::uint64_t below) { return machine_.draw_() % below; }

  std::unique_ptr<block> begin(std::uint64_t number) {
    auto b = std::make_unique<block>();
    const extent& grid = v_.shape.grid;
    b->number = number;
    b->index = {static_cast<std::uint32_t>(number % grid.x), static_cast<std::uint32_t>(number / grid.x % grid.y),
                static_cast<std::uint32_t>(number / grid.x / grid.y)};
    const std::uint64_t threads = v_.shape.block.count(), warps = (threads + lanes - 1) / lanes;
    b->shared.bytes = v_.code->shared_bytes + v_.shape.dynamic_shared;
    b->shared.written.assign(b->shared.bytes, 0);
    b->shared_bytes.assign(b->shared.bytes + 16, 0xff);
    b->local.assign(v_.code->local_bytes * warps * lanes, 0xff);
    if (has_phases_) b->slow = draw(8);
    if (has_products_) b->in_flight.assign(b->shared.bytes / 16 + 1, 0);
    b->warps.resize(warps);
    for (std::size_t i = 0; i < warps; ++i) {
      warp& w = b->warps[i];
      w.number = static_cast<int>(i);
      w.registers.assign(v_.code->register_bytes / 8 + 8, 0xcdcdcdcdcdcdcdcdull);
      w.seen.assign(warps, 0);
      w.seen[i] = 1;
      w.fenced.assign(warps, 0);
      if (has_products_) {
        w.busy.assign(v_.code->register_bytes / 64 + 1, 0);
        w.written.assign(v_.code->register_bytes / 64 + 1, 0);
      }
      const std::uint64_t left = threads - i * lanes;
      w.live = w.born = left >= lanes ? all_lanes : (1u << left) - 1;
      w.groups.push_back({0, w.live, false});
    }
    return b;
  }

  // Each warp that can runs for a while.
  void turn(block& b) {
    v_.in = &b;
    std::vector<std::size_t> order(b.warps.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), machine_.draw_);
    bool ran = false, left = false, in_vain = true;
    for (warp& w : b.warps) w.waits_in_vain = false, ++w.turns_since;
    ++b.turns;
    for (const std::size_t i : order) {
      // Where warps wait for what others did, and not for all: some warpgroups fall as far behind as those let them.
      if (b.slow >> (i / 4 % 3) & 1 && b.turns % 16) continue;
      ran |= run_warp(b.warps[i], 1 + static_cast<int>(draw(128)));
    }
    ran |= b.turns % 16 != 0 && b.slow;
    for (warp& w : b.warps) {
      left |= !w.groups.empty();
      if (w.waits_in_vain) w.turns_since = 0;
      in_vain &= w.groups.empty() || w.barrier >= 0 || w.turns_since < 40;
    }
    if (!left) return;
    if (ran && (!in_vain || b.events != b.events_before || ++b.turns_in_vain < 128)) {
      if (!in_vain || b.events != b.events_before) b.turns_in_vain = 0;
      b.events_before = b.events;
      return;
    }
    std::string all;
    std::size_t ended = 0;
    warp* first = nullptr;
    for (warp& w : b.warps) {
      if (w.groups.empty()) {
        ++ended;
        continue;
      }
      all += (all.empty() ? "warp " : ", warp ") + std::to_string(w.number) + " at line " + line_of(w.groups[0].at);
      if (const auto of = b.phases.find(w.asked); w.turns_since < 40 && of != b.phases.end())
        all += " (an mbarrier that lacks " + std::to_string(of->second.pending) + " arrivals and " +
               std::to_string(of->second.bytes) + " bytes)";
      if (!first) first = &w;
    }
    v_.own = first, v_.at = first->groups[0].at, v_.mask = first->groups[0].mask;
    v_.report(std::countr_zero(v_.mask), 60,
              "a barrier is never completed: " + all + " wait; " + std::to_string(ended) + " warps have ended");
    for (warp& w : b.warps) w.groups.clear();
  }
  // And who called it, which may be all that tells two waits apart.
  std::string line_of(int at) const {
    const int first = v_.code->code[static_cast<std::size_t>(at)].place;
    if (first < 0) return "?";
    std::string all;
    for (int p = first; p >= 0; p = v_.code->places[static_cast<std::size_t>(p)].called_from) {
      const place& here = v_.code->places[static_cast<std::size_t>(p)];
      const std::string line = std::to_string(here.line);
      all += p == first ? line : ", called from " + v_.unit->file(here.file) + ":" + line;
    }
    return all;
  }

  static void join(warp& w) {  // groups that have come to one place
    for (std::size_t i = 0; i < w.groups.size(); ++i)
      for (std::size_t j = i + 1; j < w.groups.size();)
        if (w.groups[i].at == w.groups[j].at) {
          w.groups[i].mask |= w.groups[j].mask;
          w.groups[i].waits = false;
          w.groups.erase(w.groups.begin() + static_cast<std::ptrdiff_t>(j));
        } else {
          ++j;
        }
  }
  // The group that is furthest back, so that they meet where their ways do; now and then another, but where requests
  // are counted, which would be those of parts of a warp.
  std::size_t choose(const warp& w) {
    std::size_t best = w.groups.size();
    std::vector<std::size_t> able;
    for (std::size_t i = 0; i < w.groups.size(); ++i)
      if (!w.groups[i].waits) {
        able.push_back(i);
        if (best == w.groups.size() || w.groups[i].at < w.groups[best].at) best = i;
      }
    return able.size() > 1 && !machine_.set_.counts && draw(4) == 0 ? able[draw(able.size())] : best;
  }

  bool run_warp(warp& w, int turns) {
    v_.own = &w;
    if (w.barrier >= 0 || w.groups.empty()) return false;
    while (turns > 0 && !w.groups.empty() && w.barrier < 0) {
      if (w.groups.size() > 1) join(w);
      const std::size_t at = w.groups.size() == 1 && !w.groups[0].waits ? 0 : choose(w);
      if (at == w.groups.size()) {
        diverged(w);
        return true;
      }
      int limit = INT32_MAX;
      for (const lane_group& g : w.groups)
        if (g.at > w.groups[at].at) limit = std::min(limit, g.at);
      run_group(w, at, limit, turns);
    }
    return true;
  }
  void diverged(warp& w) {
    std::string all;
    for (const lane_group& g : w.groups) {
      char mask[16];
      std::snprintf(mask, sizeof mask, "%08x", g.mask);
      all += (all.empty() ? "lanes " : ", lanes ") + std::string(mask) + " at line " + line_of(g.at);
    }
    v_.at = w.groups[0].at, v_.mask = w.groups[0].mask;
    v_.report(std::countr_zero(v_.mask), 50, "lanes of a warp wait at different places for each other: " + all);
    w.groups.clear(), w.live = 0;
  }

  // Until the group ends, waits, divides, or comes to where another one is.
  void run_group(warp& w, std::size_t which, int limit, int& turns) {
    const instruction* const code = v_.code->code.data();
    lane_group g = w.groups[which];
    std::uint64_t ran = 0;
    while (turns > 0 && g.at < limit) {
      const instruction& in = code[g.at];
      std::uint32_t mask = g.mask;
      if (in.predicate >= 0) {
        std::uint32_t p;
        std::memcpy(&p, register_at(v_, static_cast<std::uint32_t>(in.predicate)), 4);
        mask &= in.predicate_negated ? ~p : p;
      }
      v_.mask = mask, v_.at = g.at;
      ++ran, --turns;
      if (has_products_ && mask) judge_registers(w, in);
      if (in.goes == flow::plain) {
        if (mask) in.run(v_, in);
        if (w.waits_in_vain) {
          turns = 0;                   // it asks again, later
          if (machine_.set_.counts) {  // a device may hold it here meanwhile: how often it asks is no part of a kernel
            --ran;
            break;
          }
        }
        ++g.at;
      } else if (in.goes == flow::branch) {
        if (mask == 0) {
          ++g.at;
        } else if (mask == g.mask) {
          const bool back = in.target <= g.at;
          g.at = in.target;
          if (w.groups.size() > 1 || back) break;
        } else {
          w.groups[which] = {g.at + 1, g.mask & ~mask, false};
          w.groups.push_back({in.target, mask, false});
          machine_.instructions_ += ran;
          return;
        }
      } else if (in.goes == flow::end) {
        w.live &= ~mask, g.mask &= ~mask;
        if (mask && !w.products.empty())
          v_.report(std::countr_zero(mask), 74, "a warp ends with a wgmma in flight, which nothing waits for");
        for (lane_group& other : w.groups) other.waits = false;  // it may have been these lanes that they wait for
        ++g.at;
        if (!g.mask) {
          w.groups.erase(w.groups.begin() + static_cast<std::ptrdiff_t>(which));
          machine_.instructions_ += ran;
          return;
        }
      } else if (mask == 0) {
        ++g.at;
      } else if (in.goes == flow::warp ? !all_there(w, in, mask) : !at_barrier(w, in, mask)) {
        w.groups[which] = g;
        w.groups[which].waits = w.barrier < 0;
        machine_.instructions_ += ran;
        return;
      } else {
        v_.mask = mask;
        in.run(v_, in);
        ++g.at;
      }
    }
    w.groups[which] = g;
    machine_.instructions_ += ran;
  }

  // Registers of products in flight belong to those; and what is written of registers is noted.
  void judge_registers(warp& w, const instruction& in) {
    if (in.text.starts_with("wgmma.mma_async") || in.text.find(" wgmma.mma_async") != std::string::npos) return;
    const auto touch = [&](const auto& self, const operand& o, bool written) -> void {
      if (o.is == operand::form::in_register && o.bytes) {
        const std::size_t r = o.at / 64;
        if (!w.products.empty() && w.busy[r] && !std::exchange(w.touched_early, true))
          v_.report(std::countr_zero(v_.mask), 72, "a register is touched that a wgmma in flight has");
        if (written) w.written[r] = w.fences;
      }
      for (const operand& each : o.all) self(self, each, written && o.is == operand::form::list);
    };
    for (std::size_t i = 0; i < in.operands.size(); ++i)
      touch(touch, in.operands[i], i == 0 && in.goes != flow::barrier);
  }

  // For an instruction of a warp.
  bool all_there(const warp& w, const instruction& in, std::uint32_t mask) {
    std::uint32_t needed = w.born;
    if (!in.aligned) {
      const reading<std::uint32_t> named(v_, in.operands.back());
      const int first = std::countr_zero(mask);
      needed = named[first];
      each_lane(mask, [&](int l) {
        if (named[l] != needed) v_.report(l, 51, "lanes that meet name different lanes");
      });
      if (mask & ~needed)
        v_.report(std::countr_zero(mask & ~needed), 53, "a lane takes part that the lanes' mask doesn't name");
    }
    if (needed & ~w.live) {
      v_.report(
          std::countr_zero(mask), 52,
          needed & w.born & ~w.live ? "it names lanes that have ended" : "it names lanes that the block doesn't have");
      needed &= w.live;
    }
    return (needed & ~mask) == 0;
  }
  // For a barrier of the block. True: the warp goes on.
  bool at_barrier(warp& w, const instruction& in, std::uint32_t mask) {
    if (w.live & ~mask) return false;
    if (w.live != w.born)
      v_.report(std::countr_zero(mask), 55, "a barrier of the block, after some lanes of the warp have ended");
    const bool votes = in.second_choice != 0;
    const std::size_t first = votes ? 1 : 0;  // behind the answer
    const reading<std::uint32_t> id(v_, in.operands[first]);
    const int number = static_cast<int>(id[std::countr_zero(mask)]);
    barrier& b = v_.in->barriers[number];
    const auto warps = static_cast<std::uint32_t>(v_.in->warps.size());
    b.expected = warps;
    if (votes) {
      b.for_it += static_cast<std::uint32_t>(std::popcount(predicate(v_, in.operands.back()) & mask));
      b.voted += static_cast<std::uint32_t>(std::popcount(mask));
    }
    if (in.operands.size() > first + (votes ? 2 : 1)) {
      const reading<std::uint32_t> threads(v_, in.operands[first + 1]);
      b.expected = (threads[std::countr_zero(mask)] + lanes - 1) / lanes;
    }
    see(b.seen, w.seen), see(b.fenced, w.fenced);
    ++b.arrived;
    if (in.choice) {  // arrives, and doesn't wait
      ++w.seen[static_cast<std::size_t>(w.number)];
      if (b.arrived >= b.expected) release(b);
      return true;
    }
    if (b.arrived < b.expected) {
      w.barrier = number;
      b.waiting.push_back(w.number);
      return false;
    }
    meet(w, b);
    answer(w, {v_.at, mask, false}, b);
    release(b);
    return true;
  }
  // What the barrier where these lanes stand says of the votes.
  void answer(warp& w, const lane_group& g, const barrier& b) {
    warp_view v = v_;
    v.own = &w, v.at = g.at, v.mask = g.mask;
    const instruction& in = v.code->code[static_cast<std::size_t>(g.at)];
    if (in.second_choice == votes_count) {
      writing<std::uint32_t> out(v, in.operands[0]);
      each_lane(v.mask, [&](int l) { out.set(l, b.for_it); });
    } else if (in.second_choice) {
      const bool yes = in.second_choice == votes_any ? b.for_it > 0 : b.for_it == b.voted;
      set_predicate(v, in.operands[0], yes ? all_lanes : 0);
    }
  }
  static void meet(warp& w, const barrier& b) {
    see(w.seen, b.seen), see(w.fenced, b.fenced);
    ++w.seen[static_cast<std::size_t>(w.number)];
  }
  void release(barrier& b) {
    for (const int i : b.waiting) {
      warp& w = v_.in->warps[static_cast<std::size_t>(i)];
      meet(w, b);
      answer(w, w.groups[0], b);
      w.barrier = -1;
      ++w.groups[0].at;
    }
    b = {};
  }

  machine& machine_;
  warp_view v_;
  bool has_products_ = false, has_phases_ = false;
};

void machine::launch(ptx_unit& unit, const kernel& code, const launch_shape& shape, const void* parameters) {
  if (code.shared_bytes + shape.dynamic_shared > set_.most_shared)
    throw refused(code.name + " asks for more shared memory than a block can have");
  std::vector<std::uint64_t> room(code.parameter_bytes / 8 + 18);
  auto* const given = reinterpret_cast<std::uint8_t*>((reinterpret_cast<std::uint64_t>(room.data()) + 127) / 128 * 128);
  std::memcpy(given, parameters, code.parameter_bytes);
  const std::uint64_t threads = shape.grid.count() * ((shape.block.count() + lanes - 1) / lanes * lanes);
  if (next_thread_ + threads > 0xffffffffull) {  // numbers begin again: forget who touched what
    for (auto& [at, t] : allocations_) t.touches.clear(), t.grain = 2;
    next_thread_ = 1;
  }
  ++launches_;
  draw_.seed(set_.seed * 0x9e3779b97f4a7c15ull + launches_);
  const std::uint64_t before = instructions_;
  if (set_.counts) {
    counted_ = &counts_[code.name], ++counted_->launches;
    counted_->threads = std::max(counted_->threads, shape.block.count());
    counted_->block_bytes = std::max<std::uint64_t>(counted_->block_bytes, code.shared_bytes + shape.dynamic_shared);
    sectors_ = {};
  }
  block_run(*this, {this, &unit, &code, nullptr, nullptr, shape, given, static_cast<std::uint32_t>(next_thread_), 0, 0})
      .run();
  if (set_.counts) counted_->instructions += instructions_ - before, counted_->moved_bytes += sectors_.bytes();
  next_thread_ += threads;
}

}  // namespace device
