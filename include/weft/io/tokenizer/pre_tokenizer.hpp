// How a tokenizer cuts text before merging: into words, by patterns, or not at all. Invariant: pieces are never empty.
#pragma once

#include <weft/io/tokenizer/byte_level.hpp>
#include <weft/io/tokenizer/step.hpp>

namespace weft::detail {

/// A piece of a text; `first`: it begins where the whole text does.
struct text_piece {
  std::string text;
  bool first;
};
using cutting_step = std::function<std::vector<text_piece>(std::vector<text_piece>)>;

/// The ranges as they are cut by this behaviour of Split.
inline std::vector<text_range> joined(const std::vector<text_range>& ranges, const std::string& behavior) {
  std::vector<text_range> out;
  bool before = false;  // whether the range before was a match
  if (behavior == "MergedWithNext") {
    for (auto r = ranges.rbegin(); r != ranges.rend(); ++r) {
      if (r->match && !before && !out.empty())
        out.back().begin = r->begin;
      else
        out.push_back(*r);
      before = r->match;
    }
    return {out.rbegin(), out.rend()};
  }
  for (const text_range& r : ranges) {
    const bool joins = behavior == "MergedWithPrevious" ? r.match && !before
                       : behavior == "Contiguous"       ? r.match == before
                                                        : false;
    if (behavior == "Removed" && r.match) continue;
    if (joins && !out.empty())
      out.back().end = r.end;
    else
      out.push_back(r);
    before = r.match;
  }
  return out;
}

/// Each piece cut by f(text), a list of ranges.
template <class F>
cutting_step cut_by(F f) {
  return [f](std::vector<text_piece> pieces) {
    std::vector<text_piece> out;
    for (const text_piece& p : pieces)
      for (const text_range& r : f(p.text))
        if (r.end > r.begin) out.push_back({p.text.substr(r.begin, r.end - r.begin), p.first && r.begin == 0});
    return out;
  };
}
template <class F>
cutting_step each_piece(F f) {
  return [f](std::vector<text_piece> pieces) {
    for (text_piece& p : pieces) p.text = f(std::move(p));
    return pieces;
  };
}
inline cutting_step in_turn(std::vector<cutting_step> steps) {
  return [steps = std::move(steps)](std::vector<text_piece> pieces) {
    for (const cutting_step& step : steps) pieces = step(std::move(pieces));
    return pieces;
  };
}

inline cutting_step cut_at(const std::string& expression, const std::string& path, const std::string& behavior) {
  return cut_by(
      [p = pattern(expression, path), behavior](const std::string& text) { return joined(p.ranges(text), behavior); });
}

inline cutting_step read_metaspace(json_fields& f, const std::string& path) {
  const std::string mark = read_mark(f);
  const std::string scheme = f.string("prepend_scheme", f.flag("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "never" && scheme != "first")
    f.fail("prepend_scheme", scheme, "always, never or first");
  std::vector<cutting_step> steps{each_piece([mark, scheme](text_piece p) {
    std::string out;
    for (const char c : p.text) c == ' ' ? out += mark : out += c;
    const bool prepends = scheme == "always" || (scheme == "first" && p.first);
    return prepends && !out.starts_with(mark) ? mark + out : out;
  })};
  if (f.flag("split", true))
    steps.push_back(cut_by(
        [p = pattern(mark, path)](const std::string& text) { return joined(p.ranges(text), "MergedWithNext"); }));
  return in_turn(std::move(steps));
}

inline cutting_step read_pre_tokenizer(const nlohmann::json& said, const std::string& path) {
  json_fields f(said, path, "pre_tokenizer");
  const std::string type = f.string("type", "");
  std::vector<cutting_step> steps;
  if (type == "Sequence") {
    if (const nlohmann::json* const all = f.find("pretokenizers"))
      for (const nlohmann::json& one : *all) steps.push_back(read_pre_tokenizer(one, path));
  } else if (type == "ByteLevel") {
    f.ignore({"trim_offsets"});
    if (f.flag("add_prefix_space", true))
      steps.push_back(each_piece([](text_piece p) { return p.text.starts_with(' ') ? p.text : ' ' + p.text; }));
    if (f.flag("use_regex", true))
      steps.push_back(
          cut_at(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", path, "Isolated"));
    steps.push_back(each_piece([](text_piece p) { return bytes_as_characters(p.text); }));
  } else if (type == "Split") {
    const std::string behavior = f.string("behavior", "");
    const bool known = behavior == "Isolated" || behavior == "Removed" || behavior == "MergedWithPrevious" ||
                       behavior == "MergedWithNext" || behavior == "Contiguous";
    if (!known) f.fail("behavior", behavior, "Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
    steps.push_back(cut_by(
        [p = read_pattern(f, "pattern", path), behavior, invert = f.flag("invert", false)](const std::string& text) {
          auto ranges = p.ranges(text);
          for (text_range& r : ranges) r.match = r.match != invert;
          return joined(ranges, behavior);
        }));
  } else if (type == "Metaspace") {
    steps.push_back(read_metaspace(f, path));
  } else if (type == "Digits") {
    steps.push_back(cut_at(R"(\p{N})", path, f.flag("individual_digits", false) ? "Isolated" : "Contiguous"));
  } else if (type == "Whitespace") {
    steps.push_back(cut_at(R"(\s+)", path, "Removed"));
    steps.push_back(cut_at(R"(\w+|[^\w\s]+)", path, "Isolated"));
  } else if (type == "WhitespaceSplit") {
    steps.push_back(cut_at(R"(\s)", path, "Removed"));
  } else {
    fail_of_step(path, "pre_tokenizer", type);
  }
  f.finish();
  return in_turn(std::move(steps));
}

}  // namespace weft::detail
