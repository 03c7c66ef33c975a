// Memory of the device, and what is wrong with an access to it.
#include "machine.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

namespace device {
namespace {

// Around each allocation, so that no two touch.
constexpr std::size_t apart = 256;
void free_bytes(std::uint64_t at) { ::operator delete (reinterpret_cast<void*>(at), std::align_val_t{apart}); }
std::string number(std::uint64_t x) { return std::to_string(x); }

}  // namespace

void tracked::refine(std::uint64_t size) {
  if (touches.empty()) {
    while (grain > 0 && size % (1u << grain)) --grain;
    touches.resize((bytes >> grain) + 1);
    return;
  }
  while (grain > 0 && size % (1u << grain)) {
    --grain;
    std::vector<touched> finer((bytes >> grain) + 1);
    for (std::size_t i = 0; i < finer.size(); ++i) finer[i] = touches[i / 2];
    touches = std::move(finer);
  }
}

machine::~machine() {
  for (const auto& [at, t] : allocations_) free_bytes(at);
}

void* machine::allocate(std::size_t bytes, int device) {
  void* const at = ::operator new (bytes + 2 * apart, std::align_val_t{apart}, std::nothrow);
  if (!at) return nullptr;
  std::memset(at, 0xff, bytes);
  tracked t;
  t.base = reinterpret_cast<std::uint64_t>(at), t.bytes = bytes, t.device = device;
  t.written.assign(bytes, 0);
  allocations_[t.base] = std::move(t);
  last_ = nullptr;
  return at;
}
std::size_t machine::allocated(int device) const {
  std::size_t bytes = 0;
  for (const auto& [base, of] : allocations_) bytes += of.device == device ? of.bytes : 0;
  return bytes;
}
bool machine::release(void* at) {
  const auto found = allocations_.find(reinterpret_cast<std::uint64_t>(at));
  if (found == allocations_.end()) return false;
  free_bytes(found->first);
  allocations_.erase(found);
  last_ = nullptr;
  return true;
}
std::uint64_t machine::hold(const variable& v) {
  void* const at = allocate(static_cast<std::size_t>(v.bytes));
  if (!at) throw refused("there is no memory for a variable of the program");
  std::memcpy(at, v.first.data(), v.first.size());
  mark_written(at, v.first.size());
  return reinterpret_cast<std::uint64_t>(at);
}

tracked* machine::find(std::uint64_t address) {
  if (last_ && last_->has(address, 1)) return last_;
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin() || !(--after)->second.has(address, 1)) return nullptr;
  return last_ = &after->second;
}
bool machine::inside(const void* at, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uint64_t>(at);
  const tracked* const t = find(address);
  return t && t->has(address, bytes);
}
bool machine::all_written(const void* at, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uint64_t>(at);
  const tracked* const t = find(address);
  return t && t->has(address, bytes) && !std::memchr(t->written.data() + (address - t->base), 0, bytes);
}
void machine::mark_written(const void* at, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uint64_t>(at);
  if (tracked* const t = bytes ? find(address) : nullptr)
    std::memset(t->written.data() + (address - t->base), 1, bytes);
}
void machine::copy_marks(const void* from, const void* to, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uint64_t>(from), into = reinterpret_cast<std::uint64_t>(to);
  const tracked* const a = find(at);
  tracked* const b = find(into);
  if (a && b) std::memmove(b->written.data() + (into - b->base), a->written.data() + (at - a->base), bytes);
}

// Whether what touched these bytes before is behind this access: by the same thread, or with a barrier between.
void machine::judge_order(warp_view& v, tracked& t, std::uint64_t at, int bytes, int lane, unsigned how, bool global) {
  const std::uint64_t size = static_cast<std::uint64_t>(bytes);
  if (t.touches.empty() || size % (1u << t.grain) || at % (1u << t.grain)) t.refine(size | at);
  const std::uint32_t threads = static_cast<std::uint32_t>(v.in->warps.size()) * lanes;
  const std::uint32_t first = v.first_thread + (global ? static_cast<std::uint32_t>(v.in->number) * threads : 0);
  const auto own = static_cast<std::uint32_t>(v.own->number);
  const std::uint32_t me = first + own * lanes + static_cast<std::uint32_t>(lane), clock = v.own->seen[own];
  const auto behind = [&](std::uint32_t thread, std::uint32_t then) {
    if (thread == me || thread < v.first_thread) return true;
    if (thread < first || thread >= first + threads) return false;  // of another block
    const std::uint32_t of = (thread - first) / lanes;
    return of == own ? then < clock : v.own->seen[of] >= then;
  };
  const auto say = [&](int fault, const char* what, std::uint32_t other, const char* did, std::uint64_t byte) {
    const std::uint32_t thread = other - v.first_thread;
    v.report(lane, fault,
             std::string("a race in ") + (global ? "global" : "shared") + " memory: " + what + " byte " + number(byte) +
                 ", which thread " + number(thread % threads) +
                 (global ? " of block " + number(thread / threads) : std::string()) + did +
                 ", with no barrier between");
  };
  for (std::uint64_t i = at >> t.grain; i <= (at + size - 1) >> t.grain; ++i) {
    touched& x = t.touches[i];
    const std::uint64_t byte = i << t.grain;
    if (x.writer && !((how & atomic) && x.by_atomic) && !behind(x.writer, x.written)) {
      say(how & writes ? 10 : 11, how & writes ? "it writes" : "it reads", x.writer, " wrote", byte);
      x.writer = 0;
    }
    if (!global && (how & by_proxy) && x.writer >= first && x.writer < first + threads && !x.by_proxy) {
      const std::uint32_t of = (x.writer - first) / lanes;
      if (v.own->fenced[of] < x.written)
        v.report(lane, 13,
                 "shared memory that thread " + number(x.writer - first) +
                     " wrote by ordinary stores is taken by wgmma or TMA, byte " + number(byte) +
                     ", with no fence.proxy.async between");
    }
    if ((how & writes) && x.reader && !((how & atomic) && x.read_by_atomic) && !behind(x.reader, x.read)) {
      say(12, "it writes", x.reader, " read", byte);
      x.reader = 0;
    }
    if (how & writes)
      x.writer = me, x.written = clock, x.by_atomic = (how & atomic) != 0, x.by_proxy = (how & by_proxy) != 0;
    else
      x.reader = me, x.read = clock, x.read_by_atomic = (how & atomic) != 0;
  }
}

std::uint8_t* machine::wrong() {
  alignas(64) static std::uint8_t nobody[64];
  return nobody;
}

std::uint8_t* machine::memory_for(warp_view& v, space in, std::uint64_t address, int bytes, int lane, unsigned how) {
  const auto size = static_cast<std::uint64_t>(bytes);
  if (in == space::parameter && address < v.code->parameter_bytes)
    address += reinterpret_cast<std::uint64_t>(v.parameters);
  if ((in == space::generic || in == space::shared) && (address & window_bits) == (shared_window & window_bits))
    in = space::shared, address -= shared_window;
  if (address % size) {
    v.report(lane, 1, "an access of " + number(size) + " bytes is misaligned, at " + number(address % size) + " past");
    return wrong();
  }
  if (in == space::shared) {
    tracked& t = v.in->shared;
    if (!t.has(address, size)) {
      v.report(lane, 2, "out of bounds in shared memory: byte " + number(address) + " of " + number(t.bytes));
      return wrong();
    }
    if ((how & writes) && v.in->in_flight_chunks)
      for (std::uint64_t c = address / 16; c <= (address + size - 1) / 16; ++c)
        if (v.in->in_flight[c]) {
          v.report(lane, 14, "shared memory is written that a wgmma in flight reads: byte " + number(address));
          break;
        }
    judge_order(v, t, address, bytes, lane, how, false);
    if (how & reads)
      if (const void* const hole = std::memchr(t.written.data() + address, 0, size))
        v.report(lane, 3,
                 "shared memory is read before it was written: byte " +
                     number(static_cast<std::uint64_t>(static_cast<const std::uint8_t*>(hole) - t.written.data())));
    if (how & writes) std::memset(t.written.data() + address, how & unfinished ? 0 : 1, size);
    return v.in->shared_bytes.data() + address;
  }
  // What only one thread sees, or nobody writes.
  const auto within = [&](const void* base, std::uint64_t all) {
    return address - reinterpret_cast<std::uint64_t>(base) < all &&
           address - reinterpret_cast<std::uint64_t>(base) + size <= all;
  };
  const std::uint64_t of_thread = v.code->local_bytes;
  if (of_thread && in != space::global &&
      within(v.in->local.data() + static_cast<std::size_t>(v.own->number * lanes + lane) * of_thread, of_thread))
    return reinterpret_cast<std::uint8_t*>(address);
  if (in != space::local && !(how & writes) && within(v.parameters, v.code->parameter_bytes))
    return reinterpret_cast<std::uint8_t*>(address);
  tracked* const t = in == space::generic || in == space::global ? find(address) : nullptr;
  if (!t || !t->has(address, size)) {
    std::string where = "there is no allocation";
    const auto after = allocations_.upper_bound(address);
    if (after != allocations_.begin()) {
      const tracked& before = std::prev(after)->second;
      if (address - before.base < before.bytes + 65536)
        where = "byte " + number(address - before.base) + " of an allocation of " + number(before.bytes);
    }
    v.report(lane, 4,
             std::string("out of bounds in ") +
                 (in == space::local       ? "local"
                  : in == space::parameter ? "parameter"
                                           : "global") +
                 " memory: " + where);
    return wrong();
  }
  const std::uint64_t at = address - t->base;
  if (t->device >= 0 && t->device != runs_on)
    v.report(lane, 6,
             "a kernel on device " + number(static_cast<std::uint64_t>(runs_on)) + " touches memory of device " +
                 number(static_cast<std::uint64_t>(t->device)));
  judge_order(v, *t, at, bytes, lane, how, true);
  if ((how & reads) && !set_.padding)
    if (const void* const hole = std::memchr(t->written.data() + at, 0, size))
      v.report(lane, 5,
               "global memory is read before it was written: byte " +
                   number(static_cast<std::uint64_t>(static_cast<const std::uint8_t*>(hole) - t->written.data())) +
                   " of an allocation of " + number(t->bytes));
  if (how & writes) std::memset(t->written.data() + at, 1, size);
  return reinterpret_cast<std::uint8_t*>(address);
}

void machine::count_request(space in, const std::uint64_t* at, std::uint32_t mask, int bytes, unsigned access) {
  const std::uint64_t first = at[std::countr_zero(mask)];
  if (in == space::generic && (first & window_bits) == (shared_window & window_bits)) in = space::shared;
  if (in == space::shared) return count_wavefronts(counted_->shared, at, mask, bytes);
  if (in != space::global && !(in == space::generic && find(first))) return;  // parameters and a thread's own
  sectors_.add(at, mask, bytes, access & reads, access & writes);
  if (access & reads) count_sectors(counted_->loads, at, mask, bytes);
  if (access & writes) count_sectors(counted_->stores, at, mask, bytes);
}

void machine::find_fault(const std::string& sentence) {
  if (findings_.size() < set_.most_findings) findings_.push_back(sentence);
}

void warp_view::report(int lane, int fault, const std::string& sentence) {
  const instruction& in = code->code[static_cast<std::size_t>(at)];
  if (!device->said_.insert({&in, fault}).second) return;
  std::string where;
  for (int p = in.place; p >= 0; p = code->places[static_cast<std::size_t>(p)].called_from) {
    const place& here = code->places[static_cast<std::size_t>(p)];
    where += (where.empty() ? "" : ", called from ") + unit->file(here.file) + ":" + std::to_string(here.line);
  }
  device->find_fault(sentence + "\n    at " + where + "\n    block " + std::to_string(in_block().x) + "," +
                     std::to_string(in_block().y) + "," + std::to_string(in_block().z) + ", warp " +
                     std::to_string(own->number) + ", lane " + std::to_string(lane) + ": " + in.text + "\n    in " +
                     code->name);
}

}  // namespace device
