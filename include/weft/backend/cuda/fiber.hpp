// Several stacks that take turns on one host thread. Invariant: a fiber runs until it leaves or returns; sanitizers are
// told of every change of stacks.
#pragma once

#include <weft/core/requirements.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#if !__has_include(<ucontext.h>)
#error "weft: CUDA's kernels run on the host by <ucontext.h>, which this system doesn't have"
#endif
#include <ucontext.h>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_DETAIL_FIBERS_ASAN
#endif
#if __has_feature(thread_sanitizer)
#define WEFT_DETAIL_FIBERS_TSAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define WEFT_DETAIL_FIBERS_ASAN
#endif
#if defined(__SANITIZE_THREAD__)
#define WEFT_DETAIL_FIBERS_TSAN
#endif
#if defined(WEFT_DETAIL_FIBERS_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(WEFT_DETAIL_FIBERS_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace weft::gpu::detail {

class fibers {
 public:
  /// `count` fibers, each of which calls body(number) when it is resumed first. The body throws nothing.
  fibers(int count, std::function<void(int)> body)
      : body_(std::move(body)),
        stacks_(new std::byte[static_cast<std::size_t>(count) * stack_bytes]),
        all_(static_cast<std::size_t>(count)) {
    for (int i = 0; i < count; ++i) begin(i);
  }
  fibers(const fibers&) = delete;
  fibers& operator=(const fibers&) = delete;
#if defined(WEFT_DETAIL_FIBERS_TSAN)
  ~fibers() {
    for (one& f : all_) __tsan_destroy_fiber(f.known_as);
  }
#endif

  bool ended(int i) const { return all_[at(i)].ended; }
  /// Goes on in fiber i until it leaves or its body returns. Not from a fiber.
  void resume(int i) {
    one& to = all_[at(i)];
#if defined(WEFT_DETAIL_FIBERS_ASAN)
    __sanitizer_start_switch_fiber(&caller_fake_, stack(i), stack_bytes);
#endif
#if defined(WEFT_DETAIL_FIBERS_TSAN)
    caller_known_as_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to.known_as, 0);
#endif
    swapcontext(&caller_, &to.context);
#if defined(WEFT_DETAIL_FIBERS_ASAN)
    __sanitizer_finish_switch_fiber(caller_fake_, nullptr, nullptr);
#endif
  }
  /// Goes back to who resumed fiber i, which is the one that runs.
  void leave(int i) {
    one& from = all_[at(i)];
    depart(&from.fake);
    swapcontext(&from.context, &caller_);
    arrive(from.fake);
  }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{256} << 10;
  struct one {
    ucontext_t context;
    bool ended = false;
    [[maybe_unused]] void* fake = nullptr;      // AddressSanitizer's stack of this one
    [[maybe_unused]] void* known_as = nullptr;  // to ThreadSanitizer
  };
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  std::byte* stack(int i) const { return stacks_.get() + at(i) * stack_bytes; }

  void begin(int i) {
    one& f = all_[at(i)];
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = stack(i);
    f.context.uc_stack.ss_size = stack_bytes;
    f.context.uc_link = &caller_;
    const auto self = reinterpret_cast<std::uintptr_t>(this);  // makecontext hands on ints
    makecontext(&f.context, reinterpret_cast<void (*)()>(enter), 3, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self), i);
#if defined(WEFT_DETAIL_FIBERS_TSAN)
    f.known_as = __tsan_create_fiber(0);
#endif
  }
  static void enter(unsigned high, unsigned low, int i) {
    auto* const self = reinterpret_cast<fibers*>(static_cast<std::uintptr_t>(high) << 32 | low);
    self->arrive(nullptr);
    self->body_(i);
    self->all_[at(i)].ended = true;
    self->depart(nullptr);
    setcontext(&self->caller_);  // and never returns: ThreadSanitizer counts returns by stack
  }
  // `fake` is null where a fiber leaves for good, and where it runs first.
  [[gnu::always_inline]] void depart([[maybe_unused]] void** fake) {
#if defined(WEFT_DETAIL_FIBERS_ASAN)
    __sanitizer_start_switch_fiber(fake, caller_stack_, caller_bytes_);
#endif
#if defined(WEFT_DETAIL_FIBERS_TSAN)
    __tsan_switch_to_fiber(caller_known_as_, 0);
#endif
  }
  [[gnu::always_inline]] void arrive([[maybe_unused]] void* fake) {
#if defined(WEFT_DETAIL_FIBERS_ASAN)
    __sanitizer_finish_switch_fiber(fake, &caller_stack_, &caller_bytes_);
#endif
  }

  std::function<void(int)> body_;
  std::unique_ptr<std::byte[]> stacks_;
  std::vector<one> all_;
  ucontext_t caller_{};
#if defined(WEFT_DETAIL_FIBERS_ASAN)
  void* caller_fake_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_bytes_ = 0;
#endif
#if defined(WEFT_DETAIL_FIBERS_TSAN)
  void* caller_known_as_ = nullptr;
#endif
};

}  // namespace weft::gpu::detail
