// What the communicator over NCCL takes from NCCL's own header: its types, and its errors as weft::failure.
// Invariant: a call that NCCL goes on with behind its caller has ended where `wait_until_ready` has returned.
#pragma once

#include <weft/core/requirements.hpp>

#if !__has_include(<nccl.h>)
#error "weft: weft/backend/nccl.cuh needs NCCL's nccl.h: link weft::nccl, or name its folder (Debian: libnccl-dev)"
#endif

#include <nccl.h>

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 18, 0)
#error "weft: weft/backend/nccl.cuh needs NCCL 2.18 or later, and the nccl.h that was found is older"
#endif

#include <weft/backend/cuda/error.cuh>
#include <weft/comm/call.hpp>
#include <weft/comm/detail/pause.hpp>

namespace weft::gpu {

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_nccl(ncclResult_t status, const char* call, ncclComm_t of) {
  const char* const last = ncclGetLastError(of);
  fail(call, " failed: ", ncclGetErrorString(status), " (NCCL error ", static_cast<int>(status), ")",
       last && *last ? ": " : "", last ? last : "", "; NCCL_DEBUG=INFO has it say more");
}
/// `of`: the communicator whose words say more; may be null.
inline void check(ncclResult_t status, const char* call, ncclComm_t of = nullptr) {
  if (status != ncclSuccess && status != ncclInProgress) fail_nccl(status, call, of);
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
/// Whether buffers can be registered with a communicator.
inline constexpr bool nccl_registers = true;
#else
inline constexpr bool nccl_registers = false;  // registered_memory() says so: the rest is never called
inline ncclResult_t ncclMemAlloc(void**, std::size_t) { return ncclInvalidUsage; }
inline ncclResult_t ncclMemFree(void*) { return ncclInvalidUsage; }
inline ncclResult_t ncclCommRegister(ncclComm_t, void*, std::size_t, void**) { return ncclInvalidUsage; }
inline ncclResult_t ncclCommDeregister(ncclComm_t, void*) { return ncclInvalidUsage; }
#endif

/// Whether NCCL has done with what `of` was asked for. Asking isn't reading alone: one thread at a time may.
inline bool is_ready(ncclComm_t of, const char* call) {
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(of, &state), "ncclCommGetAsyncError", of);
  check(state, call, of);
  return state == ncclSuccess;
}
/// Waits until it has; between two looks, looks(), which throws where it never will.
template <class Looks>
void wait_until_ready(ncclComm_t of, const char* call, const Looks& looks) {
  for (weft::detail::pause between; !is_ready(of, call); between.after(false)) looks();
}

/// Not blocking: whoever waits can give up.
inline ncclConfig_t nccl_config() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

inline ncclDataType_t nccl_type(dtype type) {
  switch (type) {
    case dtype::f64:
      return ncclFloat64;
    case dtype::f32:
      return ncclFloat32;
    case dtype::bf16:
      return ncclBfloat16;
    case dtype::f16:
      return ncclFloat16;
    case dtype::i64:
      return ncclInt64;
    case dtype::i32:
      return ncclInt32;
    default:
      return ncclUint8;
  }
}
inline ncclRedOp_t nccl_reduction(reduction how) {
  return how == reduction::sum ? ncclSum : how == reduction::max ? ncclMax : ncclMin;
}

}  // namespace weft::gpu
