// One type for every communicator, so that code behind it is compiled once.
// Invariant: it does what the communicator inside does; a collective of one rank makes no virtual call, and no trace.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "weft/comm/concept.hpp"
#include "weft/comm/detail/check.hpp"
#include "weft/comm/single_rank.hpp"

namespace weft {

/// Holds any communicator; a default one holds `self`. Satisfies `communicator`, not `communicator_policy`: it can't
/// start ranks. Copies share what they hold.
class any_communicator {
 public:
  any_communicator() : any_communicator(single_rank()) {}
  template <class C>
  requires(!std::same_as<C, any_communicator> && communicator<C>) any_communicator(C inner)
      : rank_(inner.rank()), size_(inner.size()) {
    held_ = std::make_shared<model<C>>(std::move(inner));
  }

  int rank() const { return rank_; }
  int size() const { return size_; }

  request all_reduce(const void* in, void* out, std::int64_t count, dtype type, reduction how,
                     const collective_label& label = {}) {
    if (size_ > 1) return held_->all_reduce(in, out, count, type, how, label);
    return detail::copy_alone("all_reduce", in, out, count, static_cast<std::int64_t>(size_of(type)));
  }
  request all_gather(const void* in, void* out, std::int64_t bytes, const collective_label& label = {}) {
    return size_ > 1 ? held_->all_gather(in, out, bytes, label) : detail::copy_alone("all_gather", in, out, bytes, 1);
  }
  request reduce_scatter(const void* in, void* out, std::int64_t count, dtype type, reduction how,
                         const collective_label& label = {}) {
    if (size_ > 1) return held_->reduce_scatter(in, out, count, type, how, label);
    return detail::copy_alone("reduce_scatter", in, out, count, static_cast<std::int64_t>(size_of(type)));
  }
  request all_to_all(const void* in, void* out, std::int64_t bytes, const collective_label& label = {}) {
    return size_ > 1 ? held_->all_to_all(in, out, bytes, label) : detail::copy_alone("all_to_all", in, out, bytes, 1);
  }
  request broadcast(void* buffer, std::int64_t bytes, int root, const collective_label& label = {}) {
    if (size_ > 1) return held_->broadcast(buffer, bytes, root, label);
    detail::check_peer("broadcast", root, 1);
    return detail::copy_alone("broadcast", buffer, buffer, bytes, 1);
  }
  request send(const void* in, std::int64_t bytes, int to, const collective_label& label = {}) {
    return held_->send(in, bytes, to, label);
  }
  request recv(void* out, std::int64_t bytes, int from, const collective_label& label = {}) {
    return held_->recv(out, bytes, from, label);
  }
  request barrier(const collective_label& label = {}) { return size_ > 1 ? held_->barrier(label) : request(); }
  any_communicator split(int color, int key, const char* name) { return held_->split(color, key, name); }

 private:
  struct interface {
    virtual ~interface() = default;
    virtual request all_reduce(const void*, void*, std::int64_t, dtype, reduction, const collective_label&) = 0;
    virtual request all_gather(const void*, void*, std::int64_t, const collective_label&) = 0;
    virtual request reduce_scatter(const void*, void*, std::int64_t, dtype, reduction, const collective_label&) = 0;
    virtual request all_to_all(const void*, void*, std::int64_t, const collective_label&) = 0;
    virtual request broadcast(void*, std::int64_t, int, const collective_label&) = 0;
    virtual request send(const void*, std::int64_t, int, const collective_label&) = 0;
    virtual request recv(void*, std::int64_t, int, const collective_label&) = 0;
    virtual request barrier(const collective_label&) = 0;
    virtual any_communicator split(int, int, const char*) = 0;
  };
  template <class C>
  struct model final : interface {
    explicit model(C c) : inner(std::move(c)) {}
    request all_reduce(const void* in, void* out, std::int64_t count, dtype type, reduction how,
                       const collective_label& label) override {
      return inner.all_reduce(in, out, count, type, how, label);
    }
    request all_gather(const void* in, void* out, std::int64_t bytes, const collective_label& label) override {
      return inner.all_gather(in, out, bytes, label);
    }
    request reduce_scatter(const void* in, void* out, std::int64_t count, dtype type, reduction how,
                           const collective_label& label) override {
      return inner.reduce_scatter(in, out, count, type, how, label);
    }
    request all_to_all(const void* in, void* out, std::int64_t bytes, const collective_label& label) override {
      return inner.all_to_all(in, out, bytes, label);
    }
    request broadcast(void* buffer, std::int64_t bytes, int root, const collective_label& label) override {
      return inner.broadcast(buffer, bytes, root, label);
    }
    request send(const void* in, std::int64_t bytes, int to, const collective_label& label) override {
      return inner.send(in, bytes, to, label);
    }
    request recv(void* out, std::int64_t bytes, int from, const collective_label& label) override {
      return inner.recv(out, bytes, from, label);
    }
    request barrier(const collective_label& label) override { return inner.barrier(label); }
    any_communicator split(int color, int key, const char* name) override { return inner.split(color, key, name); }
    C inner;
  };

  std::shared_ptr<interface> held_;
  int rank_, size_;
};

}  // namespace weft
