// Folders of every family for transformers to read, written by several ranks: `folders LIKE` makes, here, for each case
// NAME: NAME/one, a file; NAME/several; beside them NAME/logits in double; and of the same model with adapters
// NAME/adapters, NAME/merged, NAME/merged_several and NAME/adapted. LIKE: a folder whose tokenizer they take along.
#include <string>

#include <weft/io/adapters.hpp>
#include <weft/weft.hpp>

#include "numbers.hpp"

using namespace weft;
using namespace peer;

namespace {

// Beside every matrix; but peft has one adapter beside GPT-2's queries, keys and values, which lie in one tensor.
using adapters = lora<4, 8>;
struct some_adapters : lora<4, 8> {
  static bool adapts_weight(std::string_view name) {
    for (const char* end : {".out", ".up", ".down"})
      if (name.ends_with(end)) return true;
    return false;
  }
};
template <class... Words>
using exact = strategy<mesh<dp, tp>, fp64, zero3, Words...>;
constexpr std::int64_t many = 1 << 30, few = 20'000;  // bytes a file

template <class S, template <class> class Model, class Config>
void write(const std::string& name, const Config& config, const std::string& like) {
  launch<S>({.dp = 2, .tp = 2}, [&](context& ctx) {
    Model<S> model(ctx, config);
    trainer t(ctx, model);
    t.store().load_parameters(numbers_of);
    if constexpr (S::projections::adapts) {
      save_adapters(ctx, model, t.store(), name + "/adapters");
      save_merged(ctx, model, t.store(), name + "/merged", dtype::f32, {.like = like, .most_bytes = many});
      save_merged(ctx, model, t.store(), name + "/merged_several", dtype::f32, {.like = like, .most_bytes = few});
      write_logits<S>(ctx, model, name + "/adapted");
    } else {
      save_pretrained(ctx, model, t.store(), name + "/one", dtype::f32, {.like = like, .most_bytes = many});
      save_pretrained(ctx, model, t.store(), name + "/several", dtype::f32, {.like = like, .most_bytes = few});
      write_logits<S>(ctx, model, name + "/logits");
    }
  });
}

constexpr llama_config wide{
    .layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 48, .vocab = vocabulary, .max_seq = 32};

}  // namespace

int main(int, char** words) {
  const std::string like = words[1];
  const auto both = [&](const std::string& name, auto&& change) {
    llama_config c = wide;
    change(c);
    write<exact<>, llama>(name, c, like);
    write<exact<adapters>, llama>(name, c, like);
  };
  const auto stretched = [](llama_config& c, rope_kind kind) {
    c.rope_theta = 500, c.rope_scaling = {.kind = kind, .factor = 4, .original_max_seq = 8};
  };
  both("llama2", [](llama_config& c) { c.kv_heads = 4; });
  both("llama3", [&](llama_config& c) { stretched(c, rope_kind::llama3), c.tied_embeddings = true; });
  both("linear", [&](llama_config& c) { stretched(c, rope_kind::linear); });
  both("dynamic", [&](llama_config& c) { stretched(c, rope_kind::dynamic); });
  both("yarn", [&](llama_config& c) { stretched(c, rope_kind::yarn), c.norm_eps = 1e-5; });
  both("mistral", [](llama_config& c) { c.window = 5, c.head_dim = 16; });
  both("qwen2", [](llama_config& c) { c.qkv_bias = true, c.rope_theta = 1e6; });
  both("qwen2_window", [](llama_config& c) { c.qkv_bias = true, c.window = 5, c.window_from = 1; });
  both("qwen3", [](llama_config& c) { c.qk_norm = true, c.head_dim = 16; });
  for (const bool tied : {true, false}) {
    const gpt2_config c{.layers = 2,
                        .hidden = 32,
                        .heads = 4,
                        .vocab = vocabulary,
                        .max_seq = 32,
                        .dropout = 0,
                        .tied_embeddings = tied};
    write<exact<>, gpt2>(tied ? "gpt2" : "gpt2_head", c, like);
    write<exact<some_adapters>, gpt2>(tied ? "gpt2" : "gpt2_head", c, like);
  }
}
