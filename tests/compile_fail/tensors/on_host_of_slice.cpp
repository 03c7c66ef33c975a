// expect: weft: a rank has only its slice of a sharded tensor: on_host(all_gather<axis>(x)) has all numbers, local_share_on_host(x) the slice
// shows: sharded_over<weft::tp>
// The largest of a slice of the logits isn't the largest logit.
#include <weft/weft.hpp>
using namespace weft;

using logits_type = tensor<float, dims<seq, vocab>, shard<vocab, tp>>;

auto program(const logits_type& logits) {
#ifdef WRONG
  return std::max_element(on_host(logits).begin(), on_host(logits).end());
#else
  const auto all = on_host(all_gather<tp>(logits)), own = local_share_on_host(logits);
  return std::pair(*std::max_element(all.begin(), all.end()), own.size());
#endif
}
