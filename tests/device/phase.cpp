// mbarrier: barriers of phases, which threads arrive at and copies complete. Invariant: who arrives tells what it has
// seen, who finds a phase complete has seen that; and copies land when only they are missing, as late as they may.
#include "phase.hpp"

#include "families.hpp"
#include "memory.hpp"

namespace device {
namespace {

// The barrier at a lane's address; null where nobody made one. Its words are touched as atomic operations touch theirs:
// who made it wrote them.
phase_barrier* barrier_of(warp_view& v, std::uint64_t at, int lane) {
  v.device->memory_for(v, space::shared, at, 8, lane, reads | atomic);
  const auto found = v.in->phases.find(shared_offset(at));
  if (found != v.in->phases.end()) return &found->second;
  v.report(lane, 80, "there is no mbarrier: nobody has made one here");
  return nullptr;
}

void make(warp_view& v, const instruction& in) {
  const lane_addresses at(v, in.operands[0]);
  const reading<std::uint32_t> count(v, in.operands[1]);
  each_lane(v.mask, [&](int l) {
    std::memset(v.device->memory_for(v, space::shared, at.of[l], 8, l, writes), 0, 8);
    if (count[l] == 0 || count[l] >= 1u << 20) v.report(l, 81, "an mbarrier waits for 1 to 2^20 - 1 arrivals");
    phase_barrier b;
    b.expected = b.pending = count[l];
    b.made_by = v.own->number;
    v.in->phases[shared_offset(at.of[l])] = b;
  });
}
void end(warp_view& v, const instruction& in) {
  const lane_addresses at(v, in.operands[0]);
  each_lane(v.mask, [&](int l) {
    barrier_of(v, at.of[l], l);
    v.in->phases.erase(shared_offset(at.of[l]));
    v.device->memory_for(v, space::shared, at.of[l], 8, l, writes);
  });
}
void expect(warp_view& v, const instruction& in) {
  const lane_addresses at(v, in.operands[0]);
  const reading<std::uint32_t> bytes(v, in.operands[1]);
  each_lane(v.mask, [&](int l) {
    if (phase_barrier* const b = barrier_of(v, at.of[l], l)) b->bytes += bytes[l];
  });
}
// mbarrier.arrive STATE, [AT] {, COUNT}, and .expect_tx STATE, [AT], BYTES. States aren't read: `_`.
template <bool Expects>
void arrive(warp_view& v, const instruction& in) {
  const lane_addresses at(v, in.operands[1]);
  static const operand none;
  const bool more = in.operands.size() > 2;
  const reading<std::uint32_t> given(v, more ? in.operands[2] : none);
  each_lane(v.mask, [&](int l) {
    phase_barrier* const known = barrier_of(v, at.of[l], l);
    if (!known) return;
    phase_barrier& b = *known;
    const std::uint32_t arrivals = more && !Expects ? given[l] : 1;
    if (Expects) b.bytes += given[l];
    if (arrivals > b.pending) {
      v.report(l, 82, "more threads arrive at an mbarrier than it waits for");
      return;
    }
    b.pending -= arrivals;
    see(b.seen, v.own->seen), see(b.fences, v.own->fenced);
    ++v.in->events;
    complete_phase(b);
  });
  ++v.own->seen[static_cast<std::size_t>(v.own->number)];
}
// Whether the phase of this parity is complete; where not, it is asked again.
void wait(warp_view& v, const instruction& in) {
  const lane_addresses at(v, in.operands[1]);
  const reading<std::uint32_t> parity(v, in.operands[2]);
  std::uint32_t complete = 0;
  each_lane(v.mask, [&](int l) {
    phase_barrier* const known = barrier_of(v, at.of[l], l);
    if (!known) {
      complete |= 1u << l;
      return;
    }
    phase_barrier& b = *known;
    const std::uint64_t where = shared_offset(at.of[l]);
    const auto is_complete = [&] { return (b.phase & 1) != (parity[l] & 1); };
    if (!is_complete() && b.pending == 0 && v.device->draw(2)) land_tiles(v, where);
    if (is_complete() && v.device->draw(8)) {  // it may say no for a while
      complete |= 1u << l;
      v.own->turns_since = 1000;
      see(v.own->seen, b.seen_before), see(v.own->fenced, b.fences_before);
    } else {
      v.own->asked = where;
      v.own->waits_in_vain = true;
      if (is_complete()) ++v.in->events;
    }
  });
  set_predicate(v, in.operands[0], complete);
}

}  // namespace

void complete_phase(phase_barrier& b) {
  if (b.pending || b.bytes) return;
  ++b.phase;
  b.pending = b.expected;
  see(b.seen_before, b.seen), see(b.fences_before, b.fences);
}

bool decode_phase(instruction& in, const opcode& w) {
  if (w[0] != "mbarrier" || w.size() < 2 || !says(w, "b64") || !says(w, "shared::cta")) return false;
  const std::string_view does = w[1];
  const auto all = [&](std::string_view more) {
    return only(w, {does, more, "shared::cta", "release", "acquire", "relaxed", "cta"});
  };
  const std::size_t given = in.operands.size();
  if (does == "init") return all("") && given == 2 && run_by(in, make);
  if (does == "inval") return all("") && given == 1 && run_by(in, end);
  if (does == "expect_tx") return all("") && given == 2 && run_by(in, expect);
  if (does == "arrive" && in.operands[0].is == operand::form::nothing)
    return all("expect_tx") && given >= 2 && run_by(in, says(w, "expect_tx") ? arrive<true> : arrive<false>);
  if (does == "try_wait" || does == "test_wait")
    return all("parity") && says(w, "parity") && given >= 3 && run_by(in, wait);
  return false;
}

}  // namespace device
