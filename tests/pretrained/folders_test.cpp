// Folders that transformers saved, against what it computes with them: logits, every gradient of the first step, losses
// and gradient norms of ten. make_folders.py made both.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include <doctest/doctest.h>

#include <weft/io/pretrained.hpp>
#include <weft/weft.hpp>

#include "../source_folder.hpp"
#include "../temporary.hpp"
#include "batches.hpp"

using namespace weft;

namespace {

using batches = weft_test::folder_batches;
constexpr std::int64_t rows = weft_test::folder_rows, length = weft_test::folder_length;
constexpr int steps = 10;

std::string folder_of(const std::string& family) { return weft_test::source_file("pretrained/" + family); }

struct llama_family {
  template <class S>
  using model = llama<S>;
  static llama_config read(const std::string& folder) { return read_llama_config(folder); }
  static constexpr const weight_names& names = llama_weight_names;
};
struct gpt2_family {
  template <class S>
  using model = gpt2<S>;
  static gpt2_config read(const std::string& folder) { return read_gpt2_config(folder); }
  static constexpr const weight_names& names = gpt2_weight_names;
};

using numbers = std::map<std::string, std::vector<double>>;  // "logits", "losses", "norms", and gradients by parameter

numbers expected(const std::string& folder) {
  const nlohmann::json all = read_json(folder + "/expected.json");
  numbers out = all.at("gradients").get<numbers>();
  for (const char* name : {"logits", "losses", "norms"}) out[name] = all.at(name).get<std::vector<double>>();
  return out;
}

// What Weft computes with a folder's weights under the strategy S. They are written again to `save_to`, and to a folder
// of several files.
constexpr std::int64_t most_bytes = 1000;  // as qwen2's were written
template <class S, class Family>
numbers computed(const degrees& ranks, const std::string& folder, const std::string& save_to,
                 const std::string& several) {
  numbers out;
  std::mutex lock;
  const safetensors files(folder);
  const dtype stored = *files.tensors().begin()->second.entry->type->type;
  const auto config = Family::read(folder);
  launch<S>(ranks, [&](context& ctx) {
    typename Family::template model<S> model(ctx, config);
    trainer t(ctx, model, {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1});
    load_weights(ctx, t.store(), files, Family::names);
    save_weights(ctx, t.store(), save_to, Family::names, stored);
    save_pretrained(ctx, model, t.store(), several, stored, {.like = folder, .most_bytes = most_bytes});
    const batches data{&ctx};
    {
      const recording off(ctx, nullptr);
      const auto tokens = data.train<token_ids<S>>(1, 0, rows, length).tokens;
      const auto logits = on_host(all_gather<dp>(all_gather<tp>(model(tokens))));
      const std::lock_guard guard(lock);
      if (ctx.is_first()) out["logits"].assign(logits.begin(), logits.end());
    }
    double count = 0;
    for (std::int64_t i = 0; i < rows * length; ++i) count += (i + 1) % 9 != 4;
    for (int step = 1; step <= steps; ++step) {
      const training_result r = t.run(data, {.steps = 1,
                                             .batch = rows,
                                             .micro_batches = 2,
                                             .seq = length,
                                             .schedule = {.floor = 1},
                                             .clip_norm = 1,
                                             .validation_sequences = 0,
                                             .print = false});
      double targets = 0;
      for (std::int64_t i = 0; i < rows * length; ++i) targets += (i + step) % 9 != 4;
      const double norm = t.store().gradient_norm() / targets;
      if (ctx.is_first()) {
        const std::lock_guard guard(lock);
        out["losses"].push_back(r.loss), out["norms"].push_back(norm);
      }
      if (step != 1) continue;
      t.store().each_parameter([&](const parameter_record& p, auto gradient, auto) {
        const std::lock_guard guard(lock);
        auto& all = out[p.name];
        all.resize(static_cast<std::size_t>(p.global.elements()), NAN);
        for (std::int64_t i = 0; i < p.local.elements(); ++i)
          if (const std::int64_t at = p.at.global_index(i); at >= 0)
            all[static_cast<std::size_t>(at)] = static_cast<double>(gradient[i]) / count;
      });
    }
  });
  return out;
}

// Each number against the largest of its kind; of biases of keys, whose gradient vanishes, against that of their
// weight.
void check(const numbers& right, const numbers& found, double most) {
  CHECK(right.size() == found.size());
  for (const auto& entry : right) {
    const std::string& name = entry.first;
    CAPTURE(name);
    const auto other = found.find(name);
    REQUIRE(other != found.end());
    REQUIRE(other->second.size() == entry.second.size());
    double largest = 0, worst = 0;
    const bool vanishes = name.ends_with("key_bias");
    for (const double x : right.at(vanishes ? name.substr(0, name.size() - 5) : name))
      largest = std::max(largest, std::abs(x));
    for (std::size_t i = 0; i < entry.second.size(); ++i) {
      const double off = std::abs(entry.second[i] - other->second[i]);
      worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
    }
    CHECK(worst <= most * largest);
  }
}

// The same tensors, byte by byte, in however many files.
void check_tensors(const safetensors& right, const safetensors& found) {
  CHECK(right.tensors().size() == found.tensors().size());
  for (const auto& [name, tensor] : right.tensors()) {
    const std::string of(name);
    CAPTURE(of);
    const mapped_tensor* const t = found.find(of);
    REQUIRE(t);
    CHECK(t->entry->type == tensor.entry->type);
    CHECK(t->entry->shape == tensor.entry->shape);
    const auto bytes = static_cast<std::size_t>(tensor.entry->end - tensor.entry->begin);
    REQUIRE(t->entry->end - t->entry->begin == bytes);
    CHECK(std::memcmp(t->data, tensor.data, bytes) == 0);
  }
}
std::ptrdiff_t files_in(const std::string& folder) {
  return std::ranges::count_if(std::filesystem::directory_iterator(folder),
                               [](const auto& entry) { return entry.path().extension() == ".safetensors"; });
}

template <class Family>
void check_family(const std::string& name) {
  const std::string folder = folder_of(name);
  const numbers right = expected(folder);
  const weft_test::temporary_folder here;
  const std::string saved = here / "model.safetensors", several = here / "several",
                    original = folder + "/model.safetensors";
  // Double: the numbers are written with twelve digits. Float: 6e-8 a rounding, some ten of them, and ten steps of
  // AdamW, which makes of a gradient that cancels a step of unsure size.
  using in_double = strategy<mesh<dp, tp, pp>, fp64>;
  using in_float = strategy<mesh<dp, tp, pp>, fp32, zero3, sequence_parallel>;
  SUBCASE("one rank") { check(right, computed<in_double, Family>({}, folder, saved, several), 1e-10); }
  SUBCASE("dp 2 x tp 2 x pp 2") {
    check(right, computed<in_double, Family>({.dp = 2, .tp = 2, .pp = 2}, folder, saved, several), 1e-10);
  }
  SUBCASE("zero3, sequence parallel, dp 2 x tp 2") {
    check(right, computed<in_float, Family>({.dp = 2, .tp = 2}, folder, saved, several), 1e-5);
  }
  SUBCASE("zero3, sequence parallel, dp 2 x tp 2 x pp 2") {
    check(right, computed<in_float, Family>({.dp = 2, .tp = 2, .pp = 2}, folder, saved, several), 1e-5);
  }
  SUBCASE("zero3 in double, dp 2 x tp 4, which may be more than key and value heads") {
    using shared = strategy<mesh<dp, tp, pp>, fp64, zero3, shared_kv<>>;
    check(right, computed<shared, Family>({.dp = 2, .tp = 4}, folder, saved, several), 1e-10);
  }
  if (std::filesystem::exists(original)) CHECK(read_file(saved) == read_file(original));
  check_tensors(safetensors(folder), safetensors(saved));
  check_tensors(safetensors(folder), safetensors(several));
  CHECK(files_in(several) >= (files_in(folder) > 1 ? files_in(folder) : 2));
  CHECK(Family::read(several).resolved() == Family::read(folder).resolved());
}

}  // namespace

// Read under one strategy, written, and read again by one rank: the same logits.
template <class From, class To>
void check_copy(const std::string& name, From&& from, To&& again) {
  using sharded = strategy<mesh<dp, tp, pp>, zero3>;
  using plain = strategy<mesh<>>;
  const weft_test::temporary_folder here;
  const std::string to = here / "copy";
  const auto logits_of = [](auto& p, context& ctx) {
    const recording off(ctx, nullptr);
    using ids = typename std::remove_reference_t<decltype(p.model)>::ids;
    const auto tokens = batches{&ctx}.template train<ids>(1, 0, rows, length).tokens;
    const auto logits = on_host(all_gather<dp>(all_gather<tp>(p.model(tokens))));
    return std::vector<float>(logits.begin(), logits.end());
  };
  std::vector<float> first, second;
  launch<sharded>({.dp = 2, .tp = 2, .pp = 2}, [&](context& ctx) {
    auto p = from.template operator()<sharded>(ctx, folder_of(name));
    save_pretrained(ctx, p.model, p.store, to);
    auto logits = logits_of(p, ctx);
    if (ctx.is_first()) first = std::move(logits);
  });
  launch<plain>({}, [&](context& ctx) {
    auto p = again.template operator()<plain>(ctx, to);
    second = logits_of(p, ctx);
  });
  REQUIRE(first.size() == second.size());
  for (std::size_t i = 0; i < first.size(); ++i)
    CHECK(std::abs(first[i] - second[i]) <= 1e-5);  // of float, in another order
}

TEST_CASE("a model is read from a folder under any strategy, and written to another") {
  const auto llama_from = []<class S>(context& ctx, const std::string& folder) {
    return llama_from_pretrained<S>(ctx, folder);
  };
  const auto gpt2_from = []<class S>(context& ctx, const std::string& folder) {
    return gpt2_from_pretrained<S>(ctx, folder);
  };
  check_copy("qwen3", llama_from, llama_from);
  check_copy("gpt2", gpt2_from, gpt2_from);
}

TEST_CASE("Llama 2") { check_family<llama_family>("llama2"); }
TEST_CASE("Llama 3: grouped queries, stretched positions, tied embeddings") { check_family<llama_family>("llama3"); }
TEST_CASE("Mistral: a sliding window") { check_family<llama_family>("mistral"); }
TEST_CASE("Qwen 2: biases; a folder of several files") { check_family<llama_family>("qwen2"); }
TEST_CASE("Qwen 2 with a window in its second layer") { check_family<llama_family>("qwen2_window"); }
TEST_CASE("Qwen 3: normalised queries and keys") { check_family<llama_family>("qwen3"); }
TEST_CASE("GPT-2: weights by columns, three in one") { check_family<gpt2_family>("gpt2"); }
