// A text as bytes, read once a process and shared by all its ranks. A token is a byte, so the vocabulary has 256.
// Invariant: a corpus never changes after it was read.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <weft/io/file.hpp>

namespace weft {

/// Entropy of the bytes' frequencies, in nats: what a model that ignores all context can reach at best on this text.
WEFT_LINKED double unigram_entropy(std::string_view text) {
  std::int64_t count[256] = {};
  for (char c : text) ++count[static_cast<unsigned char>(c)];
  double h = 0;
  for (std::int64_t n : count)
    if (n > 0) h -= static_cast<double>(n) * std::log(static_cast<double>(n) / static_cast<double>(text.size()));
  return text.empty() ? 0 : h / static_cast<double>(text.size());
}

/// A text as bytes, which are its tokens; read once and shared by all ranks of the process.
struct text_corpus {
  std::string path;  // named in errors
  std::string bytes;
  double entropy = 0;  // unigram, nats

  text_corpus(std::string from, std::string text)
      : path(std::move(from)), bytes(std::move(text)), entropy(unigram_entropy(bytes)) {
    require(!bytes.empty(), "the corpus ", path, " is empty; give a file with text in it");
  }
};

/// Reads a file, or hands out what another rank of this process has read from it and still holds.
/// Throws weft::failure when the file can't be read or is empty.
inline std::shared_ptr<const text_corpus> open_corpus(const std::string& path) {
  static std::mutex guard;
  static std::vector<std::weak_ptr<const text_corpus>> open;
  const std::lock_guard lock(guard);
  std::erase_if(open, [](const auto& one) { return one.expired(); });
  for (const auto& one : open)
    if (auto held = one.lock(); held && held->path == path) return held;
  std::error_code unknown;
  require(!std::filesystem::is_character_file(path, unknown), "the corpus ", path,
          " is a device, which may never end; give a file with text in it");
  auto made = std::make_shared<const text_corpus>(path, read_file(path));
  open.push_back(made);
  return made;
}

}  // namespace weft
