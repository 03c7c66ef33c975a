// Folders that bitsandbytes quantised: the numbers that it makes of them again, bit by bit, whether the store keeps the
// codes or numbers; logits; what is written from them; and what is refused. make_quantised.py made the folders.
#include "quantised.hpp"

#include <cstring>

#include <doctest/doctest.h>

#include <weft/io/adapters.hpp>
#include <weft/io/save_quantised.hpp>

#include "../said_by.hpp"
#include "../temporary.hpp"

using namespace weft;
using weft_test::check_bits, weft_test::check_logits, weft_test::folder_of, weft_test::read, weft_test::read_back;

namespace {

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
  for (const auto& entry : right.weights) {
    const std::vector<float>&numbers = entry.second, &others = found.weights.at(entry.first);
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      CHECK((numbers[i] > 0) == (others[i] > 0));
      worst = std::max(worst, static_cast<double>(std::abs(others[i] - numbers[i])));
      largest = std::max(largest, static_cast<double>(std::abs(numbers[i])));
    }
    CAPTURE(entry.first);
    const bool few = entry.first.find("_proj") != std::string::npos;
    CHECK((worst > 0) == few);
    CHECK(worst <= 0.01 * largest);
  }
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

namespace {

template <class S>
void write_codes(const degrees& ranks, const std::string& from, const std::string& to, dtype type = dtype::f32,
                 std::int64_t most_bytes = 1 << 30) {
  launch<S>(ranks, [&](context& ctx) {
    auto p = llama_from_pretrained<S>(ctx, from);
    save_quantised(ctx, p.model, p.store, to, type, {.like = p.folder, .most_bytes = most_bytes});
  });
}
// Saved under S, a folder has the bytes that transformers and bitsandbytes wrote.
template <class S>
void check_written(const degrees& ranks, const std::string& folder) {
  CAPTURE(folder);
  const weft_test::temporary_folder here;
  write_codes<S>(ranks, folder_of(folder), here / "saved");
  CHECK((read_file(here / "saved/model.safetensors") == read_file(folder_of(folder) + "/model.safetensors")));
  const nlohmann::json config = read_json(here / "saved/config.json"),
                       right = read_json(folder_of(folder) + "/config.json");
  for (const auto& [key, value] : config.at("quantization_config").items())
    CHECK(right.at("quantization_config").at(key) == value);
  for (const char* const name : token_id_fields) CHECK(config.at(name) == right.at(name));
  check_bits(read<exact<dense>>({}, here / "saved"), folder);
}

}  // namespace

TEST_CASE("saved as codes, a folder is what bitsandbytes wrote, byte for byte") {
  check_written<exact<nf4<>>>({}, "nf4");
  check_written<exact<nf4<lora<2>>, zero3>>({.dp = 2, .tp = 2}, "nf4");
  check_written<exact<nf4<>, zero3>>({.dp = 3}, "nf4");
  check_written<exact<int8<>>>({.tp = 2}, "int8");
  check_written<exact<int8<>, zero3>>({.dp = 2, .tp = 2}, "int8");
  check_written<exact<nf4<shared_kv<>>, zero3>>({.tp = 2}, "nf4");
  check_written<exact<int8<shared_kv<>>, zero3>>({.tp = 4}, "int8");  // more ranks than key and value heads
}
TEST_CASE("what was quantised here is written so too, in several files and beside bf16") {
  const weft_test::temporary_folder here;
  using S = exact<nf4<>, zero3>;
  write_codes<S>({.dp = 2, .tp = 2}, folder_of("nf4_single"), here / "one", dtype::bf16);
  write_codes<S>({}, folder_of("nf4_single"), here / "many", dtype::bf16, 5000);
  const safetensors one(here / "one"), many(here / "many");
  CHECK(std::filesystem::exists(here / "many/model.safetensors.index.json"));
  REQUIRE(one.tensors().size() == many.tensors().size());
  for (const auto& [name, t] : one.tensors()) {
    const mapped_tensor* const other = many.find(name);
    REQUIRE(other);
    CHECK(std::string(t.data, t.entry->end - t.entry->begin) ==
          std::string(other->data, other->entry->end - other->entry->begin));
  }
  const mapped_tensor& state = *one.find("model.layers.0.mlp.down_proj.weight.quant_state.bitsandbytes__nf4");
  CHECK(std::string(state.data, state.entry->end - state.entry->begin)
            .find("\"dtype\": \"bfloat16\", \"shape\": [64, 128]") != std::string::npos);
  CHECK(read_json(here / "one/config.json").at("quantization_config").at("bnb_4bit_compute_dtype") == "bfloat16");
  const read_back again = read<S>({.tp = 2}, here / "one"), first = read<S>({}, folder_of("nf4_single"));
  for (const auto& entry : first.weights)
    if (entry.first.find("_proj") != std::string::npos) CHECK((again.weights.at(entry.first) == entry.second));
}
TEST_CASE("numbers of Python") {
  CHECK(detail::python_number(0.2632114887237549) == "0.2632114887237549");
  CHECK(detail::python_number(0) == "0.0");
  CHECK(detail::python_number(3) == "3.0");
  CHECK(detail::python_number(0.0001) == "0.0001");
  CHECK(detail::python_number(2.5e-05) == "2.5e-05");
  CHECK(detail::python_number(1e16) == "1e+16");
}
TEST_CASE("codes that files have no place for aren't saved, nor beside numbers of f64") {
  static constexpr weight_name lines[] = {{"layers.#.query", "q.#.weight", 1, false, 0, 2},
                                          {"layers.#.key", "k.#", 1},
                                          {"layers.#.value", "v.#.weight", 2}};
  const weight_names names{lines};
  launch<exact<nf4<>>>({}, [&](context& ctx) {
    auto p = llama_from_pretrained<exact<nf4<>>>(ctx, folder_of("nf4"));
    CHECK(weft_test::said_by([&] {
            save_quantised(ctx, p.model, p.store, "nowhere", dtype::f64);
          }).find("are f32, bf16 or f16, not fp64") != std::string::npos);
    int refused = 0;
    for (const parameter_unit& u : p.model.registry().units())
      for (const parameter_record& r : u.parameters) {
        std::string tensor;
        if (!detail::named(names, r.name, tensor)) continue;
        const auto said =
            weft_test::said_by([&] { detail::require_tensor_of_codes(r, detail::parts_of(names, r, true).front()); });
        const char* const why =
            r.name.ends_with("query") ? "is a part of the tensor \"q.0.weight\"" : "has no row of 64 for each output";
        CHECK(said.find("parameter " + r.name + " is stored as nf4, and ") == 0);
        CHECK(said.find(why) != std::string::npos);
        ++refused;
      }
    CHECK(refused == 3);
  });
}

namespace {

// The folder's tensors, with the bytes of gate's and up's as one tensor's.
void fuse_gate_and_up(const std::string& from, const std::string& to) {
  const safetensors files(from);
  std::string header = "{", bytes;
  const auto add = [&](const std::string& name, std::string_view type, const std::string& shape,
                       const std::string& data) {
    header += (header.size() > 1 ? ", \"" : "\"") + name + "\": {\"dtype\": \"" + std::string(type) +
              "\", \"shape\": [" + shape + "], \"data_offsets\": [" + std::to_string(bytes.size()) + ", " +
              std::to_string(bytes.size() + data.size()) + "]}";
    bytes += data;
  };
  const auto bytes_of = [&](const std::string& name) {
    const mapped_tensor& t = *files.find(name);
    return std::string(t.data, t.entry->end - t.entry->begin);
  };
  for (const auto& [key, t] : files.tensors()) {
    const std::string name(key);
    const std::size_t at = name.find("gate_proj");
    if (name.find("up_proj") != name.npos) continue;
    const std::string other = at == name.npos ? "" : bytes_of(std::string(name).replace(at, 9, "up_proj"));
    std::string shape;
    for (std::size_t d = 0; d < t.entry->shape.size(); ++d)
      shape += (d ? ", " : "") + std::to_string(t.entry->shape[d] * (d == 0 && at != name.npos ? 2 : 1));
    const bool number = at != name.npos && name.ends_with("weight_format");
    add(at == name.npos ? name : std::string(name).replace(at, 9, "gate_up_proj"), t.entry->type->name, shape,
        number ? other : bytes_of(name) + other);
  }
  header += "}";
  const std::uint64_t length = header.size();
  std::string all(reinterpret_cast<const char*>(&length), sizeof length);
  write_file(to, all + header + bytes);
}

}  // namespace

TEST_CASE("a part of a tensor of codes is quantised again, to the same numbers where scales are by row") {
  static constexpr weight_name lines[] = {
      {"embedding", "model.embed_tokens.weight", 1},
      {"layers.#.attention_norm", "model.layers.#.input_layernorm.weight", 0},
      {"layers.#.query", "model.layers.#.self_attn.q_proj.weight", 1},
      {"layers.#.key", "model.layers.#.self_attn.k_proj.weight", 1},
      {"layers.#.value", "model.layers.#.self_attn.v_proj.weight", 1},
      {"layers.#.out", "model.layers.#.self_attn.o_proj.weight", 2},
      {"layers.#.mlp_norm", "model.layers.#.post_attention_layernorm.weight", 0},
      {"layers.#.gate", "model.layers.#.mlp.gate_up_proj.weight", 1, false, 0, 2},
      {"layers.#.up", "model.layers.#.mlp.gate_up_proj.weight", 1, false, 1, 2},
      {"layers.#.down", "model.layers.#.mlp.down_proj.weight", 1},
      {"norm", "model.norm.weight", 0},
      {"head", "lm_head.weight", 1},
  };
  const weight_names names{lines, {}, "model."};
  const weft_test::temporary_folder here;
  fuse_gate_and_up(folder_of("int8"), here / "fused.safetensors");
  using S = exact<int8<lora<2>>>;
  launch<S>({.tp = 2}, [&](context& ctx) {
    llama<S> model(ctx, read_llama_config(folder_of("int8")));
    trainer t(ctx, model);
    load_weights(ctx, t.store(), safetensors(here / "fused.safetensors"), names);
    save_pretrained(ctx, model, t.store(), here / "saved", dtype::f32);
  });
  check_bits(read<exact<dense>>({}, here / "saved"), "int8");
}

TEST_CASE("a run without numbers is refused each time, can't be saved, and can be given them then") {
  using S = exact<nf4<lora<2>>, zero3>;
  const weft_test::temporary_folder here;
  launch<S>({.dp = 2}, [&](context& ctx) {
    llama<S> model(ctx, read_llama_config(folder_of("nf4")));
    trainer t(ctx, model);
    const weft_test::folder_batches data{&ctx};
    const auto run = [&] {
      t.run(data, {.steps = 1,
                   .batch = weft_test::folder_rows,
                   .seq = weft_test::folder_length,
                   .validation_sequences = 0,
                   .print = false});
    };
    const auto forward = [&] {
      const recording off(ctx, nullptr);
      return model(data.template train<token_ids<S>>(1, 0, weft_test::folder_rows, weft_test::folder_length).tokens);
    };
    const auto refuses = [&](auto&& f) {
      const std::string said = weft_test::said_by(f);
      CHECK(said.find("is stored as nf4, and has no numbers yet") != std::string::npos);
    };
    for (int i = 0; i < 3; ++i) refuses(run), refuses(forward);
    refuses([&] { save_pretrained(ctx, model, t.store(), here / "saved"); });
    refuses([&] { save_quantised(ctx, model, t.store(), here / "saved", dtype::f32); });
    load_weights(ctx, t.store(), safetensors(folder_of("nf4")), llama_weight_names);
    forward();
    run();
  });
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
  const std::string other_order = weft_test::said_by([&] {
    const weft_test::temporary_folder here;
    std::filesystem::copy(folder_of("int8"), here / "f");
    const safetensors files(here / "f");
    const mapped_tensor& order = *files.find("model.layers.0.mlp.up_proj.weight_format");
    std::string bytes = read_file(*order.path);
    const std::uint64_t header = *reinterpret_cast<const std::uint64_t*>(bytes.data());
    bytes[8 + header + order.entry->begin] = 2;
    write_file(*order.path, bytes);
    read<exact<int8<>>>({}, here / "f");
  });
  CHECK(other_order.find("its weight_format isn't 0, rows") != std::string::npos);
  CHECK(said([](const std::string& folder) {
          const safetensors files(folder);
          const mapped_tensor& factors = *files.find("model.layers.0.mlp.up_proj.weight.nested_absmax");
          std::string bytes = read_file(*factors.path);
          const std::uint64_t header = *reinterpret_cast<const std::uint64_t*>(bytes.data());
          const float none = NAN;
          std::memcpy(&bytes[8 + header + factors.entry->begin], &none, sizeof none);
          write_file(*factors.path, bytes);
        }).find("has a number that is not finite") != std::string::npos);
  CHECK(said([](const std::string& folder) {
          std::string config = read_file(folder + "/config.json");
          config.replace(config.find("bitsandbytes\""), 13, "gptq\"        ");
          write_file(folder + "/config.json", config);
        }).find("other weights in few bits aren't read") != std::string::npos);
}
