// What memory is for, and how much of it there is: the ledger that an arena keeps. Invariant: the categories' bytes in
// use add up to the total, now and when it was highest.
#pragma once

#include <weft/core/requirements.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weft {

/// What a block is for; the memory ledger adds up by these.
enum class memory : std::uint8_t { parameters, gradients, optimizer, activations, buffers, data };
inline constexpr int memory_categories = 6;
inline constexpr std::string_view memory_names[memory_categories] = {"parameters",  "gradients", "optimizer",
                                                                     "activations", "buffers",   "data"};

/// Bytes in use and their highest values, in all and by category.
struct memory_ledger {
  std::array<std::size_t, memory_categories> current{}, peak{};
  std::size_t total = 0, peak_total = 0;
  std::array<std::size_t, memory_categories> at_peak{};  // what each category held when the total was highest
  std::uint64_t peak_made = 0;                           // the number of the allocation that made it so
  std::size_t reserved = 0;                              // taken from the system
  int chunks = 0;                                        // times the system was asked
  std::optional<std::size_t> scratch{};                  // what kernels keep beside that; none: their queue doesn't say
  std::optional<std::size_t> pinned{};  // the host's page-locked memory that a device's copies go through, or lie in
};

}  // namespace weft
