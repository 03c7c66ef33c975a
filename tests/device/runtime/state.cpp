#include "state.hpp"

#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace device {
namespace {

settings asked_for() {
  settings s;
  if (const char* const seed = std::getenv("WEFT_DEVICE_SEED")) s.seed = std::strtoull(seed, nullptr, 10);
  if (const char* const most = std::getenv("WEFT_DEVICE_INSTRUCTIONS"))
    s.most_instructions = std::strtoull(most, nullptr, 10);
  s.padding = std::getenv("WEFT_DEVICE_PADDING") != nullptr;
  return s;
}

}  // namespace

state::state() : gpu(asked_for()) {}
state::~state() {
  {
    held_lock held(lock);
    work.stop(held);
  }
  std::cout.flush();
  std::fflush(nullptr);
  std::fprintf(stderr, "device on the host: %llu launches, %llu instructions of warps, %zu findings\n",
               static_cast<unsigned long long>(gpu.launches()), static_cast<unsigned long long>(gpu.instructions()),
               gpu.findings().size());
  changed.tell();
  for (const std::string& finding : gpu.findings()) std::fprintf(stderr, "finding: %s\n", finding.c_str());
  if (!gpu.findings().empty()) std::_Exit(97);
}
state& the_device() {
  static state one;
  return one;
}

}  // namespace device
