// Byte-pair encoding (Sennrich et al. 2016) of one piece of text, by the merges of tokenizer.json.
// Invariant: of all merges that are possible, the first of the list is done, of equal ones the leftmost.
#pragma once

#include <cstdint>
#include <cstdio>
#include <limits>
#include <queue>
#include <unordered_map>
#include <vector>

#include <weft/io/tokenizer/byte_level.hpp>
#include <weft/io/tokenizer/step.hpp>

namespace weft::detail {

class bpe {
 public:
  bpe(const nlohmann::json& said, const std::string& path) {
    json_fields f(said, path, "model");
    if (const std::string type = f.string("type", "BPE"); type != "BPE") fail_of_step(path, "model", type);
    f.only("dropout", nullptr);
    byte_fallback_ = f.flag("byte_fallback", false), fuse_unknown_ = f.flag("fuse_unk", false);
    ignore_merges_ = f.flag("ignore_merges", false);
    inner_ = f.string("continuing_subword_prefix", ""), last_ = f.string("end_of_word_suffix", "");
    const nlohmann::json* const vocabulary = f.find("vocab");
    const nlohmann::json* const merges = f.find("merges");
    if (!vocabulary || !vocabulary->is_object())
      throw file_error(text("the file ", path, " has no object model.vocab"));
    if (!merges || !merges->is_array()) throw file_error(text("the file ", path, " has no list model.merges"));
    for (const auto& [token, id] : vocabulary->items()) {
      const auto n = id.is_number_integer() ? id.get<std::int64_t>() : std::int64_t{-1};
      if (n < 0 || n > 0x7FFFFFFF) f.fail("vocab", id, "a number from 0 to 2^31 - 1 for every token");
      ids_[token] = static_cast<std::int32_t>(n);
    }
    if (f.has("unk_token")) {
      const std::string unknown = f.string("unk_token", "");
      unknown_ = id_of(unknown);
      if (unknown_ < 0) f.fail("unk_token", unknown, "a token of vocab");
    }
    for (const nlohmann::json& m : *merges) add_merge(m, f);
    for (int b = 0; b < 256 && byte_fallback_; ++b) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(b));
      bytes_[b] = id_of(name);
    }
    f.finish();
  }

  /// -1: no such token.
  std::int32_t id_of(const std::string& token) const {
    const auto at = ids_.find(token);
    return at == ids_.end() ? -1 : at->second;
  }
  const std::unordered_map<std::string, std::int32_t>& ids() const { return ids_; }

  /// Adds a piece's tokens to `out`.
  void encode(const std::string& piece, std::vector<std::int32_t>& out) const {
    if (ignore_merges_)
      if (const std::int32_t whole = id_of(piece); whole >= 0) return void(out.push_back(whole));
    std::vector<symbol> symbols = symbols_of(piece);
    merge(symbols);
    for (const symbol& s : symbols)
      if (s.id >= 0) out.push_back(s.id);
  }

 private:
  struct symbol {
    std::int32_t id;  // -1: merged into the one before it
    int before, after;
  };
  struct candidate {
    std::uint32_t rank;
    int at;
    std::int32_t left, right;
    bool operator>(const candidate& o) const { return rank != o.rank ? rank > o.rank : at > o.at; }
  };
  struct merged {
    std::uint32_t rank;
    std::int32_t id;
  };
  static std::uint64_t pair(std::int32_t a, std::int32_t b) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32 | static_cast<std::uint32_t>(b);
  }

  void add_merge(const nlohmann::json& m, const json_fields& f) {
    std::string a, b;
    if (m.is_string()) {
      const std::string& both = m.get_ref<const std::string&>();
      const std::size_t space = both.find(' ');
      if (space == both.npos || both.find(' ', space + 1) != both.npos)
        f.fail("merges", m, "two tokens with a space between");
      a = both.substr(0, space), b = both.substr(space + 1);
    } else if (m.is_array() && m.size() == 2 && m[0].is_string() && m[1].is_string()) {
      a = m[0].get<std::string>(), b = m[1].get<std::string>();
    } else {
      f.fail("merges", m, "two tokens");
    }
    const std::string rest = b.starts_with(inner_) ? b.substr(inner_.size()) : b;
    const std::int32_t left = id_of(a), right = id_of(b), both = id_of(a + rest);
    if (left < 0 || right < 0 || both < 0) f.fail("merges", m, "two tokens of vocab that together make a third");
    // Said again, a pair has the later rank: as a map that is filled in order.
    merges_[pair(left, right)] = {next_rank_++, both};
  }

  std::vector<symbol> symbols_of(std::string_view piece) const {
    std::vector<symbol> out;
    bool unknown_before = false;
    const auto add = [&](std::int32_t id) {
      const int at = static_cast<int>(out.size());
      out.push_back({id, at - 1, at + 1});
    };
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t n = character_length(piece.substr(at));
      const std::string_view character = piece.substr(at, n);
      std::string name(character);
      if (at > 0) name = inner_ + name;
      if (at + n == piece.size()) name += last_;
      at += n;
      const std::int32_t id = id_of(name);
      if (id >= 0) {
        add(id), unknown_before = false;
        continue;
      }
      bool as_bytes = byte_fallback_;
      for (const char c : name) as_bytes = as_bytes && bytes_[static_cast<unsigned char>(c)] >= 0;
      if (as_bytes) {
        for (const char c : name) add(bytes_[static_cast<unsigned char>(c)]);
        unknown_before = false;
      } else if (unknown_ >= 0) {
        if (!(unknown_before && fuse_unknown_)) add(unknown_);
        unknown_before = true;
      }
    }
    if (!out.empty()) out.back().after = -1;
    return out;
  }

  void merge(std::vector<symbol>& symbols) const {
    std::priority_queue<candidate, std::vector<candidate>, std::greater<>> queue;
    const auto offer = [&](int at) {
      if (at < 0) return;
      const symbol& s = symbols[static_cast<std::size_t>(at)];
      if (s.after < 0) return;
      const std::int32_t right = symbols[static_cast<std::size_t>(s.after)].id;
      const auto found = merges_.find(pair(s.id, right));
      if (found != merges_.end()) queue.push({found->second.rank, at, s.id, right});
    };
    for (int i = 0; i < static_cast<int>(symbols.size()); ++i) offer(i);
    while (!queue.empty()) {
      const candidate c = queue.top();
      queue.pop();
      symbol& s = symbols[static_cast<std::size_t>(c.at)];
      if (s.id != c.left || s.after < 0) continue;  // merged since
      symbol& next = symbols[static_cast<std::size_t>(s.after)];
      if (next.id != c.right) continue;
      s.id = merges_.at(pair(c.left, c.right)).id;
      next.id = -1;
      s.after = next.after;
      if (s.after >= 0) symbols[static_cast<std::size_t>(s.after)].before = c.at;
      offer(s.before);
      offer(c.at);
    }
  }

  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_map<std::uint64_t, merged> merges_;
  std::uint32_t next_rank_ = 0;
  std::int32_t unknown_ = -1, bytes_[256] = {};
  bool byte_fallback_ = false, fuse_unknown_ = false, ignore_merges_ = false;
  std::string inner_, last_;
};

}  // namespace weft::detail
