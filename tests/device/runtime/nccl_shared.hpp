// What ranks that are processes know of each other under the tests' NCCL: a file that all of a communicator's ranks
// map, with what each has called and how far its stream has come, and a file for the data of each rank's part of an
// operation. Invariant: whoever says that he has come to an operation has left his data; they lie there until all who
// need them have done it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "nccl_data.hpp"

namespace device {

/// One rank's operations of one kind: the collectives, or what it sends to or receives from one other.
struct shared_channel {
  static constexpr std::uint64_t remembered = 256;
  std::atomic<std::uint64_t> given, arrived, done;  // how many of them
  nccl_call calls[remembered];                      // the last that were given; their addresses say nothing here
};
struct shared_member {
  std::atomic<std::size_t> machine;
  std::atomic<int> process, card, ended;  // the process's number, 0: has still to come; 1: ended, 2: aborted
  static constexpr int most = 8;
  shared_channel channels[1 + 2 * most];
};

class shared_clique {
 public:
  /// Where a communicator that this process names will have its files, or nothing where ranks are threads.
  static std::string new_name() {
    const char* const folder = std::getenv("WEFT_DEVICE_SHARED");
    static int made = 0;
    return folder ? std::string(folder) + "/" + std::to_string(getpid()) + "." + std::to_string(++made) : "";
  }
  shared_clique(std::string name, int ranks, int rank, int card) : name_(std::move(name)), ranks_(ranks), rank_(rank) {
    const int file = open(name_.c_str(), O_RDWR | O_CREAT, 0600);
    const std::size_t bytes = sizeof(shared_member) * static_cast<std::size_t>(ranks);
    void* const at = file >= 0 && ranks <= shared_member::most && ftruncate(file, static_cast<off_t>(bytes)) == 0
                         ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                         : MAP_FAILED;
    if (at == MAP_FAILED) std::perror(name_.c_str()), std::abort();
    close(file);
    members_ = static_cast<shared_member*>(at);
    const char* const machine = std::getenv("NCCL_HOSTID");
    own().machine = machine ? std::hash<std::string>{}(machine) : 0;
    own().card = card;
    own().process = getpid();
  }
  ~shared_clique() { munmap(members_, sizeof(shared_member) * static_cast<std::size_t>(ranks_)); }
  shared_clique(const shared_clique&) = delete;
  shared_clique& operator=(const shared_clique&) = delete;

  int ranks() const { return ranks_; }
  shared_member& at(int r) const { return members_[r]; }
  shared_member& own() const { return at(rank_); }
  bool is_whole() const {
    for (int r = 0; r < ranks_; ++r)
      if (at(r).process == 0) return false;
    return true;
  }
  /// Whose process ended without its communicator; -1: nobody's.
  int dead() const {
    for (int r = 0; r < ranks_; ++r)
      if (at(r).process != 0 && at(r).ended == 0 && !runs(at(r).process)) return r;
    return -1;
  }

  /// An operation of this rank, by its channel and number there.
  struct part {
    int channel = 0;
    std::uint64_t number = 0;
    nccl_call call;
  };
  part give(const nccl_call& call) {
    const int channel = call.pairs() ? 1 + 2 * call.peer + (call.word == nccl_word::send ? 0 : 1) : 0;
    shared_channel& c = own().channels[channel];
    const part p{channel, c.given, call};
    c.calls[p.number % c.remembered] = call;
    ++c.given;
    return p;
  }
  /// f(rank, channel) for each that has a part in it beside this one.
  template <class F>
  void each_other(const part& p, const F& f) const {
    if (p.call.pairs()) return f(p.call.peer, at(p.call.peer).channels[counterpart(p)]);
    for (int r = 0; r < ranks_; ++r)
      if (r != rank_) f(r, at(r).channels[0]);
  }
  bool all(const part& p, std::atomic<std::uint64_t> shared_channel::*count) const {
    bool every = true;
    each_other(p, [&](int, const shared_channel& c) { every = every && c.*count > p.number; });
    return every;
  }
  bool any(const part& p, std::atomic<std::uint64_t> shared_channel::*count) const {
    bool one = false;
    each_other(p, [&](int, const shared_channel& c) { one = one || c.*count > p.number; });
    return one;
  }
  /// This rank's stream has come to it, with these data; what nobody needs any more goes.
  void arrive(const part& p, const void* data, std::size_t bytes) {
    shared_channel& c = own().channels[p.channel];
    if (bytes > 0) {
      std::FILE* const file = std::fopen(file_of(rank_, p.channel, p.number).c_str(), "w");
      if (!file || std::fwrite(data, 1, bytes, file) != bytes || std::fclose(file) != 0)
        std::perror(name_.c_str()), std::abort();
    }
    ++c.arrived;
    std::uint64_t least = p.number;
    each_other(p, [&](int, const shared_channel& other) { least = std::min<std::uint64_t>(least, other.done); });
    kept_.resize(1 + 2 * shared_member::most);
    for (std::uint64_t& first = kept_[static_cast<std::size_t>(p.channel)]; first < least; ++first)
      std::remove(file_of(rank_, p.channel, first).c_str());
  }
  const nccl_call& call_of(const part& p, int r) const {
    return at(r).channels[p.call.pairs() ? counterpart(p) : 0].calls[p.number % shared_channel::remembered];
  }
  std::vector<std::byte> data_of(const part& p, int r, std::size_t bytes) const {
    std::vector<std::byte> data(bytes);
    std::FILE* const file =
        bytes ? std::fopen(file_of(r, p.call.pairs() ? counterpart(p) : 0, p.number).c_str(), "r") : nullptr;
    if (bytes && (!file || std::fread(data.data(), 1, bytes, file) != bytes)) std::perror(name_.c_str()), std::abort();
    if (file) std::fclose(file);
    return data;
  }
  void done(const part& p) { ++own().channels[p.channel].done; }

 private:
  static bool runs(int process) {
    std::FILE* const file = std::fopen(("/proc/" + std::to_string(process) + "/stat").c_str(), "r");
    if (!file) return false;
    char state = 0;
    const bool read = std::fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    std::fclose(file);
    return read && state != 'Z' && state != 'X';
  }
  int counterpart(const part& p) const { return 1 + 2 * rank_ + (p.call.word == nccl_word::send ? 1 : 0); }
  std::string file_of(int r, int channel, std::uint64_t number) const {
    return name_ + "." + std::to_string(r) + "." + std::to_string(channel) + "." + std::to_string(number);
  }

  const std::string name_;
  const int ranks_, rank_;
  shared_member* members_ = nullptr;
  std::vector<std::uint64_t> kept_;  // the first of each channel whose data may lie there
};

}  // namespace device
