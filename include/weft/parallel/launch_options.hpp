// What a launch may be told. Invariant: an option that isn't named costs a program nothing to compile.
#pragma once

#include <concepts>
#include <cstdint>

#include <weft/comm/any.hpp>
#include <weft/comm/traced.hpp>

namespace weft {

/// Where a launch writes its collectives: nowhere, or in a log for at least as many ranks. What does it is compiled
/// only in a program that names a log.
class trace_target {
 public:
  trace_target() = default;
  template <std::same_as<trace_log> Log>
  trace_target(Log* log)
      : log_(log), wrap_([](const any_communicator& world, trace_log& to) -> any_communicator {
          return traced<any_communicator>(world, to);
        }) {}

  /// `world`, recorded where there is a log.
  any_communicator over(const any_communicator& world) const { return log_ ? wrap_(world, *log_) : world; }

 private:
  trace_log* log_ = nullptr;
  any_communicator (*wrap_)(const any_communicator&, trace_log&) = nullptr;
};

/// Whether ranks compare what types say they hold alike, unless launch_options.check says otherwise: in a program that
/// is compiled without optimisation, and not with NDEBUG. -DWEFT_CHECK=1 or =0 decides it.
#if !defined(WEFT_CHECK) && (defined(__OPTIMIZE__) || defined(NDEBUG))
inline constexpr bool check_by_default = false;
#elif !defined(WEFT_CHECK)
inline constexpr bool check_by_default = true;
#else
inline constexpr bool check_by_default = WEFT_CHECK != 0;
#endif

/// What a launch may be told beside the degrees. seed: of every random number of the run.
struct launch_options {
  std::uint64_t seed = 1;
  int threads_per_rank = 1;  // cores that each rank's kernels use
  bool record = true;        // whether operators are recorded for backward
  trace_target trace = {};   // a trace_log's address, where every collective is to be written
  /// Whether what types say is the same on every rank is compared where it is used so (docs/check.md), and what ranks
  /// call, where the communicator compares it only if it is asked to.
  bool check = check_by_default;
  /// Whether tensors lie in memory that the communicator registers, so that collectives need no copies in between:
  /// `nccl` and `nccl_mpi` beside cuda_backend have such (docs/policies/communicator.md); others are refused.
  bool registered_buffers = false;
};

}  // namespace weft
