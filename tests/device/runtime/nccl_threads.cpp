// Ranks that are threads: an operation is a meeting, to which each rank's stream comes. It begins as late as its
// streams' waits permit, or, drawn by the seed, as soon as all ranks have called it. Invariant: ranks that call
// different operations, and operations on one device that no wait puts in order, are findings.
#include "nccl_comm.hpp"

namespace device::nccl {
namespace {

// What each device was given, and isn't done, by when.
std::map<int, std::vector<std::pair<std::uint64_t, met>>>& given() {
  static std::map<int, std::vector<std::pair<std::uint64_t, met>>> by_device;
  return by_device;
}
void move_data(const meeting& m) {
  for (const auto& member : m.members)
    if (!may_move(member->call, member->rank, member->device, static_cast<int>(m.members.size()))) return;
  const auto outs = outputs(m);
  for (std::size_t r = 0; r < outs.size(); ++r) put(m.members[r]->call.out, outs[r]);
}

// A stream has come to a group of operations: they end when the other ranks' streams have come there too.
void run(held_lock& held, const std::shared_ptr<bool>& aborted, const std::vector<met>& meetings) {
  for (const met& m : meetings) {
    changed().wait(held, [&] { return *aborted || m->done || (m->complete() && !m->stuck); });
    if (*aborted) return;
    for (std::size_t k = 0; k < m->members.size() && !m->done; ++k)
      the_device().work.finish(held, m->members[k]->call.on, m->members[k]->number - 1);
  }
  for (const met& m : meetings) {
    if (*aborted) return;
    if (std::exchange(m->done, true)) continue;
    for (const auto& member : m->members) {
      auto& all = given()[member->device];
      for (const auto& [number, other] : all)
        if (number < member->given && !other->done && !other->stuck)
          refuse(std::string(member->call.name()) + " runs on device " + std::to_string(member->device) +
                 " before an operation that was given earlier: no wait of their streams puts them in order");
      std::erase_if(all, [](const auto& one) { return one.second->done || one.second->stuck; });
    }
    move_data(*m);
  }
}

met& meeting_of(clique& in, ncclComm_t c, const nccl_call& call) {
  const std::pair<int, int> pair =
      call.word == nccl_word::send ? std::pair(c->rank, call.peer) : std::pair(call.peer, c->rank);
  const std::uint64_t number =
      call.pairs() ? c->in_pair[{call.word == nccl_word::send, call.peer}]++ : c->collectives++;
  met& m = call.pairs() ? in.pairs[pair][number] : in.collectives[number];
  if (!m) {
    m = std::make_shared<meeting>();
    m->members.resize(call.pairs() ? 2 : in.members.size());
    m->drawn = in.draw(number);
    if (failure().operations >= 0 && failure().operations-- == 0) {
      m->stuck = true;
      for (ncclComm_t member : in.members)
        if (member) member->fails_in = failure().looks;
      last_words() = "the stand-in's planned failure";
    }
  }
  return m;
}

}  // namespace

void commit_threads(held_lock& held, ncclComm_t c, const std::vector<nccl_call>& calls) {
  if (the_device().kept.captures_on(calls[0].on)) {
    refuse("an operation of ranks that are threads is captured, which nobody has needed");
    return;
  }
  std::vector<met> meetings;
  for (const nccl_call& call : calls) {
    meetings.push_back(meeting_of(*c->in, c, call));
    if (call.on != calls[0].on) refuse("a group call puts operations of one communicator on several streams");
    if (device_of(call.on) != c->device) {
      meetings.back()->done = true;  // it moves nothing
      refuse(std::string(call.name()) + " of rank " + std::to_string(c->rank) + ", which is on device " +
             std::to_string(c->device) + ", is given to a stream of device " + std::to_string(device_of(call.on)));
    }
  }
  streams& work = the_device().work;
  const std::uint64_t number =
      work.give(calls[0].on, [aborted = c->aborted, meetings](held_lock& h) { run(h, aborted, meetings); });
  bool at_once = false;
  static std::uint64_t groups = 0;
  ++groups;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    meeting& m = *meetings[i];
    const std::size_t place = calls[i].word == nccl_word::send      ? 0
                              : calls[i].word == nccl_word::receive ? 1
                                                                    : static_cast<std::size_t>(c->rank);
    const meeting::member own{c->rank, c->device, calls[i], number, groups};
    given()[c->device].emplace_back(groups, meetings[i]);
    for (const auto& other : m.members)
      if (other && !other->call.agrees(calls[i]) && !m.done) {
        refuse(disagreement(other->rank, other->call, c->rank, calls[i]));
        m.done = true;
      } else if (other && other->call.mixes(calls[i])) {
        refuse(mixture(other->rank, c->rank, calls[i]));
      }
    m.members[place] = own;
    at_once = at_once || (m.complete() && !m.stuck && m.drawn >> 40 & 1);
    c->open.push_back(meetings[i]);
  }
  std::erase_if(c->open, [](const met& m) { return m->done; });
  changed().notify_all();
  bool whole = true;
  for (const met& m : meetings) whole = whole && m->complete() && !m->stuck;
  // Nor can a stream end a piece of which a part still has to be called, maybe by this very thread.
  for (ncclComm_t other : c->in->members)
    if (other)
      for (const met& m : other->open) whole = whole && (m->done || (m->complete() && !m->stuck));
  if (!at_once || !whole) return;
  for (const met& m : meetings)
    for (const auto& member : m->members) work.finish(held, member->call.on, member->number);
}

ncclResult_t join_threads(held_lock& held, ncclComm_t* comm, int ranks, std::uint64_t id, int rank,
                          const ncclConfig_t* config) {
  static std::map<std::uint64_t, std::shared_ptr<clique>> all;
  std::shared_ptr<clique>& in = all[id];
  if (!in) in = std::make_shared<clique>(ranks);
  if (in->ranks() != ranks || rank < 0 || rank >= ranks || in->devices[static_cast<std::size_t>(rank)] >= 0)
    return refuse("rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " joins a communicator of " +
                  std::to_string(in->ranks()) + " that has no such place");
  for (const int d : in->devices)
    if (d == chosen_device()) return refuse("two ranks of one communicator are on device " + std::to_string(d));
  ncclComm_t const c = *comm = make(config);
  c->in = in, c->rank = rank;
  in->members[static_cast<std::size_t>(rank)] = c;
  in->devices[static_cast<std::size_t>(rank)] = c->device;
  changed().notify_all();
  return begin(
      held, c, [in = c->in] { return in->is_whole(); }, [](held_lock&) {});
}
ncclResult_t split_threads(held_lock& held, ncclComm_t parent, int color, int key, ncclComm_t* made,
                           const ncclConfig_t* config) {
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) return refuse("ncclCommSplit takes no color below 0");
  if (parent->device != chosen_device()) return refuse("ncclCommSplit is called on another device than its rank's");
  for (const met& m : parent->open)
    if (!m->done) return refuse("ncclCommSplit is called while operations on the parent are outstanding");
  const user alone(held, parent);
  const std::uint64_t number = parent->splits++;
  clique::split& split = parent->in->splits[number];
  auto& choices = split.choices;
  if (choices.empty()) split.fails = std::exchange(failure().split, false);
  choices.resize(parent->in->members.size());
  ncclComm_t const c = color == NCCL_SPLIT_NOCOLOR ? nullptr : make(config);
  choices[static_cast<std::size_t>(parent->rank)] = {color, key, c, true};
  if (split.is_whole())  // each color's ranks by (key, rank)
    for (std::size_t r = 0; r < choices.size(); ++r) {
      if (!choices[r].made || choices[r].made->in) continue;
      std::map<std::pair<int, std::size_t>, ncclComm_t> order;
      for (std::size_t k = 0; k < choices.size(); ++k)
        if (choices[k].color == choices[r].color) order[{choices[k].key, k}] = choices[k].made;
      const auto in = std::make_shared<clique>(static_cast<int>(order.size()));
      for (int rank = 0; const auto& [place, member] : order) {
        in->members[static_cast<std::size_t>(rank)] = member;
        in->devices[static_cast<std::size_t>(rank)] = member->device;
        member->in = in, member->rank = rank++;
      }
    }
  changed().notify_all();
  const ncclResult_t got = begin(
      held, parent,
      [in = parent->in, number, rank = parent->rank] {
        const clique::split& all = in->splits[number];
        return all.is_whole() && (!all.fails || rank == 0);
      },
      [made, c, parent, fails = split.fails](held_lock&) {
        *made = c;
        if (!fails) return;
        parent->state = ncclRemoteError;
        last_words() = "the stand-in's planned failure";
      });
  if (got == ncclInProgress) parent->on_abort = parent->then;  // it is stored where the split is aborted, too
  return got;
}

}  // namespace device::nccl
