// From tokens back to text. Invariant: tokens that aren't UTF-8 together become U+FFFD, never an error.
#pragma once

#include <weft/io/json.hpp>
#include <weft/io/tokenizer/byte_level.hpp>
#include <weft/io/tokenizer/step.hpp>

namespace weft::detail {

using token_step = std::function<std::vector<std::string>(std::vector<std::string>)>;

/// Bytes as text, each maximal piece that is no UTF-8 as one U+FFFD (as the standard recommends, and Rust does).
inline std::string lossy_utf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    std::size_t n = utf8_length(bytes);
    if (n > 0) {
      out += bytes.substr(0, n);
    } else {
      out += "\xEF\xBF\xBD";
      // The longest beginning of a character that could have gone on.
      for (n = 1; n < 3 && n < bytes.size(); ++n) {
        bool could = false;
        for (const char* rest : {"\x80", "\xBF", "\x80\x80", "\xBF\xBF"})
          could = could || utf8_length(std::string(bytes.substr(0, n + 1)) + rest) > n + 1;
        if (!could) break;
      }
    }
    bytes.remove_prefix(n);
  }
  return out;
}

inline std::string joined_text(const std::vector<std::string>& tokens) {
  std::string out;
  for (const std::string& t : tokens) out += t;
  return out;
}

/// <0x41>: 0x41; -1: another token.
inline int fallback_byte(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int out = 0;
  for (const char c : {token[3], token[4]}) {
    const std::size_t digit = std::string_view("0123456789ABCDEFabcdef").find(c);
    if (digit == std::string_view::npos) return -1;
    out = out * 16 + static_cast<int>(digit < 16 ? digit : digit - 6);
  }
  return out;
}

/// Neighbouring <0x..> become the text that they are, or a U+FFFD each where they are none.
inline std::vector<std::string> join_fallback_bytes(const std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  std::string bytes;
  const auto flush = [&] {
    bool sound = true;
    for (std::string_view rest = bytes; !rest.empty() && sound;) {
      const std::size_t n = utf8_length(rest);
      sound = n > 0;
      rest.remove_prefix(n);
    }
    if (sound && !bytes.empty()) out.push_back(bytes);
    if (!sound) out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
    bytes.clear();
  };
  for (const std::string& t : tokens)
    if (const int b = fallback_byte(t); b >= 0)
      bytes += static_cast<char>(b);
    else
      flush(), out.push_back(t);
  flush();
  return out;
}

inline token_step read_decoder(const nlohmann::json& said, const std::string& path) {
  json_fields f(said, path, "decoder");
  const std::string type = f.string("type", "");
  token_step out;
  if (type == "Sequence") {
    std::vector<token_step> steps;
    if (const nlohmann::json* const all = f.find("decoders"))
      for (const nlohmann::json& one : *all) steps.push_back(read_decoder(one, path));
    out = [steps](std::vector<std::string> tokens) {
      for (const token_step& step : steps) tokens = step(std::move(tokens));
      return tokens;
    };
  } else if (type == "ByteLevel") {
    f.ignore({"add_prefix_space", "trim_offsets", "use_regex"});
    out = [](const std::vector<std::string>& tokens) {
      std::string bytes;
      for (const std::string& t : tokens) bytes += characters_as_bytes(t).value_or(t);
      return std::vector{lossy_utf8(bytes)};
    };
  } else if (type == "Replace") {
    out = [from = read_pattern(f, "pattern", path), to = f.string("content", "")](std::vector<std::string> tokens) {
      for (std::string& t : tokens) {
        std::string replaced;
        for (const text_range& r : from.ranges(t)) replaced += r.match ? to : t.substr(r.begin, r.end - r.begin);
        t = replaced;
      }
      return tokens;
    };
  } else if (type == "ByteFallback") {
    out = join_fallback_bytes;
  } else if (type == "Fuse") {
    out = [](const std::vector<std::string>& tokens) { return std::vector{joined_text(tokens)}; };
  } else if (type == "Strip") {
    out = [content = f.string("content", " "), start = f.whole_number("start", 0),
           stop = f.whole_number("stop", 0)](std::vector<std::string> tokens) {
      for (std::string& t : tokens) {
        for (std::int64_t i = 0; i < start && !content.empty() && t.starts_with(content); ++i)
          t.erase(0, content.size());
        for (std::int64_t i = 0; i < stop && !content.empty() && t.ends_with(content); ++i)
          t.resize(t.size() - content.size());
      }
      return tokens;
    };
  } else if (type == "Metaspace") {
    f.ignore({"split"});
    const bool drops = f.string("prepend_scheme", f.flag("add_prefix_space", true) ? "always" : "never") != "never";
    out = [mark = read_mark(f), drops](std::vector<std::string> tokens) {
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        std::string spaced;
        for (std::string_view t = tokens[i]; !t.empty();) {
          if (t.starts_with(mark)) {
            if (i > 0 || !drops) spaced += ' ';
            t.remove_prefix(mark.size());
          } else {
            spaced += t[0];
            t.remove_prefix(1);
          }
        }
        tokens[i] = spaced;
      }
      return tokens;
    };
  } else {
    fail_of_step(path, "decoder", type);
  }
  f.finish();
  return out;
}

}  // namespace weft::detail
