// The tensors of safetensors files, mapped: one file, or a folder's with its index. Invariant: every tensor's bytes lie
// in a file that is open as long as this is, and no name is in two.
#pragma once

#include <filesystem>
#include <list>
#include <unordered_map>

#include <weft/io/mapped_file.hpp>
#include <weft/io/safetensors_header.hpp>

namespace weft {

/// A tensor in mapped memory: row-major elements of `type`, at `data`, which may lie at any address.
struct mapped_tensor {
  const safetensors_entry* entry = nullptr;
  const char* data = nullptr;
  const std::string* path = nullptr;           // of its file
  const safetensors_header* header = nullptr;  // of its file
};

/// Tensors by name. Source: https://github.com/huggingface/safetensors.
class safetensors {
 public:
  /// `path`: a file, or a folder with model.safetensors or model.safetensors.index.json. Nothing but headers is read.
  /// Throws weft::file_error where a file can't be read or isn't sound, and where index and files disagree.
  explicit safetensors(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code none;
    const std::string one = path + "/model.safetensors", index = path + "/model.safetensors.index.json";
    if (!fs::is_directory(path, none))
      open(path);
    else if (fs::exists(one, none))
      open(one);
    else if (fs::exists(index, none))
      open_indexed(path, index);
    else
      throw file_error(detail::text("the folder ", path, " has neither model.safetensors nor ",
                                    "model.safetensors.index.json; give a folder with weights in safetensors files"));
  }

  /// Null where there is none of this name.
  const mapped_tensor* find(std::string_view name) const {
    const auto at = by_name_.find(name);
    return at == by_name_.end() ? nullptr : &at->second;
  }
  /// By name, in no order.
  const auto& tensors() const { return by_name_; }

 private:
  struct file {
    explicit file(const std::string& path) : bytes(path), header(read_safetensors_header(bytes.bytes(), path)) {}
    mapped_file bytes;
    safetensors_header header;
  };

  template <class Wanted>
  void open(const std::string& path, Wanted&& wanted) {
    const file& f = files_.emplace_back(path);
    for (const safetensors_entry& e : f.header.tensors)
      if (wanted(e.name))
        by_name_[e.name] = {&e, f.bytes.bytes().data() + f.header.bytes + e.begin, &f.bytes.path(), &f.header};
  }
  void open(const std::string& path) {
    open(path, [](const std::string&) { return true; });
  }
  void open_indexed(const std::string& folder, const std::string& index) {
    const nlohmann::json all = read_json(index);
    const auto said = all.is_object() ? all.find("weight_map") : all.end();
    if (said == all.end() || !said->is_object())
      throw file_error(detail::text("the file ", index, " has no object called weight_map, from tensors to files"));
    std::map<std::string, std::string> map;
    std::set<std::string> names;
    for (const auto& [tensor, where] : said->items()) {
      const std::string name = where.is_string() ? where.get<std::string>() : "";
      if (name.empty() || name.find('/') != name.npos || name.find('\0') != name.npos)
        throw file_error(detail::text("the file ", index, " says that tensor ", detail::in_quotes(tensor), " is in ",
                                      where.dump(), ", which is no name of a file beside it"));
      names.insert(map[tensor] = name);
    }
    for (const std::string& name : names)  // a file may have others than those that the index says are there
      open(folder + '/' + name, [&](const std::string& tensor) {
        const auto at = map.find(tensor);
        return at != map.end() && at->second == name;
      });
    for (const auto& [tensor, name] : map)
      if (!find(tensor))
        throw file_error(detail::text("the file ", index, " says that tensor ", detail::in_quotes(tensor), " is in ",
                                      name, ", which has none of this name"));
  }

  std::list<file> files_;  // a list: addresses stay
  std::unordered_map<std::string_view, mapped_tensor> by_name_;
};

}  // namespace weft
