// NCCL for ranks that are threads over the devices on the host, in a strict reading of its documentation. An operation
// begins as late as its streams' waits permit, or, drawn by the seed, as soon as all ranks have called it; a
// communicator that doesn't block answers ncclInProgress a drawn number of times, and only then are its operations on
// their streams. Invariant: ranks that call different operations, arrays that aren't the device's, operations on one
// device that no wait puts in order, and threads that use one communicator at once are findings.
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_data.hpp"
#include "nccl_shared.hpp"
#include "state.hpp"

using namespace device;

namespace {

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ull + b + 0x632be59bd9b4e019ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
std::uint64_t seed() {
  const char* const given = std::getenv("WEFT_DEVICE_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 1;
}

// One operation: of all ranks, or of a sender and a receiver.
struct meeting {
  struct member {
    int rank = 0, device = 0;
    nccl_call call;
    std::uint64_t number = 0;  // of its piece in its stream
    std::uint64_t given = 0;   // how many groups of calls its device was given before
  };
  std::vector<std::optional<member>> members;
  std::uint64_t drawn = 0;
  bool stuck = false;  // it never ends: NCCL failed, or a rank's communicator was aborted
  bool done = false;

  bool complete() const {
    for (const auto& m : members)
      if (!m) return false;
    return true;
  }
};
using met = std::shared_ptr<meeting>;

struct clique {
  explicit clique(int size) : members(static_cast<std::size_t>(size)), devices(members.size(), -1) {}
  std::vector<ncclComm_t> members;  // null: has ended
  std::vector<int> devices;         // -1: has still to come
  std::map<std::uint64_t, met> collectives;
  std::map<std::pair<int, int>, std::map<std::uint64_t, met>> pairs;  // by sender and receiver
  struct choice {
    int color = 0, key = 0;
    ncclComm_t made = nullptr;
    bool given = false;
  };
  struct split {
    std::vector<choice> choices;
    bool fails = false;  // on rank 0, which is told, and never ends on the others
    bool is_whole() const {
      for (const choice& c : choices)
        if (!c.given) return false;
      return !choices.empty();
    }
  };
  std::map<std::uint64_t, split> splits;
  int ranks() const { return static_cast<int>(members.size()); }
  bool is_whole() const {
    for (const int d : devices)
      if (d < 0) return false;
    return true;
  }
  std::uint64_t draw(std::uint64_t number) const {
    std::uint64_t x = mixed(seed(), number);
    for (const int d : devices) x = mixed(x, static_cast<std::uint64_t>(d));
    return x;
  }
};

}  // namespace

struct ncclComm {
  std::shared_ptr<clique> in;
  int rank = 0, device = 0;
  bool blocks = true;
  std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
  ncclResult_t state = ncclSuccess;
  std::function<bool()> may_go_on;
  std::function<void(held_lock&)> then, on_abort;
  int answers = 0;           // how often it still says ncclInProgress
  std::thread::id asked_by;  // what it is in progress with
  std::thread::id inside{};  // who is in a call of it
  int fails_in = -1;         // after so many more looks it reports an error
  std::uint64_t collectives = 0, splits = 0, asked = 0;
  std::map<std::pair<int, int>, std::uint64_t> in_pair;
  std::vector<met> open;
  // Where ranks are processes: what they share, what of this rank's isn't done, and who brings its stream there.
  std::shared_ptr<shared_clique> outside;
  struct shared_piece {
    std::vector<shared_clique::part> parts;
    cudaStream_t on = nullptr;
    std::uint64_t number = 0;
    bool at_once = false, done = false;
    bool stuck = false;  // it never ends: NCCL failed
  };
  std::vector<std::shared_ptr<shared_piece>> pieces;
  int drivers = 0;
};

namespace {

std::condition_variable& changed() {
  static std::condition_variable one;
  return one;
}
struct planned {
  int operations = -1, looks = 0;
  bool split = false;
};
planned& failure() {
  static planned one;
  return one;
}
// What each device was given, and isn't done, by when.
std::map<int, std::vector<std::pair<std::uint64_t, met>>>& given() {
  static std::map<int, std::vector<std::pair<std::uint64_t, met>>> by_device;
  return by_device;
}
std::vector<ncclComm_t>& shared_ones() {  // whose ranks are processes
  static std::vector<ncclComm_t> all;
  return all;
}
int& live() {
  static int communicators = 0;
  return communicators;
}
std::string& last_words() {
  static std::string words;
  return words;
}
ncclResult_t refuse(const std::string& sentence) {
  the_device().gpu.find_fault("nccl: " + sentence);
  return ncclInvalidUsage;
}
// This thread is in a call of a communicator, which takes a moment; no other shall be, nor while it is in progress for
// another one.
class user {
 public:
  user(held_lock& held, ncclComm_t c) : c_(c), before_(c->inside) {
    const auto self = std::this_thread::get_id();
    if (before_ != std::thread::id{} && before_ != self)
      refuse("two threads use rank " + std::to_string(c->rank) + "'s communicator at once");
    else if (c->state == ncclInProgress && c->asked_by != self && !c->outside)
      refuse("a thread uses rank " + std::to_string(c->rank) + "'s communicator, which is in progress for another");
    c->inside = self;
    static unsigned calls = 0;
    const bool long_one = ++calls % 16 == 0;  // a yield may cost a busy machine's slice
    held.unlock();
    if (long_one) std::this_thread::yield();
    held.lock();
  }
  ~user() {
    c_->inside = before_ == std::this_thread::get_id() ? before_ : std::thread::id{};
    changed().notify_all();
  }
  user(const user&) = delete;
  user& operator=(const user&) = delete;

 private:
  ncclComm_t c_;
  std::thread::id before_;
};
// The last thing of a communicator: whoever is in a call of it leaves first.
void end(held_lock& held, ncclComm_t c) {
  if (c->inside != std::thread::id{})
    refuse("rank " + std::to_string(c->rank) + "'s communicator is ended while a thread uses it");
  if (c->outside) std::erase(shared_ones(), c);
  changed().wait(held, [&] { return c->inside == std::thread::id{} && c->drivers == 0; });
  if (c->in) c->in->members[static_cast<std::size_t>(c->rank)] = nullptr;
  delete c;
  --live();
}
struct group_call {
  int depth = 0;
  std::vector<std::pair<ncclComm_t, nccl_call>> calls;
};
group_call& own_group() {
  thread_local group_call one;
  return one;
}

// Lets a communicator do what it was asked for: now where it blocks, else behind its caller's back.
ncclResult_t begin(held_lock& held, ncclComm_t c, std::function<bool()> may, std::function<void(held_lock&)> then) {
  if (c->state == ncclInProgress)
    return refuse("rank " + std::to_string(c->rank) + " calls it while its last call is in progress");
  if (c->state != ncclSuccess) return c->state;
  if (c->blocks) {
    changed().wait(held, may);
    then(held);
    return c->state;
  }
  c->answers = static_cast<int>(mixed(c->in->draw(++c->asked), static_cast<std::uint64_t>(c->rank)) % 4);
  if (c->answers == 0 && may()) return then(held), c->state;
  c->asked_by = std::this_thread::get_id();
  c->state = ncclInProgress, c->may_go_on = std::move(may), c->then = std::move(then);
  return ncclInProgress;
}

// ---- operations ----

// How much of its input a rank's call reads, in a communicator of so many.
std::size_t bytes_read(const nccl_call& c, int rank, int ranks) {
  return c.word == nccl_word::broadcast && rank != c.peer ? 0 : c.reads(c.pairs() ? 1 : ranks);
}
// Whether a rank's arrays are the device's, and what it reads was written.
bool may_move(const nccl_call& c, int rank, int device, int ranks) {
  machine& gpu = the_device().gpu;
  const std::size_t reads = bytes_read(c, rank, ranks), writes = c.writes(c.pairs() ? 1 : ranks);
  if (reads > 0 && !require_inside(device, c.in, reads, c.name())) return false;
  if (writes > 0 && !require_inside(device, c.out, writes, c.name())) return false;
  if (reads == 0 || gpu.has_padding() || gpu.all_written(c.in, reads)) return true;
  gpu.find_fault(std::string(c.name()) + ": it reads what nobody wrote");
  return false;
}
void put(void* to, const std::vector<std::byte>& data) {
  if (data.empty()) return;
  std::memcpy(to, data.data(), data.size());
  the_device().gpu.mark_written(to, data.size());
}
// What each rank gets.
std::vector<std::vector<std::byte>> outputs(const meeting& m) {
  const int ranks = static_cast<int>(m.members.size());
  // All is read before anything is written: outputs may be inputs.
  const nccl_call& first = m.members[0]->call;
  const std::size_t bytes = first.bytes();
  const auto in = [&](int r) { return static_cast<const std::byte*>(m.members[static_cast<std::size_t>(r)]->call.in); };
  std::vector<std::vector<std::byte>> outs;
  const auto part = [&](const std::byte* from, std::size_t size) { return std::vector<std::byte>(from, from + size); };
  const auto fold = [&](std::size_t at) {
    std::vector<const std::byte*> all;
    for (int r = 0; r < ranks; ++r) all.push_back(in(r) + at);
    std::vector<std::byte> out(bytes);
    nccl_fold(all, m.drawn % static_cast<std::uint64_t>(ranks), out.data(), first.count, first.type, first.how);
    return out;
  };
  std::vector<std::byte> all;
  switch (first.word) {
    case nccl_word::all_reduce:
      outs.assign(m.members.size(), fold(0));
      break;
    case nccl_word::reduce_scatter:
      for (int r = 0; r < ranks; ++r) outs.push_back(fold(static_cast<std::size_t>(r) * bytes));
      break;
    case nccl_word::all_gather:
      for (int r = 0; r < ranks; ++r) all.insert(all.end(), in(r), in(r) + bytes);
      outs.assign(m.members.size(), all);
      break;
    case nccl_word::broadcast:
      outs.assign(m.members.size(), part(in(first.peer), bytes));
      break;
    case nccl_word::send:
    case nccl_word::receive:
      outs = {{}, part(in(0), bytes)};
      break;
  }
  return outs;
}
void move_data(const meeting& m) {
  for (const auto& member : m.members)
    if (!may_move(member->call, member->rank, member->device, static_cast<int>(m.members.size()))) return;
  const auto outs = outputs(m);
  for (std::size_t r = 0; r < outs.size(); ++r) put(m.members[r]->call.out, outs[r]);
}
std::string disagreement(int a, const nccl_call& first, int b, const nccl_call& second) {
  return "ranks of one communicator disagree: rank " + std::to_string(a) + " calls " + first.text() + ", and rank " +
         std::to_string(b) + " " + second.text();
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

// ---- ranks that are processes ----

// A stream has come to a group of operations: what this rank gives is left for the others, and what they gave is taken
// when their streams have come there too.
void run_shared(held_lock& held, ncclComm_t c, const std::shared_ptr<bool>& aborted, ncclComm::shared_piece& piece) {
  if (piece.stuck) changed().wait(held, [&] { return *aborted; });
  if (*aborted) return;
  const std::shared_ptr<shared_clique> all = c->outside;
  const int rank = c->rank, ranks = all->ranks(), device = c->device;
  const auto in = c->in;
  std::vector<bool> sound;
  for (const auto& p : piece.parts) {
    sound.push_back(may_move(p.call, rank, device, ranks));
    all->arrive(p, p.call.in, sound.back() ? bytes_read(p.call, rank, ranks) : 0);
  }
  for (const auto& p : piece.parts)
    while (!all->all(p, &shared_channel::arrived)) {
      held.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      held.lock();
      if (*aborted) return;
    }
  for (std::size_t i = 0; i < piece.parts.size(); ++i) {
    const auto& p = piece.parts[i];
    meeting m;
    m.members.resize(static_cast<std::size_t>(p.call.pairs() ? 2 : ranks));
    m.drawn = in->draw(p.number);
    std::vector<std::vector<std::byte>> data;
    data.reserve(m.members.size());
    const auto place = [&](int r, nccl_word word) -> auto& {
      return m.members[static_cast<std::size_t>(p.call.pairs() ? (word == nccl_word::receive) : r)];
    };
    bool agree = sound[i];
    all->each_other(p, [&](int r, const shared_channel&) {
      nccl_call call = all->call_of(p, r);
      if (!call.agrees(p.call)) {
        if (rank < r) refuse(disagreement(rank, p.call, r, call));
        agree = false;
        return;
      }
      data.push_back(all->data_of(p, r, bytes_read(call, r, ranks)));
      call.in = data.back().data();
      place(r, call.word) = {r, 0, call, 0, 0};
    });
    if (agree && p.call.word != nccl_word::send) {
      place(rank, p.call.word) = {rank, device, p.call, 0, 0};
      const auto outs = outputs(m);
      put(p.call.out, outs[p.call.pairs() ? 1 : static_cast<std::size_t>(rank)]);
    }
    all->done(p);
  }
  piece.done = true;
}
// Streams of this process are brought to what others have come to, as nobody here may ask for it; a process that is
// gone is told of.
std::atomic<bool>& stop_driving() {
  static std::atomic<bool> one{false};
  return one;
}
std::thread*& driver_of_process() {
  static std::thread* one = nullptr;
  return one;
}
void drive() {
  for (unsigned turns = 0; !stop_driving(); ++turns) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    held_lock held(the_device().lock);
    if (!shared_ones().empty()) changed().notify_all();  // who waits for another process
    for (ncclComm_t c : shared_ones()) {
      std::erase_if(c->pieces, [](const auto& p) { return p->done; });
      if (turns % 64 == 0 && c->state != ncclRemoteError && c->fails_in < 0)
        if (const int r = c->outside->dead(); r >= 0) {
          last_words() =
              "rank " + std::to_string(r) + "'s process " + std::to_string(c->outside->at(r).process) + " is gone";
          c->fails_in = 0;
        }
      if (c->pieces.empty() || c->drivers > 0 || *c->aborted) continue;
      const auto piece = c->pieces.front();
      bool wanted = false, whole = true;
      for (const auto& p : piece->parts) {
        wanted = wanted || c->outside->any(p, &shared_channel::arrived);
        whole = whole && c->outside->all(p, &shared_channel::given);
      }
      if (!wanted && !(piece->at_once && whole)) continue;
      ++c->drivers;
      std::thread([c, piece] {
        held_lock own(the_device().lock);
        chosen_device() = c->device;
        the_device().work.finish(own, piece->on, piece->number);
        --c->drivers;
        changed().notify_all();
      }).detach();
    }
  }
}
void commit_shared(ncclComm_t c, const std::vector<nccl_call>& calls) {
  auto piece = std::make_shared<ncclComm::shared_piece>();
  piece->on = calls[0].on;
  if (failure().operations >= 0 && failure().operations-- == 0) {
    piece->stuck = true;
    c->fails_in = failure().looks;
    last_words() = "the stand-in's planned failure";
  }
  for (const nccl_call& call : calls) {
    if (call.on != piece->on) refuse("a group call puts operations of one communicator on several streams");
    if (device_of(call.on) != c->device) {
      refuse(std::string(call.name()) + " of rank " + std::to_string(c->rank) + ", which is on device " +
             std::to_string(c->device) + ", is given to a stream of device " + std::to_string(device_of(call.on)));
      return;
    }
    piece->parts.push_back(c->outside->give(call));
    piece->at_once = piece->at_once || (c->in->draw(piece->parts.back().number) >> 40 & 1);
  }
  piece->number = the_device().work.give(
      piece->on, [c, aborted = c->aborted, piece](held_lock& h) { run_shared(h, c, aborted, *piece); });
  c->pieces.push_back(std::move(piece));
}

// Puts a communicator's calls of one group on their stream.
void commit(held_lock& held, ncclComm_t c, const std::vector<nccl_call>& calls) {
  if (c->outside) return commit_shared(c, calls);
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
      }
    m.members[place] = own;
    at_once = at_once || (m.complete() && !m.stuck && m.drawn >> 40 & 1);
    c->open.push_back(meetings[i]);
  }
  std::erase_if(c->open, [](const met& m) { return m->done; });
  changed().notify_all();
  bool whole = true;
  for (const met& m : meetings) whole = whole && m->complete() && !m->stuck;
  if (!at_once || !whole) return;
  for (const met& m : meetings)
    for (const auto& member : m->members) work.finish(held, member->call.on, member->number);
}

ncclResult_t end_group(held_lock& held) {
  std::vector<std::pair<ncclComm_t, std::vector<nccl_call>>> by;
  for (auto& [c, call] : std::exchange(own_group().calls, {})) {
    auto at = by.begin();
    while (at != by.end() && at->first != c) ++at;
    if (at == by.end()) at = by.insert(at, {c, {}});
    at->second.push_back(call);
  }
  ncclResult_t worst = ncclSuccess;
  for (auto& [c, calls] : by) {
    const ncclResult_t got = begin(
        held, c, [] { return true; }, [c = c, calls = calls](held_lock& h) { commit(h, c, calls); });
    if (got != ncclSuccess && (worst == ncclSuccess || worst == ncclInProgress)) worst = got;
  }
  return worst;
}
ncclResult_t call(ncclComm_t c, const nccl_call& what) {
  held_lock held(the_device().lock);
  if (what.peer < 0 || what.peer >= c->in->ranks()) return refuse("there is no such peer");
  own_group().calls.emplace_back(c, what);
  return own_group().depth > 0 ? ncclSuccess : end_group(held);
}

ncclComm_t make(const ncclConfig_t* config) {
  ncclComm_t const c = new ncclComm;
  c->device = chosen_device();
  c->blocks = !config || config->blocking == NCCL_CONFIG_UNDEF_INT || config->blocking != 0;
  ++live();
  return c;
}
ncclResult_t join_shared(held_lock& held, ncclComm_t* comm, int ranks, const std::string& name, int rank,
                         const ncclConfig_t* config) {
  ncclComm_t const c = *comm = make(config);
  c->in = std::make_shared<clique>(ranks), c->rank = rank;
  c->outside =
      std::make_shared<shared_clique>(name, ranks, rank, the_device().cards[static_cast<std::size_t>(c->device)]);
  static std::thread* const driver = [] {
    std::atexit([] { stop_driving() = true, driver_of_process()->join(); });
    return driver_of_process() = new std::thread(drive);
  }();
  static_cast<void>(driver);
  shared_ones().push_back(c);
  return begin(
      held, c, [all = c->outside] { return all->is_whole(); },
      [c](held_lock&) {
        for (int r = 0; r < c->outside->ranks(); ++r)
          for (int k = 0; k < r; ++k)
            if (c->outside->at(r).card == c->outside->at(k).card &&
                c->outside->at(r).machine == c->outside->at(k).machine)
              refuse("two ranks of one communicator are on card " + std::to_string(c->outside->at(r).card));
        for (int r = 0; r < c->outside->ranks(); ++r)
          c->in->devices[static_cast<std::size_t>(r)] = c->outside->at(r).card;
      });
}

}  // namespace

extern "C" {

// For tests: the operation that begins after so many others never ends, and its communicator reports an error, to
// whoever asks it after so many others.
void weft_nccl_fail_after(int operations, int looks) {
  held_lock held(the_device().lock);
  failure().operations = operations, failure().looks = looks;
}
// For tests: the next split never ends, and rank 0 is told.
void weft_nccl_fail_split() {
  held_lock held(the_device().lock);
  failure().split = true;
}
// For tests: communicators that are neither destroyed nor aborted.
int weft_nccl_live() {
  held_lock held(the_device().lock);
  return live();
}

ncclResult_t ncclGetVersion(int* version) { return *version = NCCL_VERSION_CODE, ncclSuccess; }
const char* ncclGetErrorString(ncclResult_t status) {
  constexpr const char* words[] = {"no error",
                                   "unhandled cuda error",
                                   "unhandled system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a network error",
                                   "NCCL operation in progress"};
  return status >= 0 && status < ncclNumResults ? words[status] : "unknown result code";
}
const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string words;
  held_lock held(the_device().lock);
  return (words = last_words()).c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  held_lock held(the_device().lock);
  static std::uint64_t made = 0;
  *id = {};
  std::memcpy(id->internal, &++made, sizeof made);
  const std::string name = shared_clique::new_name();
  if (sizeof made + name.size() >= sizeof id->internal) return refuse("WEFT_DEVICE_SHARED is too long a folder's name");
  std::memcpy(id->internal + sizeof made, name.data(), name.size());
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  held_lock held(the_device().lock);
  static std::map<std::uint64_t, std::shared_ptr<clique>> all;
  std::uint64_t number;
  std::memcpy(&number, id.internal, sizeof number);
  if (const std::string name = id.internal + sizeof number; !name.empty())
    return join_shared(held, comm, ranks, name, rank, config);
  std::shared_ptr<clique>& in = all[number];
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
ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  held_lock held(the_device().lock);
  *made = nullptr;
  if (parent->outside) return refuse("ncclCommSplit is called on a communicator of processes, which nobody has needed");
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
ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t* state) {
  held_lock held(the_device().lock);
  const user alone(held, c);
  if (c->state == ncclInProgress && c->may_go_on() && c->answers-- <= 0) {
    c->state = ncclSuccess, c->on_abort = nullptr;
    std::exchange(c->then, nullptr)(held);
  }
  if (c->fails_in >= 0 && c->fails_in-- == 0) c->state = ncclRemoteError;
  *state = c->state;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t c, int* count) { return *count = c->in->ranks(), ncclSuccess; }
ncclResult_t ncclCommUserRank(const ncclComm_t c, int* rank) { return *rank = c->rank, ncclSuccess; }
ncclResult_t ncclCommFinalize(ncclComm_t c) {
  held_lock held(the_device().lock);
  bool whole = true;
  for (const auto& piece : c->pieces)
    for (const auto& p : piece->parts) whole = whole && (piece->done || c->outside->all(p, &shared_channel::given));
  if (!whole)
    refuse("a communicator ends, and an operation of its rank " + std::to_string(c->rank) + " was never called by all");
  for (const met& m : c->open)
    if (!m->complete())
      refuse("a communicator ends, and an operation of its rank " + std::to_string(c->rank) +
             " was never called by all");
  return begin(
      held, c, [] { return true; }, [](held_lock&) {});
}
ncclResult_t ncclCommDestroy(ncclComm_t c) {
  held_lock held(the_device().lock);
  if (c->state == ncclInProgress) refuse("a communicator is destroyed while its last call is in progress");
  if (c->outside) c->outside->own().ended = 1;
  end(held, c);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t c) {
  held_lock held(the_device().lock);
  *c->aborted = true;
  for (const met& m : c->open) m->stuck = true;
  if (c->outside) c->outside->own().ended = 2;
  if (c->on_abort) c->on_abort(held);
  changed().notify_all();  // who brings its stream on leaves it, and is waited for
  end(held, c);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() { return ++own_group().depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() {
  held_lock held(the_device().lock);
  if (own_group().depth == 0) return refuse("ncclGroupEnd without ncclGroupStart");
  return --own_group().depth > 0 ? ncclSuccess : end_group(held);
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t how,
                           ncclComm_t c, cudaStream_t on) {
  return call(c, {nccl_word::all_reduce, in, out, count, type, how, 0, on});
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t how,
                               ncclComm_t c, cudaStream_t on) {
  return call(c, {nccl_word::reduce_scatter, in, out, count, type, how, 0, on});
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t c,
                           cudaStream_t on) {
  return call(c, {nccl_word::all_gather, in, out, count, type, ncclSum, 0, on});
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root, ncclComm_t c,
                           cudaStream_t on) {
  return call(c, {nccl_word::broadcast, in, out, count, type, ncclSum, root, on});
}
ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t on) {
  return call(c, {nccl_word::send, in, nullptr, count, type, ncclSum, peer, on});
}
ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t on) {
  return call(c, {nccl_word::receive, nullptr, out, count, type, ncclSum, peer, on});
}

}  // extern "C"
