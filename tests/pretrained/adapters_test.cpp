// Adapters that peft saved, against what it computes with them: logits, gradients, losses of ten steps and merged
// weights. make_adapters.py made both.
#include <cmath>
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

// As the adapters in the folder are.
struct some_adapters : lora<3, 6> {
  static bool adapts_weight(std::string_view name) {
    for (const char* end : {".query", ".value", ".out", ".down"})
      if (name.ends_with(end)) return true;
    return false;
  }
};
// The same, said as peft says it.
struct listed_adapters : lora<3, 6> {
  static constexpr std::string_view target_modules[] = {"query", "value", "out", "layers.0.down", "layers.1.down"};
};
struct dropping : some_adapters {
  static constexpr double dropout = 0.05;
};
constexpr int steps = 10;

std::string here(const std::string& name) { return weft_test::source_file("pretrained/" + name); }

// Of one model, with the adapters of the folder `adapters` or as they are born.
template <class S, class F>
void with_model(const degrees& ranks, const std::string& adapters, F&& f) {
  launch<S>(ranks, [&](context& ctx) {
    llama<S> model(ctx, read_llama_config(here("llama3")));
    trainer t(ctx, model, adamw{.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1});
    load_weights(ctx, t.store(), safetensors(here("llama3")), llama_weight_names);
    if (!adapters.empty()) load_adapters(ctx, model, t.store(), adapters);
    f(ctx, model, t);
  });
}

void check_close(const std::vector<double>& right, const std::vector<double>& found, double most) {
  REQUIRE(right.size() == found.size());
  double largest = 0, worst = 0;
  for (std::size_t i = 0; i < right.size(); ++i)
    largest = std::max(largest, std::abs(right[i])), worst = std::max(worst, std::abs(right[i] - found[i]));
  CHECK(worst <= most * largest);
}

// peft's tensor of a factor's gradient, by the parameter's name.
std::string tensor_of(const parameter_record& p) { return detail::adapter_name_of(llama_weight_names, p).tensor(); }

template <class S>
void check_against_peft(const degrees& ranks, double most) {
  const nlohmann::json right = read_json(here("adapters/expected.json"));
  const weft_test::temporary_folder place;
  std::vector<double> logits, losses;
  std::map<std::string, std::vector<double>> gradients;
  std::mutex lock;
  with_model<S>(ranks, here("adapters"), [&](context& ctx, llama<S>& model, auto& t) {
    save_adapters(ctx, model, t.store(), place / "adapters", dtype::f64);
    save_merged(ctx, model, t.store(), place / "merged", dtype::f64);
    const weft_test::folder_batches data{&ctx};
    {
      const recording off(ctx, nullptr);
      const auto y = on_host(all_gather<dp>(all_gather<tp>(
          model(data.template train<token_ids<S>>(1, 0, weft_test::folder_rows, weft_test::folder_length).tokens))));
      if (ctx.is_first()) logits.assign(y.begin(), y.end());
    }
    double count = 0;
    for (std::int64_t i = 0; i < weft_test::folder_rows * weft_test::folder_length; ++i) count += (i + 1) % 9 != 4;
    for (int step = 1; step <= steps; ++step) {
      const training_result r = t.run(data, {.steps = 1,
                                             .batch = weft_test::folder_rows,
                                             .micro_batches = 2,
                                             .seq = weft_test::folder_length,
                                             .schedule = {.floor = 1},
                                             .clip_norm = 1,
                                             .validation_sequences = 0,
                                             .print = false});
      if (ctx.is_first()) losses.push_back(r.loss);
      if (step != 1) continue;
      t.store().each_parameter([&](const parameter_record& p, auto gradient, auto) {
        if (!p.trained) return;
        CHECK(p.adapter);
        const std::lock_guard guard(lock);
        auto& all = gradients[tensor_of(p)];
        all.resize(static_cast<std::size_t>(p.global.elements()), NAN);
        for (std::int64_t i = 0; i < p.local.elements(); ++i)
          if (const std::int64_t at = p.at.global_index(i); at >= 0)
            all[static_cast<std::size_t>(at)] = static_cast<double>(gradient[i]) / count;
      });
    }
  });
  check_close(right.at("logits"), logits, most);
  check_close(right.at("losses"), losses, most);
  CHECK(gradients.size() == right.at("gradients").size());
  for (const auto& [name, numbers] : right.at("gradients").items()) {
    const std::string tensor = name;
    CAPTURE(tensor);
    check_close(numbers, gradients["base_model.model." + tensor], most);
  }
  const safetensors merged(place / "merged");
  for (const auto& [name, numbers] : right.at("merged").items()) {
    const std::string tensor = name;
    CAPTURE(tensor);
    const mapped_tensor* const t = merged.find(tensor);
    REQUIRE(t);
    std::vector<double> found(numbers.size());
    std::memcpy(found.data(), t->data, found.size() * sizeof(double));
    check_close(numbers, found, most);
  }
  CHECK(!std::filesystem::exists(place / "merged/adapters.merging"));
  if (std::is_same_v<typename S::precision::master, double>)
    CHECK(read_file(place / "adapters/adapter_model.safetensors") ==
          read_file(here("adapters/adapter_model.safetensors")));
}

}  // namespace

TEST_CASE("adapters of peft: logits, gradients, losses, merged weights, and the bytes that are saved") {
  SUBCASE("one rank") { check_against_peft<strategy<mesh<dp, tp, pp>, fp64, some_adapters>>({}, 1e-10); }
  SUBCASE("dp 2 x tp 2 x pp 2") {
    check_against_peft<strategy<mesh<dp, tp, pp>, fp64, some_adapters>>({.dp = 2, .tp = 2, .pp = 2}, 1e-10);
  }
  SUBCASE("zero3, sequence parallel, dp 2 x tp 2") {
    check_against_peft<strategy<mesh<dp, tp, pp>, fp32, zero3, sequence_parallel, some_adapters>>({.dp = 2, .tp = 2},
                                                                                                  1e-5);
  }
  SUBCASE("tp 4, more than key and value heads") {
    check_against_peft<strategy<mesh<dp, tp, pp>, fp64, zero3, shared_kv<some_adapters>>>({.tp = 4}, 1e-10);
  }
}

TEST_CASE("a merged folder is a model without adapters that computes the same, and the adapters' own stays") {
  using S = strategy<mesh<dp, tp>, fp64, zero3, some_adapters>;
  using dense_one = strategy<mesh<>, fp64>;
  const weft_test::temporary_folder place;
  std::vector<double> before, after, merged;
  const auto logits_of = [](context& ctx, auto& model) {
    const recording off(ctx, nullptr);
    using ids = typename std::remove_reference_t<decltype(model)>::ids;
    const auto y = on_host(
        all_gather<dp>(all_gather<tp>(model(weft_test::folder_batches{&ctx}.template train<ids>(1, 0, 4, 6).tokens))));
    return std::vector<double>(y.begin(), y.end());
  };
  with_model<S>({.dp = 2, .tp = 2}, here("adapters"), [&](context& ctx, llama<S>& model, auto& t) {
    auto first = logits_of(ctx, model);
    save_merged(ctx, model, t.store(), place / "merged", dtype::f64, {.like = here("llama3")});
    auto second = logits_of(ctx, model);
    if (ctx.is_first()) before = first, after = second;
  });
  launch<dense_one>({}, [&](context& ctx) {
    auto p = llama_from_pretrained<dense_one>(ctx, place / "merged");
    merged = logits_of(ctx, p.model);
  });
  CHECK(before == after);
  CHECK(read_json(place / "merged/config.json").at("eos_token_id") == 2);
  check_close(before, merged, 1e-12);
}

TEST_CASE("where a merged folder can't be written, no adapters are left in it") {
  const weft_test::temporary_folder place;
  for (const char* const taken : {"/model.safetensors", "/adapters.merging"}) {
    const std::string folder = place / "merged";
    std::filesystem::create_directories(folder + taken + "/full");
    CHECK(weft_test::said_by([&] {
            with_model<strategy<mesh<dp>, fp64, some_adapters>>(
                {.dp = 2}, here("adapters"),
                [&](context& ctx, auto& model, auto& t) { save_merged(ctx, model, t.store(), folder, dtype::f64); });
          }).find(folder + taken + " can't be written: ") != std::string::npos);
    std::filesystem::remove_all(folder + taken);
    CHECK(std::filesystem::is_empty(folder));
  }
}

TEST_CASE("merging leaves the biases beside adapted weights as they are") {
  using S = strategy<mesh<dp, tp>, fp64, zero3, some_adapters>;
  using dense_one = strategy<mesh<>, fp64>;
  const weft_test::temporary_folder place;
  std::vector<double> right, merged;
  const auto logits_of = [](context& ctx, auto& model) {
    const recording off(ctx, nullptr);
    using ids = typename std::remove_reference_t<decltype(model)>::ids;
    const auto y = on_host(
        all_gather<dp>(all_gather<tp>(model(weft_test::folder_batches{&ctx}.template train<ids>(1, 0, 4, 6).tokens))));
    return std::vector<double>(y.begin(), y.end());
  };
  launch<S>({.dp = 2, .tp = 2}, [&](context& ctx) {
    pretrained<llama<S>> p(ctx, read_llama_config(here("qwen2")), here("qwen2"));  // adapters are beside queries
    p.store.load_parameters([](const parameter_record& r) -> std::optional<std::vector<double>> {
      if (!r.adapter) return {};
      std::vector<double> numbers(static_cast<std::size_t>(r.global.elements()));
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.1 * static_cast<double>(i % 7) - 0.3;
      return numbers;
    });
    auto y = logits_of(ctx, p.model);
    save_merged(ctx, p.model, p.store, place / "merged", dtype::f64);
    if (ctx.is_first()) right = std::move(y);
  });
  launch<dense_one>({}, [&](context& ctx) {
    auto p = llama_from_pretrained<dense_one>(ctx, place / "merged");
    merged = logits_of(ctx, p.model);
  });
  check_close(right, merged, 1e-12);
}

TEST_CASE("dropout's rate is written, another one is read, and merging knows nothing of it") {
  const weft_test::temporary_folder place;
  const auto merged = [&]<class Form>(Form, const std::string& to) {
    with_model<strategy<mesh<dp>, fp64, Form>>({.dp = 2}, here("adapters"), [&](context& ctx, auto& model, auto& t) {
      save_merged(ctx, model, t.store(), place / to, dtype::f64);
      save_adapters(ctx, model, t.store(), place / "saved", dtype::f64);
    });
    return read_file(place / to + "/model.safetensors");
  };
  const std::string plain = merged(some_adapters(), "plain");
  CHECK(read_json(place / "saved/adapter_config.json").at("lora_dropout") == 0.0);
  CHECK(merged(dropping(), "dropping") == plain);
  CHECK(read_json(place / "saved/adapter_config.json").at("lora_dropout") == 0.05);
  with_model<strategy<mesh<dp>, fp64, some_adapters>>({.dp = 2}, place / "saved", [](auto&...) {});
}

TEST_CASE("adapters that don't fit are refused with what is amiss") {
  using S = strategy<mesh<dp>, fp64, some_adapters>;
  const weft_test::temporary_folder place;
  const auto copy = [&](const char* name, auto change) {
    const std::string to = place / name;
    std::filesystem::copy(here("adapters"), to);
    nlohmann::json config = read_json(to + "/adapter_config.json");
    change(config);
    write_file(to + "/adapter_config.json", config.dump());
    return to;
  };
  const auto refused = [&](const std::string& folder, const char* sentence) {
    CHECK_THROWS_WITH_AS(with_model<S>({.dp = 2}, folder, [](auto&...) {}), doctest::Contains(sentence), failure);
  };
  refused(copy("rank", [](auto& c) { c["r"] = 4; }), "r is 4, and has to be 3");
  refused(copy("scale", [](auto& c) { c["lora_alpha"] = 3; }), "the program has to be lora<3, 3>");
  refused(copy("dora", [](auto& c) { c["use_dora"] = true; }), "fields that aren't known here: use_dora");
  refused(copy("bias", [](auto& c) { c["bias"] = "all"; }), "bias is \"all\"");
  refused(copy("pissa", [](auto& c) { c["init_lora_weights"] = "pissa_niter_4"; }),
          "init_lora_weights is \"pissa_niter_4\", and has to be true, false, gaussian, eva or orthogonal");
  refused(place / "none", "adapter_config.json can't be read");
  struct fewer : lora<3, 6> {
    static bool adapts_weight(std::string_view name) { return name.ends_with(".query"); }
  };
  using T = strategy<mesh<dp>, fp64, fewer>;
  CHECK_THROWS_WITH_AS(with_model<T>({.dp = 2}, here("adapters"), [](auto&...) {}),
                       doctest::Contains("down_proj.lora_A"), failure);
  with_model<T>({.dp = 2}, "", [](context& ctx, auto& model, auto& t) {  // and its own stay as they were
    CHECK(!weft_test::said_by([&] { load_adapters(ctx, model, t.store(), here("adapters")); }).empty());
    t.store().each_parameter([](const parameter_record& p, auto, auto w) {
      if (p.name.ends_with(".lora_b")) CHECK(std::all_of(w.begin(), w.end(), [](double x) { return x == 0; }));
    });
  });
  using U = strategy<mesh<dp>, fp64, lora<3, 6>>;
  CHECK_THROWS_WITH_AS(with_model<U>({.dp = 2}, here("adapters"), [](auto&...) {}),
                       doctest::Contains("target_modules is [\"o_proj\",\"q_proj\",\"down_proj\",\"v_proj\"], and the "
                                         "program has an adapter beside model.layers.0.self_attn.k_proj"),
                       failure);
}

TEST_CASE("weights with adapters by their names' endings, and a file's target_modules as a pattern") {
  CHECK(detail::has_adapter<listed_adapters>("layers.0.query"));
  CHECK(detail::has_adapter<listed_adapters>("query"));
  CHECK(!detail::has_adapter<listed_adapters>("layers.0.my_query"));
  CHECK(!detail::has_adapter<listed_adapters>("layers.0.key"));
  CHECK(!detail::has_adapter<listed_adapters>("layers.10.down"));
  CHECK(detail::has_adapter<listed_adapters>("layers.0.down"));
  using S = strategy<mesh<dp>, fp64, listed_adapters>;
  const weft_test::temporary_folder place;
  const auto with_targets = [&](const char* name, const nlohmann::json& targets) {
    const std::string to = place / name;
    std::filesystem::copy(here("adapters"), to);
    nlohmann::json config = read_json(to + "/adapter_config.json");
    config["target_modules"] = targets;
    write_file(to + "/adapter_config.json", config.dump());
    return to;
  };
  const auto loaded = [](const std::string& folder) { with_model<S>({.dp = 2}, folder, [](auto&...) {}); };
  loaded(with_targets("pattern", "model\\.layers\\.\\d+\\.(self_attn\\.[qvo]_proj|mlp\\.down_proj)"));
  loaded(with_targets("all", "all-linear"));
  loaded(with_targets("python", "(?P<n>.*)_proj"));  // a pattern that is Python's alone
  CHECK_THROWS_WITH_AS(loaded(with_targets("fewer", ".*[qv]_proj")),
                       doctest::Contains("and the program has an adapter beside model.layers.0.self_attn.o_proj"),
                       failure);
  // What is written names every module whole, which peft reads as endings.
  with_model<S>({.dp = 2}, here("adapters"), [&](context& ctx, auto& model, auto& t) {
    save_adapters(ctx, model, t.store(), place / "saved", dtype::f64);
  });
  loaded(place / "saved");
  CHECK(read_file(place / "saved/adapter_model.safetensors") == read_file(here("adapters/adapter_model.safetensors")));
}
