#include "state.hpp"

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <sstream>

namespace device {
namespace {

settings asked_for() {
  settings s;
  if (const char* const seed = std::getenv("WEFT_DEVICE_SEED")) s.seed = std::strtoull(seed, nullptr, 10);
  if (const char* const most = std::getenv("WEFT_DEVICE_INSTRUCTIONS"))
    s.most_instructions = std::strtoull(most, nullptr, 10);
  s.padding = std::getenv("WEFT_DEVICE_PADDING") != nullptr;
  s.counts = std::getenv("WEFT_DEVICE_COUNTS") != nullptr;
  return s;
}

std::vector<int> asked_cards() {
  std::vector<int> cards;
  if (const char* const visible = std::getenv("WEFT_DEVICE_VISIBLE")) {
    std::istringstream list(visible);
    for (std::string card; std::getline(list, card, ',');) cards.push_back(std::atoi(card.c_str()));
    return cards;
  }
  const char* const count = std::getenv("WEFT_DEVICE_COUNT");
  cards.resize(static_cast<std::size_t>(count ? std::atoi(count) : 1));
  std::iota(cards.begin(), cards.end(), 0);
  return cards;
}

}  // namespace

state::state() : seed(asked_for().seed), gpu(asked_for()), cards(asked_cards()) {
  devices = static_cast<int>(cards.size());
}
state::~state() {
  {
    held_lock held(lock);
    work.stop(held);
  }
  std::cout.flush();
  std::fflush(nullptr);
  if (!gpu.counts().empty()) std::fprintf(stderr, "%s", table_of(gpu.counts()).c_str());
  std::fprintf(stderr, "device on the host: %llu launches, %llu instructions of warps, %zu findings\n",
               static_cast<unsigned long long>(gpu.launches()), static_cast<unsigned long long>(gpu.instructions()),
               gpu.findings().size());
  changed.tell();
  for (const std::string& finding : gpu.findings()) std::fprintf(stderr, "finding: %s\n", finding.c_str());
  if (!gpu.findings().empty()) std::_Exit(97);
}
refusal state::give(streams::name stream, const char* kind, std::function<void(held_lock&)> piece) {
  if (kept.captures_on(stream)) return ++called.captured, kept.add(stream, {kind, std::move(piece)});
  if (!stream)
    if (const refusal why = kept.by_default_stream(); why != refusal::none) return why;
  ++called.plain;
  work.give(stream, std::move(piece));
  return refusal::none;
}
refusal state::give_host(streams::name stream, std::function<void()> f) {
  if (!kept.captures_on(stream)) return ++called.plain, work.give_host(lock, stream, std::move(f)), refusal::none;
  ++called.captured;
  return kept.add(stream, {"host function", streams::unlocked(std::move(f)), true});
}
state& the_device() {
  static state one;
  return one;
}
int& chosen_device() {
  thread_local int chosen = 0;
  return chosen;
}
bool require_inside(int device, const void* at, std::size_t bytes, const std::string& call) {
  machine& gpu = the_device().gpu;
  const auto say = [&](const std::string& what) {
    gpu.find_fault(call + ": " + std::to_string(bytes) + " bytes " + what);
    return false;
  };
  if (!gpu.inside(at, bytes)) return say("aren't within one allocation of the device");
  const tracked* const of = gpu.find(reinterpret_cast<std::uint64_t>(at));
  if (of && of->device >= 0 && of->device != device)
    return say("of device " + std::to_string(of->device) + " are touched on device " + std::to_string(device));
  return true;
}

}  // namespace device
