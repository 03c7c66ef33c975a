// The tensor: element type, named dimensions and placement as one type, over a value without any of them.
// Invariant: the type alone says what every rank of every axis holds; the bytes are this rank's share.
#pragma once

#include <concepts>
#include <span>

#include <weft/core/host_number.hpp>
#include <weft/core/layout.hpp>
#include <weft/tensor/another_type.hpp>
#include <weft/tensor/value.hpp>

namespace weft {

struct cpu_backend;

namespace detail {
/// Copies what v shares with another tensor.
template <class Backend>
void give_own_memory(value& v);
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_share_ended() {
  fail("what a rank held of a tensor is read after its launch ended, and its memory with it: copy the numbers before");
}
// Memory that is being written: it stays, whatever becomes of the tensor, and counts as written, before for whoever
// reads it meanwhile, and after, however that ends.
class writing {
 public:
  explicit writing(storage memory) : memory_(std::move(memory)) { memory_.written(); }
  ~writing() { memory_.written(); }
  writing(const writing&) = delete;
  writing& operator=(const writing&) = delete;

 private:
  storage memory_;
};
}  // namespace detail

/// The elements that one rank holds of a tensor, row-major, to be read: its slice (with padding behind it, where
/// the ranks don't divide the dimension), its addend of a pending sum, its copy. Shares the tensor's memory, which ends
/// with the launch: reading it later throws weft::failure.
template <class T>
class local_share {
 public:
  local_share() = default;
  explicit local_share(local_array held) : held_(std::move(held)), size_(held_ ? held_.elements() : 0) {}
  const T* data() const {
    if (held_.buffer && !held_.buffer.data()) [[unlikely]]
      detail::fail_share_ended();
    return held_.template as<T>();
  }
  std::int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  const T& operator[](std::int64_t i) const { return data()[i]; }

 private:
  local_array held_;
  std::int64_t size_ = 0;
};

/// The way under a tensor's type: see untyped(x).
struct tensor_access;

/// Source of a tensor: op/create.hpp, or an operator. Copies share memory and slot. Layout: place<...>; axes that are
/// not named are invariant. A class of one's own holds a tensor as a member, since operators take tensors alone.
template <class T, class Dims, class Layout = layout<>, class Backend = cpu_backend>
class basic_tensor final : private value {
 public:
  using element_type = T;
  using dims = Dims;
  using layout = Layout;
  using backend = Backend;
  /// The type of this tensor's gradient: the dual placement.
  using gradient_type = basic_tensor<T, Dims, dual_layout<Layout>, Backend>;

  basic_tensor() = default;
  /// What an operator made, for operators' authors: the type is what they say. Exactly a value: a tensor, which is one
  /// too, never becomes another tensor this way, and makes no value either.
  template <std::same_as<value> V = value>
  explicit basic_tensor(V v) : value(std::move(v)) {}
  /// Refused, with the operator that makes this type from that one. Not explicit, so that `T y = x` is told as well.
  template <class U, class D, class L, class B>
  basic_tensor(const basic_tensor<U, D, L, B>&) {
    using found = decltype(detail::difference_of<basic_tensor<U, D, L, B>, basic_tensor>());
    detail::refuse_made_from<found::how, typename found::what>();
  }

  /// Global extent of dimension D, whatever the ranks hold of it.
  template <dimension D>
  std::int64_t global_extent() const {
    static_assert(Dims::template has<D>, "weft: the tensor has no such dimension");
    ctx.get();
    return whole[Dims::template index<D>];
  }
  /// Extent of dimension D in this rank's share, padding included: every rank's share is as long as the longest. A
  /// varying<std::int64_t> where D is sharded, else a std::int64_t.
  template <dimension D>
  auto local_extent() const {
    static_assert(Dims::template has<D>, "weft: the tensor has no such dimension");
    const std::int64_t own = sizes()[Dims::template index<D>];
    if constexpr (shard_axes<Layout, D>::size > 0)
      return varying<std::int64_t>(own);
    else
      return own;
  }
  /// What this rank holds, to be read in place: its slice where x is sharded, its addend where a sum is pending. Host
  /// backends only. A value's numbers are read by item(x) and on_host(x).
  weft::local_share<T> local_share() const {
    static_assert(
        !requires { requires !Backend::host_memory; },
        "weft: this rank's share doesn't lie in the host's memory: local_share_on_host(x) copies it there");
    return weft::local_share<T>(held());
  }
  /// Calls f(std::span<T>) with what this rank holds, to be written in place; of x and of its copies, which share its
  /// memory. What was recorded before and reads the numbers of before in its backward is refused there. Throws for a
  /// parameter, whose numbers its store sets (load_parameters), while the tensor that a conversion along an axis of one
  /// rank made of x has the same memory (write before converting), and in a checkpointed function, which runs twice.
  template <class F>
  void write_local_share(F&& f) {
    static_assert(
        !requires { requires !Backend::host_memory; },
        "weft: this rank's share doesn't lie in the host's memory: make a tensor of other numbers there, by generate "
        "or "
        "from_global");
    static_assert(std::invocable<F&, std::span<T>>,
                  "weft: x.write_local_share(f) calls f(numbers) with a std::span of x's elements: write it as "
                  "[&](auto numbers) { numbers[0] = 1; }");
    if (shares_memory || (gradient_of != 0 && !data.buffer.unique())) detail::give_own_memory<Backend>(*this);
    require(!slot || !slot->live, "a parameter is written by its store: store.load_parameters(f)");
    detail::require_running_once(*this, "x.write_local_share(f)");
    require(
        !data.buffer.lent(),
        "a tensor is written to after a conversion along an axis of one rank, or a function that gave it back, whose "
        "output has the same memory and keeps its numbers: write first, or to a tensor of its own, x * 1");
    const local_array mine = held();
    const detail::writing now{data.buffer};
    f(std::span<T>(mine.template as<T>(), static_cast<std::size_t>(mine.elements())));
  }
  template <class F>
  void write_local_share(F&&) const {
    refuse_const();
  }
  /// How many elements local_share() has: a varying<std::int64_t> where a dimension is sharded, else a std::int64_t.
  auto local_elements() const {
    constexpr bool sharded = []<class... Es>(weft::dims<Es...>) {
      return ((shard_axes<Layout, tag_of<Es>>::size > 0) || ...);
    }(Dims{});
    const std::int64_t own = held().elements();
    if constexpr (sharded)
      return varying<std::int64_t>(own);
    else
      return own;
  }

  /// Asks for a gradient: the tensor becomes a leaf of the tape. Returns itself. records: for what is said of the
  /// gradient; null: the heap.
  basic_tensor& requires_grad(record_pool* records = nullptr) & {
    static_assert(
        detail::none<std::conditional_t<floating<T>, elements_of<>, elements_of<T>>>,
        "weft: x.requires_grad() takes floating elements, since integers have no gradient: cast<float>(x) first");
    if (!slot) {
      if (shares_memory || (gradient_of != 0 && !data.buffer.unique())) detail::give_own_memory<Backend>(*this);
      slot = weft::slot::make(records);
      slot->shape = data.shape;
      slot->type = dtype_of<T>;
      slot->category = memory::gradients;
    }
    return *this;
  }
  basic_tensor requires_grad(record_pool* records = nullptr) && { return std::move(requires_grad(records)); }
  /// Refused, as are zero_grad() and write_local_share(f): they change the tensor.
  const basic_tensor& requires_grad(record_pool* = nullptr) const& { return refuse_const(), *this; }
  bool has_grad() const { return slot && slot->has_gradient; }
  /// The gradient that backward() left here, as it is now: a later one, or what is written to it, changes no other, and
  /// an update refuses one of before the last backward. Throws when there is none, when a backward that ended with an
  /// error left a part of it, or when a parameter store keeps it.
  gradient_type grad() const {
    detail::refuse_of_store(slot.get(),
                            "a parameter's gradient is kept, and finished, by its parameter store: read it "
                            "with each_parameter");
    if (!has_grad()) [[unlikely]]
      detail::fail_no_gradient(slot.get());
    detail::require_whole_gradient(*ctx, *slot);
    value g{ctx, whole, slot->gradient, {}};
    g.gradient_of = static_cast<std::uint32_t>(data.buffer.made());
    g.turn = slot->turn;
    return gradient_type(std::move(g));
  }
  /// Drops the gradient. Between two backwards it adds up; an update uses it up, so a loop that updates needs no
  /// zero_grad. Throws for a parameter of a store, and in a checkpointed function.
  void zero_grad() {
    if (!slot) return;
    detail::refuse_of_store(slot.get(),
                            "a parameter's gradient is kept by its parameter store, and a step begins "
                            "with none: begin_step(micro_batches) in place of zero_grad()");
    detail::require_running_once(*this, "x.zero_grad()");
    slot->has_gradient = slot->used_up = false;
  }
  void zero_grad() const { refuse_const(); }

  /// Refused: if (x > 0), a && b, !mask.
  explicit operator bool() const {
    static_assert(sizeof(T) == 0,
                  "weft: a tensor is no condition: item(x) gives the number of one that has no dimensions, and "
                  "where(mask, a, b) chooses element by element");
    return false;
  }

  // Last of what is public, since clang leaves out what comes after one that fails, and would say more about that.
  static_assert(is_element<T>,
                "weft: a tensor's elements are float, double, bf16, fp16, int32, int64 or uint8: a mask is a tensor of "
                "std::uint8_t");
  static_assert(is_dims<Dims>, "weft: the second argument of a tensor is dims<...>");
  static_assert(Dims::ndim <= max_ndim, "weft: a tensor has at most 8 dimensions: join some of them into one");
  static_assert(detail::is_canonical<Layout>,
                "weft: write a tensor's placement as place<...>, which puts it in canonical form");
  static_assert(detail::none<typename detail::foreign<Dims, Layout>::type>,
                "weft: a placement shards a dimension that the tensor doesn't have: shard<dim, axis> names one of its "
                "dims<...>");

 private:
  friend tensor_access;
  static void refuse_const() {
    static_assert(
        sizeof(T) == 0,
        "weft: a const tensor is not changed: x.requires_grad(), x.zero_grad() and x.write_local_share(f) are "
        "of one that is declared without const, or made so at once, normal<...>(...).requires_grad()");
  }
};

/// `tensor<float, dims<batch, hidden>, shard<batch, dp>>`: axes that are not named are invariant.
template <class T, class Dims, class... Placements>
using tensor = basic_tensor<T, Dims, place<Placements...>>;

template <class X>
inline constexpr bool is_tensor = false;
template <class T, class D, class L, class B>
inline constexpr bool is_tensor<basic_tensor<T, D, L, B>> = true;
template <class X>
concept any_tensor = is_tensor<std::remove_cvref_t<X>>;

struct tensor_access {
  template <class X>
  static const value& of(const X& x) {
    return x;
  }
  template <class X>
  static value& of(X& x) {
    return x;
  }
};

/// What is under a tensor's type, for operators' authors: the numbers that this rank holds, and no more is said of
/// them.
template <any_tensor X>
auto& untyped(X& x) {
  return tensor_access::of(x);
}
inline const value& untyped(const value& x) { return x; }
/// Of an operator's output that is nobody's yet.
template <class T, class D, class L, class B>
value untyped(basic_tensor<T, D, L, B>&& x) {
  return std::move(tensor_access::of(x));
}

/// A tensor's dims<...> and layout<...>.
template <any_tensor X>
using dims_of = typename X::dims;
template <any_tensor X>
using layout_of = typename X::layout;

}  // namespace weft
