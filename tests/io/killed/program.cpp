// program save FOLDER SEED FILES: saves a small Llama, or its adapters, with numbers and a configuration of this seed;
// FILES: one, many, adapters. program read FOLDER FILES: says the seed of which numbers and configuration are, or why
// they can't be read.
#include <cstdio>

#include <weft/io/adapters.hpp>
#include <weft/weft.hpp>

using namespace weft;

namespace {

using S = strategy<mesh<>, fp32>;
template <int alpha>
using adapted = strategy<mesh<>, fp32, lora<2, alpha>>;

llama_config config_of(int seed) {
  return {.layers = 1, .hidden = 8, .heads = 2, .vocab = 31, .max_seq = 8, .norm_eps = seed * 1e-5};
}
std::vector<double> numbers_of(const parameter_record& p, int seed) {
  return std::vector<double>(static_cast<std::size_t>(p.global.elements()), seed);
}

template <int seed>
void save(const std::string& folder, const std::string& files) {
  launch<adapted<seed>>({}, [&](context& ctx) {
    llama<adapted<seed>> model(ctx, config_of(seed));
    trainer t(ctx, model);
    t.store().load_parameters([&](const parameter_record& p) { return numbers_of(p, seed); });
    if (files == "adapters")
      save_adapters(ctx, model, t.store(), folder);
    else
      save_pretrained(ctx, model, t.store(), folder, dtype::f32, {.most_bytes = files == "one" ? 1 << 30 : 600});
  });
}

// Whether the folder's adapters are those of the seed, which is also their alpha.
template <int seed>
void read_adapters(const std::string& folder) {
  launch<adapted<seed>>({}, [&](context& ctx) {
    llama<adapted<seed>> model(ctx, config_of(seed));
    trainer t(ctx, model);
    load_adapters(ctx, model, t.store(), folder);
    t.store().each_parameter([&](const parameter_record& p, auto, auto w) {
      if (p.adapter) require(w[0] == seed, "adapters of ", w[0], " under an alpha of ", seed);
    });
  });
  std::printf("%d\n", seed);
}
void read(const std::string& folder) {
  launch<S>({}, [&](context& ctx) {
    auto p = llama_from_pretrained<S>(ctx, folder);
    int seed = 0;
    p.store.each_parameter([&](const parameter_record&, auto, auto w) {
      require(seed == 0 || seed == static_cast<int>(w[0]), "weights of ", seed, " and of ", w[0]);
      seed = static_cast<int>(w[0]);
    });
    require(p.model.config() == config_of(seed).resolved(), "weights of ", seed, " under another configuration");
    std::printf("%d\n", seed);
  });
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  try {
    if (given[0] == "save")
      given[2] == "1" ? save<1>(given[1], given[3]) : save<2>(given[1], given[3]);
    else if (given[2] != "adapters")
      read(given[1]);
    else if (detail::read_config(detail::files_of_adapters(given[1])).at("lora_alpha") == 1)
      read_adapters<1>(given[1]);
    else
      read_adapters<2>(given[1]);
  } catch (const std::exception& e) {
    std::puts(e.what());
    return 1;
  }
}
