// Fine-tuning in 4 bits (QLoRA), from a text to a folder that transformers reads: a small model of bytes, trained on
// source code, learns prose by adapters beside its weights, which are frozen and stored in 4 bits. A stage is a process
// of its own, in a folder in which code.txt, prose.txt and held_out.txt lie. examples/qlora.sh runs all of them:
//   qlora base                     trains the model: base/, a Hugging Face folder with a tokenizer
//   qlora tune RANKS FROM TO       trains adapters from step FROM to step TO: checkpoint-TO/; from 0 it begins
//   qlora merge STEP               makes of checkpoint-STEP/ adapters/, which peft reads, and tuned/, a folder as base/
//   qlora loss FOLDER              the loss of such a folder on held_out.txt
// Loss is in nats a byte. A larger model, or one on a GPU, computes in bf16: bf16_mixed in place of fp32.
#include <cstdio>
#include <cstdlib>

#include <weft/io/adapters.hpp>
#include <weft/train/checkpoint.hpp>
#include <weft/weft.hpp>

#include "qlora/byte_tokenizer.hpp"
using namespace weft;

using whole = strategy<mesh<dp>, fp32>;
using few_bits = strategy<mesh<dp>, zero3, fp32, nf4<lora<16>>>;

constexpr std::int64_t length = 64;  // of a sequence
const llama_config small{
    .layers = 2, .hidden = 128, .heads = 4, .kv_heads = 2, .ffn = 256, .vocab = 256, .max_seq = length};

// Nats a byte, over all sequences of a text, one behind the other. All ranks call it.
template <class S>
double loss_on(context& ctx, llama<S>& model, const std::string& path) {
  constexpr std::int64_t rows = 32;
  const no_grad off(ctx);
  const auto text = open_corpus(path);
  double sum = 0, count = 0;
  for (std::int64_t begin = 0; begin + rows * length < std::int64_t(text->bytes.size()); begin += rows * length) {
    const auto ahead = [&](std::int64_t by) {
      return generate<token_ids<S>>(ctx, {rows, length}, [&](std::int64_t i) {
        return std::int32_t(static_cast<unsigned char>(text->bytes[std::size_t(begin + i + by)]));
      });
    };
    const auto loss = cross_entropy(model(ahead(0)), ahead(1));
    sum += item(all_reduce<dp>(loss.sum)), count += rows * length;
  }
  return sum / count;
}

void say(const context& ctx, const char* what, double loss) {
  if (ctx.is_first()) std::printf("%s: %.6f\n", what, loss);
}

void make_base() {
  launch<whole>({}, [](context& ctx) {
    llama<whole> model(ctx, small);
    trainer t(ctx, model, adamw{.lr = 3e-3});
    t.run(text_dataset(ctx, "code.txt", 0),
          {.steps = 200, .batch = 16, .schedule = {.warmup = 20}, .validation_sequences = 0, .print_every = 50});
    save_pretrained(ctx, model, t.store(), "base");
    if (ctx.is_first()) write_byte_tokenizer("base");
  });
}

std::string saved_at(std::int64_t step) { return "checkpoint-" + std::to_string(step); }

void tune(int ranks, std::int64_t from, std::int64_t to) {
  launch<few_bits>({.dp = ranks}, [&](context& ctx) {
    llama<few_bits> model(ctx, read_llama_config("base"));
    trainer t(ctx, model, adamw{.lr = 5e-3});
    if (from == 0)
      load_weights(ctx, t.store(), safetensors("base"), llama_weight_names);  // quantised here
    else
      load_checkpoint(ctx, t, saved_at(from));  // the same codes, the adapters and their moments
    say(ctx, "held out, before it", loss_on(ctx, model, "held_out.txt"));
    const auto constant = [](std::int64_t, std::int64_t) { return 1.0; };  // so that both parts are one run
    t.run(text_dataset(ctx, "prose.txt", 0), {.steps = to,
                                              .begin = from,
                                              .batch = 16,
                                              .own_schedule = constant,
                                              .validation_sequences = 0,
                                              .print_every = 20});
    say(ctx, "held out, after it", loss_on(ctx, model, "held_out.txt"));
    save_checkpoint(ctx, t, saved_at(to));
  });
}

void take_away(std::int64_t step) {
  launch<few_bits>({}, [&](context& ctx) {
    llama<few_bits> model(ctx, read_llama_config("base"));
    trainer t(ctx, model, adamw{});
    load_checkpoint(ctx, t, saved_at(step));
    save_adapters(ctx, model, t.store(), "adapters");
    save_merged(ctx, model, t.store(), "tuned", dtype::f32, {.like = "base"});
  });
}

void say_loss(const std::string& folder) {
  launch<whole>({}, [&](context& ctx) {
    auto p = llama_from_pretrained<whole>(ctx, folder);
    say(ctx, folder.c_str(), loss_on(ctx, p.model, "held_out.txt"));
  });
}

int main(int argc, char** argv) try {
  const std::string stage = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return std::atoll(argv[i]); };
  if (stage == "base" && argc == 2) return make_base(), 0;
  if (stage == "tune" && argc == 5) return tune(int(number(2)), number(3), number(4)), 0;
  if (stage == "merge" && argc == 3) return take_away(number(2)), 0;
  if (stage == "loss" && argc == 3) return say_loss(argv[2]), 0;
  std::fprintf(stderr, "qlora base | tune RANKS FROM TO | merge STEP | loss FOLDER\n");
  return 2;
} catch (const std::exception& e) {
  std::fprintf(stderr, "qlora: %s\n", e.what());
  return 1;
}
