// config.json of the Llama and GPT-2 families, and generation_config.json: each input is given to all three. A model's
// configuration that is read and means a model is written and read again, and then means the same; a
// generation_config.json's settings are ones that texts can be written by.
#include <weft/io/gpt2_folder.hpp>
#include <weft/io/llama_folder.hpp>
#include <weft/train/generation_config.hpp>

#include "../source_folder.hpp"
#include "mutations.hpp"
#include "target.hpp"

using namespace weft;

namespace {

// Whether the text is refused as a model's.
template <class Config, class Parse>
bool refused_model(std::string_view text, Parse parse) {
  Config read, whole;
  if (weft_fuzz::refused("f/config.json", [&] { read = parse(parse_json(text, "f/config.json"), "f/config.json"); }))
    return true;
  std::string written;
  try {  // it may be no model, or one that no family of transformers has
    whole = read.resolved();
    written = write_config(read, dtype::f32);
  } catch (const failure&) {
    return false;
  }
  Config again;
  weft_fuzz::held(!weft_fuzz::refused("", [&] { again = parse(parse_json(written, "again"), "again"); }),
                  "what was written is refused: " + written);
  weft_fuzz::held(again.resolved() == whole, "another model when written and read again: " + written);
  weft_fuzz::held(write_config(again, dtype::f32) == written, "another text when written again");
  return false;
}

}  // namespace

std::vector<std::string> weft_fuzz::seeds() {
  std::vector<std::string> out;
  for (const char* name : {"llama2", "llama3", "mistral", "qwen2", "qwen2_window", "qwen3", "gpt2", "gpt2_int8", "nf4"})
    out.push_back(read_file(weft_test::source_file("pretrained/" + std::string(name) + "/config.json")));
  const std::string llama = R"({"model_type":"weft_pruned_llama","hidden_size":24,"intermediate_size":40,)"
                            R"("num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":99,)"
                            R"("max_position_embeddings":64,"layer_groups":[1,2],)";
  for (const char* rope : {R"({"rope_type":"linear","factor":2.0})",
                           R"({"rope_type":"dynamic","factor":2.0,"original_max_position_embeddings":64})",
                           R"({"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":16,"beta_fast":16,)"
                           R"("beta_slow":2,"attention_factor":1.5})",
                           R"({"rope_type":"llama3","factor":8.0,"original_max_position_embeddings":32,)"
                           R"("low_freq_factor":1.0,"high_freq_factor":4.0})"})
    out.push_back(llama + R"("rope_scaling":)" + rope + '}');
  out.push_back(R"({"model_type":"weft_pruned_gpt2","n_embd":24,"n_layer":2,"n_head":4,"n_positions":64,)"
                R"("vocab_size":99,"layer_groups":[3,4]})");
  out.push_back(R"({"do_sample":true,"temperature":0.6,"top_k":40,"top_p":0.9,"min_p":0.1,"repetition_penalty":1.2,)"
                R"("max_new_tokens":30,"eos_token_id":[2,5],"stop_strings":["a","b"],"num_beams":1})");
  out.push_back(R"({"temperature":0.6,"eos_token_id":2,"max_length":4096,"transformers_version":"4.40.0"})");
  return out;
}
std::string weft_fuzz::mutated(std::string input, random_numbers& random) { return mutated_json(input, random); }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  bool no = refused_model<llama_config>(text, parse_llama_config);
  no = refused_model<gpt2_config>(text, parse_gpt2_config) && no;
  no = weft_fuzz::refused("f/generation_config.json",
                          [&] {
                            const std::string path = "f/generation_config.json";
                            const auto c = parse_generation_config(parse_json(text, path), path);
                            weft_fuzz::held(!weft_fuzz::refused("", [&] { check(c.sample); }),
                                            "settings that have no meaning");
                            for (const std::int32_t t : c.end_tokens) weft_fuzz::held(t >= 0, "an end token below 0");
                          }) &&
       no;
  return weft_fuzz::counted(no);
}
