// GPT-2 folders that bitsandbytes quantised, whose matrices lie by rows there: the numbers that it makes of them again,
// and what is written. make_quantised.py made the folders.
#include <doctest/doctest.h>

#include <weft/io/save_quantised.hpp>

#include "../said_by.hpp"
#include "../temporary.hpp"
#include "quantised.hpp"

using namespace weft;
using weft_test::check_bits, weft_test::check_logits, weft_test::folder_of, weft_test::read, weft_test::read_back;

namespace {

template <class Form, class... More>
using exact = strategy<mesh<dp, tp>, fp64, Form, More...>;

template <class S>
read_back check(const degrees& ranks, const std::string& folder) {
  CAPTURE(folder);
  read_back found = read<S, gpt2>(ranks, folder_of(folder));
  check_bits(found, folder);
  check_logits(found, folder, 1e-10);
  return found;
}

}  // namespace

TEST_CASE("the numbers are those of bitsandbytes, in a store of numbers and of int8's codes") {
  check<exact<dense, zero3>>({.dp = 2, .tp = 2}, "gpt2_nf4");
  check<exact<int8<>, zero3>>({.dp = 2, .tp = 2}, "gpt2_int8");
}
TEST_CASE("in nf4, what is a whole tensor keeps its codes, and queries, keys and values are quantised again") {
  const read_back right = read<exact<dense, zero3>, gpt2>({}, folder_of("gpt2_nf4")),
                  found = read<exact<nf4<>, zero3>, gpt2>({.dp = 2}, folder_of("gpt2_nf4"));
  for (const auto& entry : right.weights) {
    CAPTURE(entry.first);
    const std::vector<float>& other = found.weights.at(entry.first);
    if (entry.first.find("c_attn.weight") == std::string::npos) {
      CHECK((other == entry.second));
      continue;
    }
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < other.size(); ++i) {
      worst = std::max(worst, static_cast<double>(std::abs(other[i] - entry.second[i])));
      largest = std::max(largest, static_cast<double>(std::abs(other[i])));
    }
    CHECK(worst > 0);
    CHECK(worst <= 0.01 * largest);  // what a scale of 8 bits is off by
  }
}
TEST_CASE("int8 is written as bitsandbytes wrote it, byte for byte; nf4's parts of one tensor are refused") {
  const weft_test::temporary_folder here;
  using S = exact<int8<>, zero3>;
  launch<S>({.dp = 2, .tp = 2}, [&](context& ctx) {
    auto p = gpt2_from_pretrained<S>(ctx, folder_of("gpt2_int8"));
    save_quantised(ctx, p.model, p.store, here / "saved", dtype::f32);
  });
  CHECK((read_file(here / "saved/model.safetensors") == read_file(folder_of("gpt2_int8") + "/model.safetensors")));
  CHECK(read_json(here / "saved/config.json").at("quantization_config").at("load_in_8bit") == true);
  using Few = exact<nf4<>, zero3>;
  launch<Few>({.dp = 2}, [&](context& ctx) {
    auto p = gpt2_from_pretrained<Few>(ctx, folder_of("gpt2_nf4"));
    const std::string said =
        weft_test::said_by([&] { save_quantised(ctx, p.model, p.store, here / "few", dtype::f32); });
    CHECK(said.find("parameter layers.0.query is stored as nf4, and is a part of the tensor "
                    "\"transformer.h.0.attn.c_attn.weight\"") == 0);
  });
}
