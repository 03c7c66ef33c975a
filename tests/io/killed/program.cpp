// program save FOLDER SEED FILES [LIKE]: saves a small Llama, or its adapters, with numbers and a configuration of this
// seed; FILES: one, many, adapters, and bare for weights in one file without a configuration. With the tokenizer of
// LIKE the configuration is the same for every seed, but for what LIKE says. program read FOLDER FILES: says the seed
// of which numbers, configuration and tokenizer are, or why they can't be read; of weights without a configuration
// their seed, where they are bare's, and 0 where there is neither. Saving counts its calls where
// tests/train/killed/shim.c is preloaded: at the one that AT names it ends as HOW says; their number goes to the file
// COUNT.
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

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
void save(const std::string& folder, const std::string& files, const std::string& like) {
  launch<adapted<seed>>({}, [&](context& ctx) {
    llama<adapted<seed>> model(ctx, config_of(like.empty() ? seed : 1));
    trainer t(ctx, model);
    t.store().load_parameters([&](const parameter_record& p) { return numbers_of(p, seed); });
    if (files == "adapters")
      save_adapters(ctx, model, t.store(), folder);
    else if (files == "bare")
      save_weights(ctx, t.store(), folder + "/model.safetensors", llama_weight_names);
    else
      save_pretrained(ctx, model, t.store(), folder, dtype::f32,
                      {.like = like, .most_bytes = files == "one" ? 1 << 30 : 600});
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
// Throws unless the folder's tokenizer is the seed's.
void read_tokenizer(const std::string& folder, int seed) {
  const nlohmann::json end = read_config_json(folder).at("eos_token_id");
  require(end.is_null() || end == seed, "the tokens' numbers of ", end.dump(), " beside weights of ", seed);
  for (const std::string& name : detail::taken_files(folder))
    require(read_file(folder + '/' + name) == name + " of " + std::to_string(seed) + '\n', "beside weights of ", seed,
            " a file ", name, " of others");
}
void read(const std::string& folder) {
  const detail::model_files m = detail::files_of_model(folder);
  const bool unconfigured = !detail::is_there(m.config) && detail::renames_left(m).empty(),
             bare = unconfigured && detail::is_there(m.one);
  if (unconfigured && !bare && !detail::is_there(m.index)) return void(std::puts("0"));
  const bool alike = !detail::taken_files(folder).empty();
  launch<S>({}, [&](context& ctx) {
    const llama_config config = bare ? config_of(1) : read_llama_config(folder);
    pretrained<llama<S>> p(ctx, config, folder);
    int seed = 0;
    p.store.each_parameter([&](const parameter_record&, auto, auto w) {
      require(seed == 0 || seed == static_cast<int>(w[0]), "weights of ", seed, " and of ", w[0]);
      seed = static_cast<int>(w[0]);
    });
    require(p.model.config() == config_of(alike ? 1 : seed).resolved(), "weights of ", seed,
            " under another configuration");
    if (!bare) read_tokenizer(folder, seed);
    require(!bare || seed == 1, "weights of ", seed, " without a configuration");
    std::printf("%d\n", seed);
  });
}

template <class F>
F* of_shim(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_DEFAULT, name));
}
std::string setting(const char* name, const char* otherwise) {
  const char* const said = std::getenv(name);
  return said ? said : otherwise;
}
template <class F>
void counted(F&& f) {
  auto* const begin = of_shim<void(int, const char*)>("weft_shim_begin");
  if (!begin) return f();
  begin(std::stoi(setting("AT", "0")), setting("HOW", "kill").c_str());
  f();
  of_shim<void()>("weft_shim_end")();
  if (const std::string file = setting("COUNT", ""); !file.empty())
    write_file(file, std::to_string(std::string_view(of_shim<const char*()>("weft_shim_calls")()).size()));
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  try {
    if (given[0] == "save")
      counted([&] {
        const std::string like = given.size() > 4 ? given[4] : "";
        given[2] == "1" ? save<1>(given[1], given[3], like) : save<2>(given[1], given[3], like);
      });
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
