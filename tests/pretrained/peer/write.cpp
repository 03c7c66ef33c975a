// What transformers is given to read: models whose weights were quantised here, as folders, and beside each the logits
// of those weights in double. `write` makes, here, for each case NAME: NAME/plain, the numbers; NAME/few, the codes;
// NAME/adapters, where it has some; NAME/logits, one a line.
#include <string>

#include <weft/io/adapters.hpp>
#include <weft/io/save_quantised.hpp>
#include <weft/weft.hpp>

#include "numbers.hpp"

using namespace weft;
using namespace peer;

namespace {

template <class... Words>
using exact = strategy<mesh<dp, tp>, fp64, Words...>;
constexpr degrees four{.dp = 2, .tp = 2};

template <template <class> class Model, class Config>
void write_plain(const std::string& folder, const Config& config) {
  using S = exact<dense>;
  launch<S>({}, [&](context& ctx) {
    Model<S> model(ctx, config);
    trainer t(ctx, model);
    t.store().load_parameters(numbers_of);
    save_pretrained(ctx, model, t.store(), folder, dtype::f32);
  });
}

template <class S, template <class> class Model, class Config>
void write_few(const std::string& name, const Config& config, dtype type, std::int64_t most_bytes) {
  write_plain<Model>(name + "/plain", config);
  launch<S>(four, [&](context& ctx) {
    pretrained<Model<S>> p(ctx, config, name + "/plain");  // quantised as it is loaded
    save_quantised(ctx, p.model, p.store, name + "/few", type, {.most_bytes = most_bytes});
  });
  launch<S>(four, [&](context& ctx) {
    pretrained<Model<S>> p(ctx, config, name + "/few");  // what isn't in few bits is rounded to `type` there
    if constexpr (S::projections::adapts) {
      p.store.load_parameters(
          [](const parameter_record& r) { return r.adapter ? std::optional(numbers_of(r)) : std::nullopt; });
      save_adapters(ctx, p.model, p.store, name + "/adapters");
    }
    write_logits<S>(ctx, p.model, name + "/logits");
  });
}

constexpr llama_config wide{.layers = 2,
                            .hidden = 128,
                            .heads = 4,
                            .kv_heads = 2,
                            .head_dim = 64,
                            .ffn = 256,
                            .vocab = vocabulary,
                            .max_seq = 32};
template <class Change>
llama_config with(Change&& change) {
  llama_config c = wide;
  change(c);
  return c;
}
constexpr std::int64_t one_file = 1 << 30;

}  // namespace

int main() {
  using nf4_form = exact<nf4<>, zero3>;
  using int8_form = exact<int8<>, zero3>;
  const auto qwen2 = with([](llama_config& c) { c.head_dim = 32, c.qkv_bias = true, c.tied_embeddings = true; });
  const auto qwen3 = with([](llama_config& c) { c.qk_norm = true; });
  const auto mistral = with([](llama_config& c) { c.window = 5; });
  write_few<nf4_form, llama>("nf4", wide, dtype::f32, one_file);
  write_few<nf4_form, llama>("nf4_qwen2", qwen2, dtype::f32, one_file);
  write_few<nf4_form, llama>("nf4_qwen3", qwen3, dtype::bf16, 40'000);  // bytes: several files
  write_few<exact<nf4<lora<4>>, zero3>, llama>("nf4_adapters", wide, dtype::f32, one_file);
  write_few<int8_form, llama>("int8", wide, dtype::f32, one_file);
  write_few<int8_form, llama>("int8_mistral", mistral, dtype::bf16, 40'000);
  write_few<int8_form, gpt2>(
      "int8_gpt2",
      gpt2_config{.layers = 2, .hidden = 128, .heads = 4, .vocab = vocabulary, .max_seq = 32, .dropout = 0}, dtype::f32,
      one_file);
}
