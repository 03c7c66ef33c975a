// A function as an argument, for who calls it before it returns: so that what takes one is no template.
// Invariant: it looks at the function and keeps nothing.
#pragma once

#include <weft/core/requirements.hpp>

#include <memory>
#include <type_traits>

namespace weft {

template <class Signature>
class function_ref;
template <class R, class... A>
class function_ref<R(A...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, function_ref>) function_ref(F&& f)
      : f_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))), call_([](void* at, A... a) -> R {
          if constexpr (std::is_void_v<R>)
            static_cast<void>((*static_cast<std::remove_reference_t<F>*>(at))(static_cast<A&&>(a)...));
          else
            return (*static_cast<std::remove_reference_t<F>*>(at))(static_cast<A&&>(a)...);
        }) {}
  R operator()(A... a) const { return call_(f_, static_cast<A&&>(a)...); }

 private:
  void* f_;
  R (*call_)(void*, A...);
};

}  // namespace weft
