// expect: weft: these tensors belong to different backends, and an operator's to one: write the type of each with the same strategy's S::backend
// shows: of_backends<
// shows: other
#include <weft/weft.hpp>
using namespace weft;

struct other : cpu_backend {};

template <class B>
using h = basic_tensor<float, dims<batch, seq, hidden>, place<>, B>;
template <class B>
using q = basic_tensor<float, dims<batch, seq, heads, head_dim>, place<>, B>;
template <class B>
using ids = basic_tensor<std::int32_t, dims<batch, seq>, place<>, B>;
template <class B>
using table = basic_tensor<float, dims<vocab, hidden>, place<>, B>;

#ifdef WRONG
#if WRONG == 1
auto program(const h<cpu_backend>& x, const h<other>& y) { return x + y; }
#elif WRONG == 2
auto program(const h<other>& x, const table<cpu_backend>& y) { return contract<hidden>(x, y); }
#elif WRONG == 3
auto program(const q<cpu_backend>& x, const q<other>& y) { return attention(x, y, y); }
#elif WRONG == 4
auto program(const q<other>& x, const ids<cpu_backend>& starts) { return attention(x, x, x, starts, {.causal = true}); }
#elif WRONG == 5
auto program(const ids<other>& tokens, const table<cpu_backend>& y) { return embedding(tokens, y); }
#elif WRONG == 6
auto program(const h<other>& x, const ids<cpu_backend>& targets) { return cross_entropy(x, targets); }
#endif
#else
auto program(const h<other>& x, const h<other>& y) { return x + y; }
#endif
