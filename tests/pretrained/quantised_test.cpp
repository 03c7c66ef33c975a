// Folders that bitsandbytes quantised: the numbers that it makes of them again, bit by bit, whether the store keeps the
// codes or numbers; logits; what is written from them; and what is refused. make_quantised.py made the folders.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include <doctest/doctest.h>

#include <weft/io/adapters.hpp>
#include <weft/weft.hpp>

#include "../said_by.hpp"
#include "../source_folder.hpp"
#include "../temporary.hpp"
#include "batches.hpp"

using namespace weft;

namespace {

std::string folder_of(const std::string& name) { return weft_test::source_file("pretrained/" + name); }

std::string hash_of(const std::vector<float>& x) {
  std::uint64_t h = 0xcbf29ce484222325u;
  const auto* bytes = reinterpret_cast<const unsigned char*>(x.data());
  for (std::size_t i = 0; i < x.size() * sizeof(float); ++i) h = (h ^ bytes[i]) * 0x100000001b3u;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(h));
  return text;
}

struct read_back {
  std::map<std::string, std::vector<float>> weights;  // by tensor
  std::vector<double> logits;
};

// A folder's model under the strategy S. Every rank's numbers are put in their places.
template <class S>
read_back read(const degrees& ranks, const std::string& folder) {
  read_back out;
  std::mutex lock;
  launch<S>(ranks, [&](context& ctx) {
    auto p = llama_from_pretrained<S>(ctx, folder);
    p.store.each_parameter([&](const parameter_record& r, auto, auto w) {
      const std::lock_guard guard(lock);
      auto& all = out.weights[detail::parts_of(llama_weight_names, r).front().tensor];
      all.resize(static_cast<std::size_t>(r.global.elements()));
      for (std::int64_t i = 0; i < r.local.elements(); ++i)
        if (const std::int64_t at = r.at.global_index(i); at >= 0)
          all[static_cast<std::size_t>(at)] = static_cast<float>(w[i]);
    });
    const weft_test::folder_batches data{&ctx};
    const recording off(ctx, nullptr);
    const auto tokens =
        data.template train<token_ids<S>>(1, 0, weft_test::folder_rows, weft_test::folder_length).tokens;
    const auto logits = on_host(all_gather<dp>(all_gather<tp>(p.model(tokens))));
    const std::lock_guard guard(lock);
    if (ctx.is_first()) out.logits.assign(logits.begin(), logits.end());
  });
  return out;
}

void check_bits(const read_back& found, const std::string& folder) {
  const nlohmann::json right = read_json(folder_of(folder) + "/expected.json");
  for (const auto& entry : right.at("hashes").items()) {
    CAPTURE(entry.key());
    CHECK(hash_of(found.weights.at(entry.key())) == entry.value().get<std::string>());
  }
}
void check_logits(const read_back& found, const std::string& folder, double most) {
  const auto right = read_json(folder_of(folder) + "/expected.json").at("logits").get<std::vector<double>>();
  REQUIRE(found.logits.size() == right.size());
  double worst = 0;
  for (std::size_t i = 0; i < right.size(); ++i) worst = std::max(worst, std::abs(found.logits[i] - right[i]));
  CHECK(worst <= most);
}
template <class S>
void check(const degrees& ranks, const std::string& folder) {
  CAPTURE(folder);
  const read_back found = read<S>(ranks, folder_of(folder));
  check_bits(found, folder);
  check_logits(found, folder, 1e-10);
}

template <class Form, class... More>
using exact = strategy<mesh<dp, pp, tp>, fp64, Form, More...>;

}  // namespace

TEST_CASE("codes are kept as they are: what they stand for is what bitsandbytes makes of them") {
  check<exact<nf4<>>>({}, "nf4");
  check<exact<nf4<>, zero3>>({.dp = 2, .tp = 2}, "nf4");
  check<exact<nf4<>, zero3>>({.dp = 3}, "nf4");
  check<exact<int8<>>>({.tp = 2}, "int8");
  check<exact<int8<>, zero3>>({.dp = 2, .tp = 2}, "int8");
}
TEST_CASE("in a store of numbers, they are the same numbers") {
  check<exact<dense>>({}, "nf4");
  check<exact<dense, zero3>>({.dp = 2, .tp = 2}, "nf4_single");
  check<exact<dense>>({.tp = 2}, "int8");
}
TEST_CASE("in another format they are quantised again, from their numbers") {
  // Scales of 8 bits where the folder has floats: codes are the same, and numbers off by what a scale is.
  const read_back found = read<exact<nf4<>>>({.tp = 2}, folder_of("nf4_single")),
                  right = read<exact<dense>>({}, folder_of("nf4_single"));
  double worst = 0, largest = 0;
  for (const auto& [tensor, numbers] : right.weights)
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      worst = std::max(worst, static_cast<double>(std::abs(found.weights.at(tensor)[i] - numbers[i])));
      largest = std::max(largest, static_cast<double>(std::abs(numbers[i])));
    }
  CHECK(worst > 0);
  CHECK(worst <= 0.02 * largest);
}
TEST_CASE("saved, weights are the numbers that the codes stand for") {
  const weft_test::temporary_folder here;
  launch<exact<nf4<lora<4>>, zero3>>({.dp = 2, .tp = 2}, [&](context& ctx) {
    llama<exact<nf4<lora<4>>, zero3>> model(ctx, read_llama_config(folder_of("nf4")));
    trainer t(ctx, model);
    load_weights(ctx, t.store(), safetensors(folder_of("nf4")), llama_weight_names);
    save_pretrained(ctx, model, t.store(), here / "saved", dtype::f32);
    save_merged(ctx, model, t.store(), here / "merged", dtype::f32);  // B is zero at first
  });
  check_bits(read<exact<dense>>({}, here / "saved"), "nf4");
  check_bits(read<exact<dense>>({}, here / "merged"), "nf4");
}

TEST_CASE("what isn't sound is refused") {
  const auto said = [](auto&& spoil) {
    const weft_test::temporary_folder here;
    std::filesystem::copy(folder_of("nf4"), here / "f");
    spoil(here / "f");
    return weft_test::said_by([&] { read<exact<nf4<>>>({}, here / "f"); });
  };
  const auto in_state = [](const char* from, const char* to) {
    return [=](const std::string& folder) {
      std::string bytes = read_file(folder + "/model.safetensors");
      for (std::size_t at = 0; (at = bytes.find(from, at)) != bytes.npos; ++at) bytes.replace(at, std::strlen(to), to);
      write_file(folder + "/model.safetensors", bytes);
    };
  };
  CHECK(said([](const std::string&) {}) == "nothing");
  CHECK(said(in_state("\"quant_type\": \"nf4\"", "\"quant_type\": \"xx4\"")).find("quant_type is \"xx4\"") !=
        std::string::npos);
  CHECK(said(in_state("\"blocksize\": 64", "\"blocksize\": 32")).find("bytes beside it") != std::string::npos);
  CHECK(said(in_state(".down_proj.weight.absmax", ".down_proj.weight.Absmax")).find("down_proj.weight.absmax\" of") !=
        std::string::npos);
  CHECK(said([](const std::string& folder) {
          std::string config = read_file(folder + "/config.json");
          config.replace(config.find("bitsandbytes\""), 13, "gptq\"        ");
          write_file(folder + "/config.json", config);
        }).find("other weights in few bits aren't read") != std::string::npos);
}
