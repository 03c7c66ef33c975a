// Registers that PTX has by name: who a thread is, and of how many. Invariant: the same in every run.
#pragma once

#include <cstdint>
#include <string_view>

namespace device {

struct warp_view;

/// Its number, by which special_value knows it; -1: none, or one that would differ from run to run, as a clock.
int special_called(std::string_view name);
std::uint32_t special_value(const warp_view& v, std::uint32_t which, int lane);

}  // namespace device
