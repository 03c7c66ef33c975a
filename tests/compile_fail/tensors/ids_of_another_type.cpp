// expect: of int32: make them so, from_global<tensor<std::int32_t, dims<...>>>(ctx, {...}, numbers)
#include <weft/weft.hpp>
using namespace weft;

template <class T>
using ids = tensor<T, dims<batch>>;

void program(context& ctx, const ids<std::int64_t>& other, const ids<std::int32_t>& right,
             const tensor<float, dims<vocab, hidden>>& table, const tensor<float, dims<batch, vocab>>& logits,
             std::span<const std::int32_t> numbers) {
#ifdef WRONG
#if WRONG == 1
  embedding(other, table);
#elif WRONG == 2
  cross_entropy(logits, other);
#elif WRONG == 3
  require_ids(other, 0, 9, "the token");
#endif
#else
  embedding(right, table);
  cross_entropy(logits, from_global<tensor<std::int32_t, dims<batch>>>(ctx, {4}, numbers));
  require_ids(right, 0, 9, "the token");
#endif
  (void)ctx, (void)numbers, (void)other;
}
