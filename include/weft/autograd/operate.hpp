// What every operator is to the tape and to recomputation, said at once: its name, its backward, what it costs and what
// it computes by. Invariant: an operator computes unless recomputation has its output yet, and is recorded either way.
#pragma once

#include <weft/autograd/record.hpp>
#include <weft/core/function_ref.hpp>

namespace weft::detail {

/// Where the numbers lie that an operator computes by beside its tensors: dimensions, factors, seeds. Read only where
/// they are compared: by a function that runs twice, and by ranks under `check`.
class computed_by {
 public:
  computed_by() = default;
  template <class... N>
  explicit computed_by(const N&... n) : parts_{part{&n, sizeof(N)}...} {
    static_assert(sizeof...(N) <= most);
    static_assert(((std::has_unique_object_representations_v<N> || std::is_floating_point_v<N>)&&...),
                  "padding is no number");
    static_assert(!(std::is_pointer_v<N> || ...), "an address differs by process");
  }
  explicit computed_by(axis_id axis) : parts_{part{axis->type.data(), axis->type.size()}} {}
  /// Numbers beside, that `hashed` reads there.
  computed_by& with(const void* at, std::uint64_t (*hashed)(const void*)) {
    beside_ = at, hash_beside_ = hashed;
    return *this;
  }
  [[gnu::cold, gnu::noinline]] std::uint64_t hash() const {
    std::uint64_t all = 0;
    for (const part& p : parts_) all = p.at ? hash_bytes(p.at, p.bytes, all + 1) : all;
    return beside_ ? mix(all ^ hash_beside_(beside_)) : all;
  }

 private:
  static constexpr std::size_t most = 3;
  struct part {
    const void* at = nullptr;
    std::size_t bytes = 0;
  };
  part parts_[most];
  const void* beside_ = nullptr;
  std::uint64_t (*hash_beside_)(const void*) = nullptr;
};

/// One operator, as it runs.
struct operation {
  const char* name;
  void (*vjp)(context&, tape_node&);  // null: it has no backward
  double flops = 0;                   // floating-point operations, if it ran again
  computed_by numbers = {};
};
using array_list = std::initializer_list<local_array*>;
using value_list = std::initializer_list<const value*>;

/// Whether recomputation has the operator's output: then gives it back.
inline bool has_output(context& ctx, const operation& what, local_array& y, array_list more) {
  if (!ctx.replay) [[likely]]
    return false;
  ctx.replay->given(what.numbers.hash());
  return ctx.replay->reuse_output(what.name, y, more);
}
/// The operator is recorded: null where nothing wants a gradient, as in record().
WEFT_LINKED tape_node* record(const operation& what, value& y, value_list inputs) {
  if (!what.vjp) {
    if (y.ctx->replay) y.ctx->replay->recorded(what.name, y, inputs, 0);
    return nullptr;
  }
  tape_node* const node = record(what.name, y, what.vjp, inputs);
  if (node && (y.ctx->replay || y.ctx->check)) [[unlikely]]
    node->numbers = what.numbers.hash();
  return node;
}

/// y = what(inputs), of this type. whole, local: its global extents and those on this rank. compute(y's array) fills
/// it, and makes `more`, what the backward needs beside. keep(entry, y) saves what the backward reads.
WEFT_LINKED value operate(const operation& what, dtype type, const context_ref& on, const shape& whole,
                          const shape& local, value_list inputs, function_ref<void(const local_array&)> compute,
                          function_ref<void(tape_node&, const value&)> keep, array_list more) {
  value y{on, whole, {}, {}};
  context& ctx = *y.ctx;
  if (!has_output(ctx, what, y.data, more)) {
    y.data = ctx.make(type, local);
    compute(y.data);
    if (ctx.replay) [[unlikely]]
      ctx.replay->record_output({what.name, what.flops}, y.data, more, inputs);
  }
  if (tape_node* const node = record(what, y, inputs)) keep(*node, y);
  return y;
}
/// The same, of type T, for a keep that may leave y out.
template <class T, class Compute, class Keep>
value operate(const operation& what, const context_ref& on, const shape& whole, const shape& local, value_list inputs,
              Compute&& compute, Keep&& keep, array_list more = {}) {
  const auto save = [&](tape_node& node, [[maybe_unused]] const value& y) {
    if constexpr (std::invocable<Keep&, tape_node&>)
      keep(node);
    else
      keep(node, y);
  };
  return operate(what, dtype_of<T>, on, whole, local, inputs, compute, save, more);
}
/// The same with x's extents.
template <class T, class Compute, class Keep>
value operate_like(const value& x, const operation& what, value_list inputs, Compute&& compute, Keep&& keep,
                   array_list more = {}) {
  return operate<T>(what, x.ctx, x.whole, x.held().shape, inputs, compute, keep, more);
}

/// One of the two operators that operate_both records.
struct operate_step {
  const operation& what;
  value_list inputs;
  value& out;
  array_list more;
  function_ref<void(tape_node&)> keep;
};
/// first.out and second.out, of x's type and extents, by two operators of which the second reads what the first gives:
/// recorded as these, but computed at once. compute(first, second) fills those that recomputation doesn't have yet.
WEFT_LINKED void operate_both(const value& x, const operate_step& first, const operate_step& second,
                              function_ref<void(bool, bool)> compute) {
  context& ctx = *x.ctx;
  first.out = second.out = value{x.ctx, x.whole, {}, {}};
  const bool lacks_first = !has_output(ctx, first.what, first.out.data, first.more),
             lacks_second = !ctx.replay || !ctx.replay->reuse_output(second.what.name, second.out.data, second.more);
  if (lacks_first) first.out.data = ctx.make(x.held().type, x.held().shape);
  if (lacks_second) second.out.data = ctx.make(x.held().type, x.held().shape);
  if (lacks_first || lacks_second) compute(lacks_first, lacks_second);
  const auto note = [&](const operate_step& s, bool computed) {
    if (ctx.replay && computed) [[unlikely]]
      ctx.replay->record_output({s.what.name, s.what.flops}, s.out.data, s.more, s.inputs);
    if (tape_node* const node = record(s.what, s.out, s.inputs)) s.keep(*node);
  };
  note(first, lacks_first);
  if (ctx.replay) [[unlikely]]
    ctx.replay->given(second.what.numbers.hash());
  note(second, lacks_second);
}

}  // namespace weft::detail
