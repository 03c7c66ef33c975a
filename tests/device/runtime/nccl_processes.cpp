// Ranks that are processes: each leaves its data in files for the others (nccl_shared.hpp), and takes theirs when its
// stream has come to the operation. Invariant: a process whose stream nobody here asks for still brings it to what
// others have come to; one that is gone is told of.
#include <atomic>
#include <cstdlib>

#include "nccl_comm.hpp"

namespace device::nccl {
namespace {

std::vector<ncclComm_t>& shared_ones() {  // whose ranks are processes
  static std::vector<ncclComm_t> all;
  return all;
}

// A group of operations to which this rank's stream has come: what it gives is left for the others, and what they gave
// is taken when their streams have come there too.
class shared_run {
 public:
  shared_run(ncclComm_t c, std::shared_ptr<ncclComm::shared_piece> piece)
      : c_(c), aborted_(c->aborted), in_(c->in), all_(c->outside), piece_(std::move(piece)) {}

  // Whether it is over.
  bool operator()(held_lock&) {
    if (*aborted_) return true;
    if (piece_->stuck) return false;
    if (!std::exchange(arrived_, true)) arrive();
    for (const auto& p : piece_->parts)
      if (!all_->all(p, &shared_channel::arrived)) return false;
    for (std::size_t i = 0; i < piece_->parts.size(); ++i) take(piece_->parts[i], sound_[i]);
    return piece_->done = true;
  }

 private:
  int rank() const { return c_->rank; }
  void arrive() {
    for (const auto& p : piece_->parts) {
      sound_.push_back(may_move(p.call, rank(), c_->device, all_->ranks()));
      all_->arrive(p, p.call.in, sound_.back() ? bytes_read(p.call, rank(), all_->ranks()) : 0);
    }
  }
  void take(const shared_clique::part& p, bool sound) {
    const int own = rank(), ranks = all_->ranks();
    meeting m;
    m.members.resize(static_cast<std::size_t>(p.call.pairs() ? 2 : ranks));
    m.drawn = in_->draw(p.number);
    std::vector<std::vector<std::byte>> data;
    data.reserve(m.members.size());
    const auto place = [&](int r, nccl_word word) -> auto& {
      return m.members[static_cast<std::size_t>(p.call.pairs() ? (word == nccl_word::receive) : r)];
    };
    bool agree = sound;
    all_->each_other(p, [&](int r, const shared_channel&) {
      nccl_call call = all_->call_of(p, r);
      if (!call.agrees(p.call)) {
        if (own < r) refuse(disagreement(own, p.call, r, call));
        agree = false;
        return;
      }
      if (own < r && call.mixes(p.call)) refuse(mixture(own, r, p.call));
      data.push_back(all_->data_of(p, r, bytes_read(call, r, ranks)));
      call.in = data.back().data();
      place(r, call.word) = {r, 0, call, 0, 0};
    });
    if (agree && p.call.word != nccl_word::send) {
      place(own, p.call.word) = {own, c_->device, p.call, 0, 0};
      const auto outs = outputs(m);
      put(p.call.out, outs[p.call.pairs() ? 1 : static_cast<std::size_t>(own)]);
    }
    all_->done(p);
  }

  ncclComm_t c_;  // while it isn't aborted
  std::shared_ptr<bool> aborted_;
  std::shared_ptr<clique> in_;
  std::shared_ptr<shared_clique> all_;
  std::shared_ptr<ncclComm::shared_piece> piece_;
  bool arrived_ = false;
  std::vector<bool> sound_;
};

// Operations of one group call are given, as this piece of that stream's work: the other ranks hear of it.
std::shared_ptr<ncclComm::shared_piece> give(ncclComm_t c, const std::vector<nccl_call>& calls, cudaStream_t on,
                                             std::uint64_t number) {
  auto piece = std::make_shared<ncclComm::shared_piece>();
  piece->on = on, piece->number = number;
  if (failure().operations >= 0 && failure().operations-- == 0) {
    piece->stuck = true;
    c->fails_in = failure().looks;
    last_words() = "the stand-in's planned failure";
  }
  for (const nccl_call& call : calls) {
    piece->parts.push_back(c->outside->give(call));
    piece->at_once = piece->at_once || (c->in->draw(piece->parts.back().number) >> 40 & 1);
  }
  c->pieces.push_back(piece);
  return piece;
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

}  // namespace

void commit_processes(ncclComm_t c, const std::vector<nccl_call>& calls) {
  cudaStream_t const on = calls[0].on;
  for (const nccl_call& call : calls) {
    if (call.on != on) refuse("a group call puts operations of one communicator on several streams");
    if (device_of(call.on) != c->device) {
      refuse(std::string(call.name()) + " of rank " + std::to_string(c->rank) + ", which is on device " +
             std::to_string(c->device) + ", is given to a stream of device " + std::to_string(device_of(call.on)));
      return;
    }
  }
  state& s = the_device();
  if (s.kept.captures_on(on)) {  // given by each launch of the graph
    graph_node node{"nccl", {}};
    node.launched = [c, calls, in_graphs = c->in_graphs](streams::name launched_on,
                                                         std::uint64_t number) -> waiting_work {
      static_cast<void>(in_graphs);
      auto run = std::make_shared<shared_run>(
          c, give(c, calls, const_cast<cudaStream_t>(static_cast<const CUstream_st*>(launched_on)), number));
      return [run](held_lock& held) { return (*run)(held); };
    };
    ++s.called.captured;
    if (s.kept.add(on, std::move(node)) != refusal::none) refuse("a graph that can't be any more is given operations");
    return;
  }
  ++s.called.plain;
  auto run = std::make_shared<shared_run>(c, give(c, calls, on, s.work.given(on) + 1));
  s.work.give(on, [run](held_lock& held) {
    while (!(*run)(held)) let_others(held);
  });
}

ncclResult_t join_processes(held_lock& held, ncclComm_t* comm, int ranks, const std::string& name, int rank,
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

void leave_processes(ncclComm_t c) { std::erase(shared_ones(), c); }

}  // namespace device::nccl
