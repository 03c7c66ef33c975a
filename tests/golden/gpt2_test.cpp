// GPT-2 against PyTorch: logits, every gradient of the first step, ten losses and gradient norms, and the weights after
// them. make_gpt2.py made the numbers.
#include "reference.hpp"

using namespace weft;
using namespace golden;

namespace {

const numbers tied = {
#include "gpt2.inc"
};
const numbers untied = {
#include "gpt2_untied.inc"
};

// As llama_test.cpp reasons: eleven digits are written, far above double's rounding; in float some ten roundings of
// 6e-8 are in logits and losses, and sums that cancel lose a digit more. Biases begin at zero: their weights are steps
// alone, no better than the gradients they are made of.
constexpr tolerance in_double{.logits = 1e-10, .losses = 1e-10, .norms = 1e-10, .gradients = 1e-10, .weights = 1e-10};
constexpr tolerance in_float{.logits = 2e-6, .losses = 1e-6, .norms = 5e-6, .gradients = 2e-5, .weights = 2e-5};

gpt2_config config_of(const numbers& reference) {
  const auto c = [&](const char* name) { return reference.at(std::string("config ") + name).at(0); };
  const auto whole = [&](const char* name) { return static_cast<std::int64_t>(c(name)); };
  return {.layers = whole("layers"),
          .hidden = whole("hidden"),
          .heads = whole("heads"),
          .ffn = whole("ffn"),
          .vocab = whole("vocab"),
          .max_seq = whole("max_seq"),
          .dropout = 0,
          .norm_eps = c("eps"),
          .init_stddev = c("stddev"),
          .tied_embeddings = c("tied") != 0};
}

template <class Precision>
void check_all(const numbers& reference, const tolerance& most) {
  using whole = gpt2<strategy<mesh<dp, tp>, Precision>>;
  using sharded = gpt2<strategy<mesh<dp, tp>, Precision, zero3, sequence_parallel>>;
  const settings s(reference);
  const gpt2_config config = config_of(reference);
  SUBCASE("one rank") { check(reference, trained_again<whole>({}, config, s), most); }
  SUBCASE("zero3, sequence parallel, dp 2 x tp 2") {
    check(reference, trained_again<sharded>({.dp = 2, .tp = 2}, config, s), most);
  }
}

}  // namespace

TEST_CASE("GPT-2 agrees with PyTorch in double") { check_all<fp64>(tied, in_double); }
TEST_CASE("GPT-2 agrees with PyTorch in float") { check_all<fp32>(tied, in_float); }
TEST_CASE("GPT-2 with a head of its own agrees with PyTorch in double") { check_all<fp64>(untied, in_double); }
TEST_CASE("GPT-2 with a head of its own agrees with PyTorch in float") { check_all<fp32>(untied, in_float); }
