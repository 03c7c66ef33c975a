// Text from a byte-level model, under any strategy. Every data-parallel rank reads the same prompt; the first rank
// chooses. Invariant: all ranks return the same text, which depends on the seed and the model, not on the sharding (up
// to rounding of the logits).
#pragma once

#include <string>
#include <string_view>

#include <weft/autograd/tape.hpp>
#include <weft/comm/local_run.hpp>
#include <weft/op/convert.hpp>
#include <weft/op/create.hpp>
#include <weft/op/to_host.hpp>
#include <weft/op/view.hpp>
#include <weft/tensor/random.hpp>
#include <weft/train/sampling.hpp>

namespace weft {
namespace detail {

/// Logits after the last of `tokens`, the same on every rank of a tensor-parallel group. The model sees the text alone:
/// with padding behind it, a model whose positions depend on the length would read another text.
template <class Model>
std::vector<double> next_logits(Model& model, const std::vector<std::int32_t>& tokens) {
  using ids = typename Model::ids;
  context& ctx = model.ctx();
  const std::int64_t most = model.config().max_seq, n = std::min(most, static_cast<std::int64_t>(tokens.size()));
  const std::int32_t* window = tokens.data() + (static_cast<std::int64_t>(tokens.size()) - n);
  const std::int64_t sequences = shards_of<layout_of<ids>, batch>(ctx);
  const ids x = empty_tensor<ids>(ctx, {2, {sequences, n}}, memory::data);  // [batch/dp = 1, seq]
  write_by_host<typename ids::backend, std::int32_t>(ctx, untyped(x).data,
                                                     [&](std::int32_t* out) { std::copy_n(window, n, out); });
  const auto logits = local_share_on_host(all_gather<tp>(slice<seq>(model(x), n - 1, 1)));  // [1, 1, vocab]
  return {logits.begin(), logits.end()};
}

/// Adds `count` tokens to `tokens`: the first rank takes choose(logits, i) for the i-th, and all have it; -1 ends it
/// sooner. All ranks call it. Cost: a forward pass a token.
template <class Model, class Choose>
void continue_tokens(Model& model, std::vector<std::int32_t>& tokens, std::int64_t count, Choose&& choose) {
  context& ctx = model.ctx();
  const no_grad off(ctx);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto logits = next_logits(model, tokens);
    std::int32_t token = 0;
    if (ctx.is_first()) token = choose(logits, i);
    ctx.world.host().broadcast(&token, sizeof token, 0, {"next token"}).wait();
    if (token < 0) return;
    tokens.push_back(token);
  }
}

}  // namespace detail

/// Continues `prompt` by `s.tokens` bytes, fewer where s.stop ends it; the prompt itself is not returned. All ranks
/// call it. The model sees its last max_seq tokens. Cost: a forward pass a token.
template <class Model>
std::string generate(Model& model, std::string_view prompt, const sampling& s = {}) {
  check(s);
  require(model.config().vocab == 256, "generate() reads bytes, and the model's vocabulary has ", model.config().vocab,
          " tokens, not 256");
  std::vector<std::int32_t> tokens;
  for (char c : prompt.empty() ? std::string_view("\n") : prompt) tokens.push_back(static_cast<unsigned char>(c));
  const auto given = static_cast<std::ptrdiff_t>(tokens.size());
  const philox numbers{s.seed, stream_of("sample")};
  detail::continue_tokens(model, tokens, s.tokens, [&](const std::vector<double>& logits, std::int64_t i) {
    if (s.stop && *s.stop) return -1;
    return choose_token(logits, tokens, s, static_cast<double>(numbers.uniform(static_cast<std::uint64_t>(i))));
  });
  std::string text;
  for (auto token = tokens.begin() + given; token != tokens.end(); ++token) text += static_cast<char>(*token);
  return text;
}

}  // namespace weft
