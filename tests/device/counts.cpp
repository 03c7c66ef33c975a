// What a kernel asks of memory, counted.
#include "counts.hpp"

#include <algorithm>
#include <array>
#include <cxxabi.h>
#include <iomanip>
#include <memory>
#include <set>
#include <sstream>

#include "lanes.hpp"

namespace device {
namespace {

std::uint64_t parts(std::uint64_t whole, std::uint64_t part) { return (whole + part - 1) / part; }

// weft::gpu::run_on_device<K>(K) is called K, and any other kernel by its name, both without their namespaces.
std::string name_of(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> read(abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  std::string name = status == 0 ? read.get() : mangled;
  if (const auto at = name.find("run_on_device<"); at != std::string::npos) {
    name.erase(0, at + std::string("run_on_device<").size());
    if (const auto end = name.rfind(">("); end != std::string::npos) name.erase(end);
  }
  for (const std::string place : {"(anonymous namespace)::", "weft::gpu::", "weft::"})
    for (auto at = name.find(place); at != std::string::npos; at = name.find(place)) name.erase(at, place.size());
  return name;
}

}  // namespace

void touched_sectors::add(const std::uint64_t* at, std::uint32_t mask, int bytes, bool reads, bool writes) {
  each_lane(mask, [&](int l) {
    for (std::uint64_t s = at[l] / 32; s <= (at[l] + static_cast<std::uint64_t>(bytes) - 1) / 32; ++s) {
      if (reads) read.insert(s);
      if (writes) written.insert(s);
    }
  });
}

void count_sectors(served& in, const std::uint64_t* at, std::uint32_t mask, int bytes) {
  std::set<std::uint64_t> sectors, places;
  each_lane(mask, [&](int l) {
    places.insert(at[l]);
    for (std::uint64_t s = at[l] / 32; s <= (at[l] + static_cast<std::uint64_t>(bytes) - 1) / 32; ++s)
      sectors.insert(s);
  });
  const std::uint64_t asked = places.size() * static_cast<std::uint64_t>(bytes);
  ++in.requests, in.took += sectors.size(), in.least += parts(asked, 32), in.bytes += asked;
}

void count_wavefronts(served& in, const std::uint64_t* at, std::uint32_t mask, int bytes) {
  const int at_once = bytes <= 4 ? lanes : lanes * 4 / bytes;
  std::set<std::uint64_t> all;
  std::uint64_t groups = 0;
  for (int first = 0; first < lanes; first += at_once) {
    std::set<std::uint64_t> words;
    std::array<std::uint64_t, 32> of_bank{};
    each_lane(mask, [&](int l) {
      if (l < first || l >= first + at_once) return;
      for (std::uint64_t w = at[l] / 4; w <= (at[l] + static_cast<std::uint64_t>(bytes) - 1) / 4; ++w)
        if (words.insert(w).second) ++of_bank[w % 32];
    });
    in.took += *std::max_element(of_bank.begin(), of_bank.end());
    groups += !words.empty();
    all.insert(words.begin(), words.end());
  }
  ++in.requests, in.least += std::max(parts(all.size(), 32), groups), in.bytes += all.size() * 4;
}

std::string table_of(const std::map<std::string, kernel_counts>& kernels) {
  std::ostringstream out;
  const auto row = [&](const std::string& name, const auto&... cells) {
    out << "| " << std::left << std::setw(32) << name << std::right;
    ((out << " | " << std::setw(cells.first) << cells.second), ...);
    out << " |\n";
  };
  using cell = std::pair<int, std::string>;
  const auto both = [](const served& s) { return cell{17, std::to_string(s.took) + " / " + std::to_string(s.least)}; };
  const auto number = [](int width, std::uint64_t n) { return cell{width, std::to_string(n)}; };
  row("kernel", cell{8, "launches"}, cell{7, "threads"}, cell{7, "shared"}, cell{12, "instructions"},
      cell{12, "tensor cores"}, cell{17, "sectors loaded"}, cell{17, "stored"}, cell{17, "wavefronts"},
      cell{10, "bytes"});
  out << "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const auto& [name, k] : kernels)
    row(name_of(name), number(8, k.launches), number(7, k.threads), number(7, k.block_bytes),
        number(12, k.instructions), number(12, k.products), both(k.loads), both(k.stores), both(k.shared),
        number(10, k.moved_bytes));
  return out.str();
}

}  // namespace device
