// One type for every communicator, so that code behind it is compiled once.
// Invariant: it does what the communicator inside does; a collective of one rank makes no virtual call, and no trace.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "weft/comm/concept.hpp"
#include "weft/comm/detail/check.hpp"
#include "weft/comm/self.hpp"

namespace weft {

/// Holds any communicator; a default one holds `self`. Satisfies `communicator`, not `communicator_policy`: it can't
/// start ranks. Copies share what they hold.
class any_communicator {
 public:
  any_communicator() : any_communicator(self()) {}
  template <class C>
  requires(!std::same_as<C, any_communicator> && communicator<C>) any_communicator(C inner)
      : rank_(inner.rank()), size_(inner.size()) {
    held_ = std::make_shared<model<C>>(std::move(inner));
  }

  int rank() const { return rank_; }
  int size() const { return size_; }

  request all_reduce(const void* in, void* out, std::int64_t count, dtype type, reduction how) {
    if (size_ > 1) return held_->all_reduce(in, out, count, type, how);
    return detail::copy_alone("all_reduce", in, out, count, static_cast<std::int64_t>(size_of(type)));
  }
  request all_gather(const void* in, void* out, std::int64_t bytes) {
    return size_ > 1 ? held_->all_gather(in, out, bytes) : detail::copy_alone("all_gather", in, out, bytes, 1);
  }
  request reduce_scatter(const void* in, void* out, std::int64_t count, dtype type, reduction how) {
    if (size_ > 1) return held_->reduce_scatter(in, out, count, type, how);
    return detail::copy_alone("reduce_scatter", in, out, count, static_cast<std::int64_t>(size_of(type)));
  }
  request all_to_all(const void* in, void* out, std::int64_t bytes) {
    return size_ > 1 ? held_->all_to_all(in, out, bytes) : detail::copy_alone("all_to_all", in, out, bytes, 1);
  }
  request broadcast(void* buffer, std::int64_t bytes, int root) {
    if (size_ > 1) return held_->broadcast(buffer, bytes, root);
    detail::check_peer("broadcast", root, 1);
    return detail::copy_alone("broadcast", buffer, buffer, bytes, 1);
  }
  request send(const void* in, std::int64_t bytes, int to) { return held_->send(in, bytes, to); }
  request recv(void* out, std::int64_t bytes, int from) { return held_->recv(out, bytes, from); }
  request barrier() { return size_ > 1 ? held_->barrier() : request(); }
  any_communicator split(int color, int key, const char* label) { return held_->split(color, key, label); }

 private:
  struct interface {
    virtual ~interface() = default;
    virtual request all_reduce(const void*, void*, std::int64_t, dtype, reduction) = 0;
    virtual request all_gather(const void*, void*, std::int64_t) = 0;
    virtual request reduce_scatter(const void*, void*, std::int64_t, dtype, reduction) = 0;
    virtual request all_to_all(const void*, void*, std::int64_t) = 0;
    virtual request broadcast(void*, std::int64_t, int) = 0;
    virtual request send(const void*, std::int64_t, int) = 0;
    virtual request recv(void*, std::int64_t, int) = 0;
    virtual request barrier() = 0;
    virtual any_communicator split(int, int, const char*) = 0;
  };
  template <class C>
  struct model final : interface {
    explicit model(C c) : inner(std::move(c)) {}
    request all_reduce(const void* in, void* out, std::int64_t count, dtype type, reduction how) override {
      return inner.all_reduce(in, out, count, type, how);
    }
    request all_gather(const void* in, void* out, std::int64_t bytes) override {
      return inner.all_gather(in, out, bytes);
    }
    request reduce_scatter(const void* in, void* out, std::int64_t count, dtype type, reduction how) override {
      return inner.reduce_scatter(in, out, count, type, how);
    }
    request all_to_all(const void* in, void* out, std::int64_t bytes) override {
      return inner.all_to_all(in, out, bytes);
    }
    request broadcast(void* buffer, std::int64_t bytes, int root) override {
      return inner.broadcast(buffer, bytes, root);
    }
    request send(const void* in, std::int64_t bytes, int to) override { return inner.send(in, bytes, to); }
    request recv(void* out, std::int64_t bytes, int from) override { return inner.recv(out, bytes, from); }
    request barrier() override { return inner.barrier(); }
    any_communicator split(int color, int key, const char* label) override { return inner.split(color, key, label); }
    C inner;
  };

  std::shared_ptr<interface> held_;
  int rank_, size_;
};

}  // namespace weft
