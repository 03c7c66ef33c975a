// expect: weft: chunked_loss cuts the head's input along seq, which is sharded here (sequence_parallel): give the model's pass head_input(h), with norm and enter_block<S>, and logits(table, y) in place of head(table, h), or leave one of the two out of the strategy
// The head gathers the sequence, and is one function with what comes behind.
#include <weft/weft.hpp>
using namespace weft;
using S = strategy<mesh<dp, tp>, sequence_parallel, chunked_loss<8>>;

class stack : public decoder<S, stack, mlp<S>> {
 public:
  struct sizes {
    std::int64_t hidden = 16, vocab = 256, max_seq = 8;
  };
  explicit stack(context& ctx) : decoder(ctx, 2, false) {}
  const sizes& config() const { return config_; }
  struct pass {
    stack* model;
    auto embed(const any_tensor auto& tokens) const { return leave_block<S>(embedding(tokens, model->embedding_)); }
    auto block(const mlp<S>& layer, const any_tensor auto& x) const { return leave_block<S>(layer(enter_block<S>(x))); }
#ifdef WRONG
    auto head(const any_tensor auto& table, const any_tensor auto& x) const {
      return contract<hidden>(enter_block<S>(x), table);
    }
#else
    auto head_input(const any_tensor auto& x) const { return enter_block<S>(x); }
    auto logits(const any_tensor auto& table, const any_tensor auto& y) const { return contract<hidden>(y, table); }
#endif
  };
  pass pass_for(const ids&) { return {this}; }

 private:
  sizes config_;
};

void program(context& ctx, stack& model) { trainer training(ctx, model); }
