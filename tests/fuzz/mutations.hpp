// Changes of an input: of bytes whatever they are, and of JSON by its values and members, also where it is broken
// already. Invariant: an input's changes are a function of the input and the numbers alone.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "random.hpp"

namespace weft_fuzz {

/// One change of bytes: one of them, a range removed, doubled or moved, or the end cut off.
inline void change_bytes(std::string& s, random_numbers& random) {
  if (s.empty()) s = "x";
  const std::size_t at = random.below(s.size()), n = 1 + random.below(random.one_in(8) ? 64 : 8);
  switch (random.below(7)) {
    case 0:
      s[at] = static_cast<char>(random.below(256));
      break;
    case 1:
      s[at] = static_cast<char>(s[at] ^ 1 << random.below(8));
      break;
    case 2:
      s[at] = random.of(std::string_view("0123456789-+.eE[]{},:\"\\ u\0\x7F\x80\xFF", 29));
      break;
    case 3:
      s.erase(at, n);
      break;
    case 4:
      s.insert(at, s.substr(random.below(s.size()), n));
      break;
    case 5:
      s.replace(at, n, s.substr(random.below(s.size()), n));
      break;
    default:
      if (random.one_in(4))
        s.resize(at);
      else
        s[at] = static_cast<char>(random.below(5));
  }
}

/// A piece of text, bytes begin ... end - 1.
struct span {
  std::size_t begin, end;
};
/// Where the values of a JSON text lie, those within others too, and its members, "key": value each.
struct places {
  std::vector<span> values, members;
};

inline places places_in(std::string_view s) {
  struct open {
    std::size_t begin, key;  // of the bracket, and of the key that waits for its value
  };
  constexpr std::size_t none = std::string_view::npos;
  places out;
  std::vector<open> nesting;
  const auto add = [&](span value) {
    out.values.push_back(value);
    if (!nesting.empty() && nesting.back().key != none)
      out.members.push_back({std::exchange(nesting.back().key, none), value.end});
  };
  for (std::size_t i = 0; i < s.size();) {
    const char c = s[i];
    if (c == '{' || c == '[') {
      nesting.push_back({i++, none});
    } else if (c == '}' || c == ']') {
      ++i;
      if (nesting.empty()) continue;
      const std::size_t begin = nesting.back().begin;
      nesting.pop_back();
      add({begin, i});
    } else if (c == '"') {
      std::size_t end = i + 1;
      while (end < s.size() && s[end] != '"') end += s[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, s.size());
      const std::size_t next = std::min(s.find_first_not_of(" \n\r\t", end), s.size());
      if (next < s.size() && s[next] == ':' && !nesting.empty())
        nesting.back().key = i;
      else
        add({i, end});
      i = end;
    } else if (std::string_view(" \n\r\t,:").find(c) != none) {
      ++i;
    } else {
      const std::size_t end = std::min(s.find_first_of(" \n\r\t,:{}[]\"", i), s.size());
      add({i, end});
      i = end;
    }
  }
  return out;
}

/// Values that files have where they are wrong, or at a type's end.
inline constexpr std::string_view odd_values[] = {"null",
                                                  "true",
                                                  "false",
                                                  "0",
                                                  "-0",
                                                  "-1",
                                                  "1",
                                                  "2",
                                                  "3",
                                                  "7",
                                                  "8",
                                                  "16",
                                                  "0.5",
                                                  "-2.5",
                                                  "1e0",
                                                  "1e-320",
                                                  "1e300",
                                                  "1e400",
                                                  "-1e400",
                                                  "255",
                                                  "256",
                                                  "65535",
                                                  "65536",
                                                  "1073741824",
                                                  "2147483647",
                                                  "2147483648",
                                                  "-2147483648",
                                                  "4294967295",
                                                  "4294967296",
                                                  "1152921504606846976",
                                                  "3074457345618258603",
                                                  "4611686018427387904",
                                                  "4611686018427387905",
                                                  "9223372036854775807",
                                                  "9223372036854775808",
                                                  "-9223372036854775808",
                                                  "-9223372036854775809",
                                                  "18446744073709551615",
                                                  "18446744073709551616",
                                                  "99999999999999999999999999",
                                                  "\"\"",
                                                  "\"a\"",
                                                  "\"(\"",
                                                  "\"\\\\\"",
                                                  "\"[\"",
                                                  "\"(a*)*b\"",
                                                  "\"a{100000}\"",
                                                  "\"\\\\p{L}\"",
                                                  "\"\\u0000\"",
                                                  "\"\\ud800\"",
                                                  "\"\\ud834\\udd1e\"",
                                                  "\"\xC3\xA9\"",
                                                  "\"\xFF\"",
                                                  "\"../x\"",
                                                  "\"/\"",
                                                  "\"\xE2\x96\x81\"",
                                                  "[]",
                                                  "{}",
                                                  "[[]]",
                                                  "[0]",
                                                  "[-1]",
                                                  "[1,2,3]",
                                                  "[null]",
                                                  "[{}]",
                                                  "{\"\":0}",
                                                  "{\"type\":\"Sequence\"}",
                                                  "NaN",
                                                  "Infinity",
                                                  "01",
                                                  "1.",
                                                  ".5",
                                                  "0x10",
                                                  "tru",
                                                  "'a'"};

/// One change of a JSON text.
inline void change_json(std::string& s, random_numbers& random) {
  const places at = places_in(s);
  if (at.values.empty() || random.one_in(8)) return change_bytes(s, random);
  const auto text = [&](span x) { return s.substr(x.begin, x.end - x.begin); };
  const auto put = [&](span x, const std::string& what) { s.replace(x.begin, x.end - x.begin, what); };
  const span value = random.of(at.values);
  switch (random.below(at.members.empty() ? 6 : 10)) {
    case 0: {  // two values change places
      span other = random.of(at.values), first = value;
      if (other.begin < first.begin) std::swap(first, other);
      if (first.end > other.begin) break;
      const std::string a = text(first), b = text(other);
      put(other, a), put(first, b);
      break;
    }
    case 1:
      put(value, text(random.of(at.values)));
      break;
    case 2:
    case 3:
      put(value, std::string(random.of(odd_values)));
      break;
    case 4: {  // nested, sometimes deeper than a stack holds, sometimes never closed
      const std::size_t n = random.one_in(64) ? 100'000 : 1 + random.below(random.one_in(8) ? 600 : 3);
      const bool object = random.one_in(2);
      std::string nested, closed;
      for (std::size_t i = 0; i < n; ++i) nested += object ? "{\"a\":" : "[", closed += object ? '}' : ']';
      put(value, nested + text(value) + (random.one_in(8) ? "" : closed));
      break;
    }
    case 5: {  // a list's members again and again
      const std::string one = text(value);
      std::string many = one;
      for (std::size_t n = random.below(16); n > 0 && many.size() < 4096; --n) (many += ',') += one;
      put(value, random.one_in(2) ? many : '[' + many + ']');
      break;
    }
    case 6: {  // a member said twice
      const span member = random.of(at.members);
      s.insert(member.end, ',' + text(member));
      break;
    }
    case 7: {  // a member less
      span member = random.of(at.members);
      if (member.end < s.size() && s[member.end] == ',')
        ++member.end;
      else if (member.begin > 0 && s[member.begin - 1] == ',')
        --member.begin;
      put(member, "");
      break;
    }
    case 8: {  // a member of another object, or another place
      const std::string member = text(random.of(at.members));
      s.insert(random.of(at.members).begin, member + ',');
      break;
    }
    default: {  // a key of another member
      const span member = random.of(at.members), other = random.of(at.members);
      const auto key = [&](span m) { return span{m.begin, std::min(s.find(':', m.begin), m.end)}; };
      put(key(member), text(key(other)));
    }
  }
}

/// As weft_fuzz::mutated, of JSON.
inline std::string mutated_json(std::string s, random_numbers& random) {
  for (std::size_t n = random.changes(); n > 0; --n) change_json(s, random);
  return s;
}

}  // namespace weft_fuzz
