// A value for a while. Invariant: what was there before is there again at the end, by whatever way it comes.
#pragma once

#include <weft/core/requirements.hpp>

#include <utility>

namespace weft {

/// Gives `place` another value for the life of the object.
template <class T>
class scoped_value {
 public:
  scoped_value(T& place, T now) : place_(place), before_(std::exchange(place, std::move(now))) {}
  ~scoped_value() { place_ = std::move(before_); }
  scoped_value(const scoped_value&) = delete;
  scoped_value& operator=(const scoped_value&) = delete;

 private:
  T& place_;
  T before_;
};

}  // namespace weft
