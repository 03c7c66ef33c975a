// What transformers is given to read: models whose weights were quantised here, as folders, and beside each the logits
// of those weights in double. `write` makes, here, for each case NAME: NAME/plain, the numbers; NAME/few, the codes;
// NAME/adapters, where it has some; NAME/logits, one a line.
#include <cstdio>
#include <string>

#include <weft/io/adapters.hpp>
#include <weft/io/save_quantised.hpp>
#include <weft/weft.hpp>

using namespace weft;

namespace {

template <class... Words>
using exact = strategy<mesh<dp, tp>, fp64, Words...>;
constexpr degrees four{.dp = 2, .tp = 2};
constexpr std::int64_t rows = 4, length = 16, vocabulary = 96;

// transformers asks for the same tokens (read.py).
template <class S>
token_ids<S> tokens(context& ctx) {
  return generate<token_ids<S>>(ctx, {rows, length},
                                [](std::int64_t i) { return (31 + i * i * 5 + i * 3) % vocabulary; });
}

// A parameter's numbers: far from 0 and from each other, as wide as bf16 has them.
std::vector<double> numbers_of(const parameter_record& p) {
  std::vector<double> all(static_cast<std::size_t>(p.global.elements()));
  const double width = p.global.ndim > 1 ? 0.6 : 1, middle = p.name.find("norm") != p.name.npos ? 1 : 0;
  std::uint64_t x = 0;
  for (const char c : p.name) x = x * 131 + static_cast<unsigned char>(c);
  for (double& y : all) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    y = middle + width * (static_cast<double>(x >> 56) / 256 - 0.5);  // 8 bits
  }
  return all;
}

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
    const recording off(ctx, nullptr);
    const auto logits = on_host(all_gather<dp>(all_gather<tp>(p.model(tokens<S>(ctx)))));
    if (!ctx.is_first()) return;
    std::string text;
    char line[40];
    for (const double x : logits) text.append(line, std::size_t(std::snprintf(line, sizeof line, "%.17g\n", x)));
    write_file(name + "/logits", text);
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
