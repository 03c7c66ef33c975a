// Llama against PyTorch: logits, every gradient of the first step, ten losses and gradient norms, and the weights after
// them. make_llama.py made the numbers.
#include "reference.hpp"

using namespace weft;
using namespace golden;

namespace {

const numbers grouped = {
#include "llama.inc"
};
const numbers tied = {
#include "llama_tied.inc"
};

// Double: the numbers are written with eleven digits, 5e-11 relative; rounding, 1e-16, is far below that even after ten
// steps.
constexpr tolerance in_double{.logits = 1e-10, .losses = 1e-10, .norms = 1e-10, .gradients = 1e-10, .weights = 1e-10};
// Float: 6e-8 a rounding. Sums of up to 24 products through two layers leave some ten roundings in logits, losses and
// norms; gradients are sums that cancel, and lose a digit more. AdamW turns a gradient element that cancels to almost
// nothing into a step of unsure size; the weights' three sums mix few such elements with many sure ones.
constexpr tolerance in_float{.logits = 2e-6, .losses = 1e-6, .norms = 5e-6, .gradients = 2e-5, .weights = 5e-6};

llama_config config_of(const numbers& reference) {
  const auto c = [&](const char* name) { return reference.at(std::string("config ") + name).at(0); };
  const auto whole = [&](const char* name) { return static_cast<std::int64_t>(c(name)); };
  return {.layers = whole("layers"),
          .hidden = whole("hidden"),
          .heads = whole("heads"),
          .kv_heads = whole("kv_heads"),
          .ffn = whole("ffn"),
          .vocab = whole("vocab"),
          .max_seq = whole("seq"),
          .rope_theta = c("theta"),
          .norm_eps = c("eps"),
          .init_stddev = c("stddev"),
          .tied_embeddings = c("tied") != 0};
}

template <class Precision>
void check_all(const numbers& reference, const tolerance& most) {
  using whole = llama<strategy<mesh<dp, tp>, Precision>>;
  using sharded = llama<strategy<mesh<dp, tp>, Precision, zero3>>;
  const settings s(reference);
  const llama_config config = config_of(reference);
  SUBCASE("one rank") { check(reference, trained_again<whole>({}, config, s), most); }
  SUBCASE("zero3, dp 2 x tp 2") { check(reference, trained_again<sharded>({.dp = 2, .tp = 2}, config, s), most); }
}

}  // namespace

TEST_CASE("Llama with grouped queries agrees with PyTorch in double") { check_all<fp64>(grouped, in_double); }
TEST_CASE("Llama with grouped queries agrees with PyTorch in float") { check_all<fp32>(grouped, in_float); }
TEST_CASE("Llama with tied embeddings agrees with PyTorch in double") { check_all<fp64>(tied, in_double); }
TEST_CASE("Llama with tied embeddings agrees with PyTorch in float") { check_all<fp32>(tied, in_float); }
