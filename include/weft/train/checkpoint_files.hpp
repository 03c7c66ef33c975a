// Which file of a checkpoint holds which tensor, and where, as its manifest says it. Invariant: a file is read only if
// it is the one that was saved with the manifest.
#pragma once

#include <weft/io/json_fields.hpp>
#include <weft/io/safetensors.hpp>

namespace weft::detail {

inline constexpr const char* numbers_file = "state.safetensors";
/// Where a file of numbers says of which checkpoint it is, in its own header.
inline constexpr const char* saved_key = "saved";

/// What the manifest says of a tensor: its slice of the file, [first byte, byte behind the last].
inline nlohmann::ordered_json place_in_file(const safetensors_entry& e, const safetensors_header& h) {
  return {{"dtype", e.type->name}, {"shape", e.shape}, {"bytes", {h.bytes + e.begin, h.bytes + e.end}}};
}

/// {"state.safetensors": {"saved": ..., "tensors": {NAME: {"dtype": "F32", "shape": [...], "bytes": [begin, end]}}}}
inline void write_file_index(json_writer& w, const safetensors_header& h) {
  w.begin_object().key(numbers_file).begin_object();
  const auto saved = h.metadata.find(saved_key);
  w.member("saved", saved == h.metadata.end() ? std::string() : saved->second);
  w.key("tensors").begin_object();
  for (const safetensors_entry& e : h.tensors) w.key(e.name).raw(place_in_file(e, h).dump());
  w.end_object().end_object().end_object();
}

/// Throws unless a checkpoint's file is there and holds what the manifest says of it. said: the manifest's "files".
inline safetensors open_checkpoint_file(const std::string& folder, const nlohmann::json& said) {
  const std::string path = folder + '/' + numbers_file, manifest = folder + "/manifest.json";
  if (said.is_null()) return safetensors(path);  // of the first version
  json_fields files(said, manifest, "files");
  const nlohmann::json none, *const found = files.find(numbers_file);
  files.finish("a checkpoint read without them might be another one");
  json_fields file(found ? *found : none, manifest, text("files.", numbers_file));
  const std::string saved = file.string("saved", "");
  const nlohmann::json* const tensors = file.find("tensors");
  if (!tensors || !tensors->is_object())
    file.fail("tensors", tensors ? *tensors : none, "an object, by tensors' names");
  file.finish("a checkpoint read without them might be another one");
  std::error_code why;
  if (!std::filesystem::exists(path, why))
    throw file_error(text("the checkpoint ", folder, " lacks the file ", numbers_file, ", which holds ",
                          tensors->size(),
                          " tensors by its manifest.json: copy it from where the checkpoint was "
                          "whole, or go on from another one"));
  safetensors out(path);
  std::size_t as_said = 0;
  for (const auto& [name, tensor] : out.tensors()) {
    const auto own = tensor.header->metadata.find(saved_key);
    if (own == tensor.header->metadata.end() || own->second != saved)
      throw file_error(text("the file ", path, " was saved at ",
                            own == tensor.header->metadata.end() ? "a moment that it doesn't say" : own->second,
                            ", and manifest.json beside it at ", saved,
                            ": they are of two checkpoints; put the file back that was saved with it"));
    const auto at = tensors->find(std::string(name));
    const nlohmann::json is = place_in_file(*tensor.entry, *tensor.header);
    if (at == tensors->end() || *at != is)
      throw file_error(text("the file ", path, " has tensor ", in_quotes(name), " as ", is.dump(),
                            ", and manifest.json beside it ",
                            at == tensors->end() ? "doesn't name it" : "says " + at->dump().substr(0, 200),
                            ": they are of two checkpoints; put the file back that was saved with it"));
    ++as_said;
  }
  if (as_said != tensors->size())
    for (const auto& [name, at] : tensors->items())
      if (!out.find(name))
        throw file_error(text("the file ", path, " has no tensor ", in_quotes(name),
                              ", which manifest.json beside it names: they are of two checkpoints; put the file back "
                              "that was saved with it"));
  return out;
}

}  // namespace weft::detail
