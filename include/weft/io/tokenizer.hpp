// Text to tokens and back, as Hugging Face's tokenizers by a tokenizer.json with byte-pair encoding, of GPT-2's byte
// level or in sentencepiece's style. Needs libonig and libutf8proc. Invariant: a step of the file that isn't known is
// an error.
#pragma once

#include <cstdint>
#include <limits>
#include <unordered_map>

#include <weft/io/tokenizer/added_tokens.hpp>
#include <weft/io/tokenizer/bpe.hpp>
#include <weft/io/tokenizer/decoder.hpp>
#include <weft/io/tokenizer/normalizer.hpp>
#include <weft/io/tokenizer/pre_tokenizer.hpp>

namespace weft {

class tokenizer {
 public:
  /// Reads a tokenizer.json. Throws weft::file_error naming what is missing or not known here.
  explicit tokenizer(const std::string& path) : tokenizer(read_json(path), path) {}
  tokenizer(const nlohmann::json& said, const std::string& path) try : tokenizer(json_fields(said, path), path) {
  } catch (const nlohmann::json::exception&) {
    throw file_error(detail::text("the file ", path, " has a value of another kind than a tokenizer.json has there"));
  }

  /// A text's tokens, those that the file puts around every text with them unless `special` is false.
  std::vector<std::int32_t> encode(const std::string& text, bool special = true) const {
    std::vector<std::int32_t> out;
    if (special) out = before_;
    for (const detail::found_piece& raw : added_.cut(text, false)) encode_piece(raw, out);
    if (special) out.insert(out.end(), after_.begin(), after_.end());
    return out;
  }

  /// As encode(text, false), and sets `before` to how many tokens lie before each of `places`, bytes of the text in
  /// ascending order. A token across a place lies behind it; white space that a token takes along isn't a part of it.
  std::vector<std::int32_t> encode_with_places(const std::string& text, const std::vector<std::size_t>& places,
                                               std::vector<std::size_t>& before) const {
    std::vector<std::int32_t> out;
    before.clear();
    const auto next = [&] { return before.size() < places.size() ? places[before.size()] : text.npos; };
    const std::vector<detail::found_piece> pieces = added_.cut(text, false);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const detail::found_piece& raw = pieces[i];
      const std::size_t begin = out.size(), end = i + 1 < pieces.size() ? pieces[i + 1].begin : text.size();
      encode_piece(raw, out);
      while (next() < end) {  // as far as what lies before the place alone has the same tokens
        std::vector<std::int32_t> part;
        if (raw.id < 0 && next() > raw.begin)
          encode_piece({raw.text.substr(0, next() - raw.begin), -1, raw.begin, next()}, part);
        std::size_t same = raw.id >= 0 && next() >= raw.end ? 1 : 0;
        while (same < part.size() && begin + same < out.size() && part[same] == out[begin + same]) ++same;
        before.push_back(std::max(begin + same, before.empty() ? 0 : before.back()));
      }
    }
    before.resize(places.size(), out.size());
    return out;
  }

  /// The text of tokens; without special ones unless `special`. Throws weft::failure where one is not of the
  /// vocabulary.
  std::string decode(const std::vector<std::int32_t>& tokens, bool special = false) const {
    std::vector<std::string> texts;
    for (const std::int32_t id : tokens) {
      const auto at = texts_.find(id);
      require(at != texts_.end(), "token ", id, " is not of the vocabulary, which has ", texts_.size(), " tokens");
      if (special || !at->second.special) texts.push_back(at->second.text);
    }
    if (decode_) return detail::joined_text(decode_(std::move(texts)));
    std::string out;
    for (const std::string& t : texts) (out += out.empty() ? "" : " ") += t;
    return out;
  }

  /// Tokens in all, added ones with them.
  std::int64_t size() const { return static_cast<std::int64_t>(texts_.size()); }
  /// All tokens are below it: size(), or more where numbers are left out.
  std::int64_t end_of_ids() const { return end_of_ids_; }
  /// The token that is written so; -1: none.
  std::int32_t id_of(const std::string& token) const {
    for (const detail::added_token& t : added_.all())
      if (t.content == token) return t.id;
    return model_.id_of(token);
  }

 private:
  struct named {
    std::string text;
    bool special;
  };

  tokenizer(json_fields f, const std::string& path)
      : model_(f.find("model") ? *f.find("model") : nlohmann::json(), path), added_(f.find("added_tokens"), path) {
    f.ignore({"version"});
    f.only("truncation", nullptr), f.only("padding", nullptr);
    if (const nlohmann::json* const j = f.find("normalizer")) normalize_ = detail::read_normalizer(*j, path);
    if (const nlohmann::json* const j = f.find("pre_tokenizer")) cut_ = detail::read_pre_tokenizer(*j, path);
    if (const nlohmann::json* const j = f.find("decoder")) decode_ = detail::read_decoder(*j, path);
    if (const nlohmann::json* const j = f.find("post_processor")) read_post_processor(*j, path);
    f.finish();
    added_.prepare(normalize_);
    for (const auto& [token, id] : model_.ids()) texts_[id] = {token, false};
    for (const detail::added_token& t : added_.all()) texts_[t.id] = {t.content, t.special};
    for (const auto& [id, is] : texts_) end_of_ids_ = std::max<std::int64_t>(end_of_ids_, std::int64_t{id} + 1);
  }

  // A piece of a text that was cut at the tokens which are found before normalising.
  void encode_piece(const detail::found_piece& raw, std::vector<std::int32_t>& out) const {
    if (raw.id >= 0) return void(out.push_back(raw.id));
    const std::string normal = normalize_ ? normalize_(raw.text) : raw.text;
    for (const detail::found_piece& p : added_.cut(normal, true)) {
      if (p.id >= 0) {
        out.push_back(p.id);
        continue;
      }
      std::vector<detail::text_piece> pieces{{p.text, raw.begin == 0 && p.begin == 0}};
      if (cut_) pieces = cut_(std::move(pieces));
      for (const detail::text_piece& piece : pieces) model_.encode(piece.text, out);
    }
  }

  // Of one text alone, which is what a language model reads.
  void read_post_processor(const nlohmann::json& said, const std::string& path) {
    json_fields f(said, path, "post_processor");
    const std::string type = f.string("type", "");
    if (type == "ByteLevel") return;  // of offsets
    if (type == "Sequence") {
      if (const nlohmann::json* const all = f.find("processors"))
        for (const nlohmann::json& one : *all) read_post_processor(one, path);
      return f.finish();
    }
    if (type != "TemplateProcessing") detail::fail_of_step(path, "post_processor", type);
    f.ignore({"pair"});
    const nlohmann::json* const single = f.find("single");
    const nlohmann::json* const tokens = f.find("special_tokens");
    bool behind = false;
    for (const nlohmann::json& one : single ? *single : nlohmann::json::array()) {
      if (one.contains("Sequence")) {
        behind = true;
        continue;
      }
      const std::string id = one.value("/SpecialToken/id"_json_pointer, "");
      if (!tokens || !tokens->contains(id) || !tokens->at(id).contains("ids"))
        f.fail("single", one, "a Sequence, or one of special_tokens");
      for (const nlohmann::json& n : tokens->at(id).at("ids")) {
        const auto number = n.is_number_integer() ? n.get<std::int64_t>() : std::int64_t{-1};
        if (number < 0 || number > std::numeric_limits<std::int32_t>::max())
          f.fail("special_tokens", n, "a token's id, 0 to 2147483647");
        (behind ? after_ : before_).push_back(static_cast<std::int32_t>(number));
      }
    }
    f.finish();
  }

  detail::bpe model_;
  detail::added_tokens added_;
  detail::text_step normalize_;
  detail::cutting_step cut_;
  detail::token_step decode_;
  std::vector<std::int32_t> before_, after_;
  std::unordered_map<std::int32_t, named> texts_;
  std::int64_t end_of_ids_ = 0;
};

}  // namespace weft
