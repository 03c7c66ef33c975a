// expect: weft:
// expect 1: a loss in chunks cuts its input and its targets along one dimension, and one of them lacks it: name one that both have, or take the loss at once (whole_loss)
// expect 2: a loss in chunks cuts a dimension that every rank has whole, and its input or its targets are sharded along it: all_gather<axis>(x) them first, or take the loss at once (whole_loss)
// expect 3: loss_in_chunks<dim>(chunks, f, x, targets): f(x, targets) gives back loss{sum, count}, two scalars, as cross_entropy does
// What is cut is a dimension of both, whole on every rank; what comes back is a loss.
#include <weft/weft.hpp>
using namespace weft;
using stream = tensor<float, dims<batch, seq, vocab>>;
using sharded = tensor<float, dims<batch, seq, vocab>, shard<seq, tp>>;
using ids = tensor<std::int32_t, dims<batch, seq>>;

const auto objective = [](const auto& x, const auto& t) { return cross_entropy(x, t); };
const auto sum_alone = [](const auto& x, const auto& t) { return cross_entropy(x, t).sum; };

#ifdef WRONG
#if WRONG == 1
void program(const stream& x, const ids& t) { loss_in_chunks<vocab>(4, objective, x, t); }
#elif WRONG == 2
void program(const sharded& x, const ids& t) { loss_in_chunks<seq>(4, objective, x, t); }
#elif WRONG == 3
void program(const stream& x, const ids& t) { loss_in_chunks<seq>(4, sum_alone, x, t); }
#endif
#else
void program(const stream& x, const ids& t) { (void)loss_in_chunks<seq>(4, objective, x, t), (void)sum_alone; }
#endif
