// Reads what a unit declares, and finds where its kernels are. Invariant: a name that a kernel uses, and that isn't its
// own, was declared before it is read.
#include <cstdlib>
#include <cstring>

#include "words.hpp"

namespace device {

type type_called(std::string_view w) {
  static const std::map<std::string_view, type> known{
      {"pred", {kind::predicate, 0}}, {"b8", {kind::b, 1}},         {"b16", {kind::b, 2}},
      {"b32", {kind::b, 4}},          {"b64", {kind::b, 8}},        {"u8", {kind::u, 1}},
      {"u16", {kind::u, 2}},          {"u32", {kind::u, 4}},        {"u64", {kind::u, 8}},
      {"s8", {kind::s, 1}},           {"s16", {kind::s, 2}},        {"s32", {kind::s, 4}},
      {"s64", {kind::s, 8}},          {"f32", {kind::floating, 4}}, {"f64", {kind::floating, 8}},
      {"f16", {kind::f16, 2}},        {"bf16", {kind::bf16, 2}},    {"f16x2", {kind::f16x2, 4}},
      {"bf16x2", {kind::bf16x2, 4}}};
  const auto at = known.find(w);
  return at == known.end() ? type{} : at->second;
}

std::vector<std::string_view> listed(std::string_view s) {
  std::vector<std::string_view> out;
  int depth = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < s.size(); ++i) {
    depth += s[i] == '{' || s[i] == '[' || s[i] == '(' ? 1 : s[i] == '}' || s[i] == ']' || s[i] == ')' ? -1 : 0;
    if (s[i] == ',' && depth == 0) out.push_back(trimmed(s.substr(first, i - first))), first = i + 1;
  }
  if (const std::string_view last = trimmed(s.substr(first)); !last.empty()) out.push_back(last);
  return out;
}

std::optional<std::uint64_t> number_in(std::string_view s) {
  bool negative = false;
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) negative = s[0] == '-', s = trimmed(s.substr(1));
  if (s.empty() || !std::isdigit(static_cast<unsigned char>(s[0]))) return std::nullopt;
  const std::string text(s);
  const bool is_float = text.size() == 10 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F');
  const bool is_double = text.size() == 18 && text[0] == '0' && (text[1] == 'd' || text[1] == 'D');
  if (is_float || is_double)
    return std::strtoull(text.c_str() + 2, nullptr, 16) ^ (negative ? 1ull << (is_float ? 31 : 63) : 0);
  if (text.find('.') != std::string::npos) {
    const double x = std::strtod(text.c_str(), nullptr) * (negative ? -1 : 1);
    std::uint64_t bits;
    std::memcpy(&bits, &x, 8);
    return bits;
  }
  const std::uint64_t x = std::strtoull(text.c_str(), nullptr, 0);
  return negative ? 0 - x : x;
}

declaration read_declaration(words& from) {
  declaration out;
  bool pointer = false;
  for (;;) {
    const std::string_view w = from.word();
    if (w.empty()) throw refused("PTX, line " + std::to_string(from.line()) + ": a declaration has no name");
    if (w == ".ptr") {
      pointer = true;
    } else if (w == ".align") {  // after .ptr: of what it points to
      const int align = from.number();
      if (!pointer) out.align = static_cast<std::uint32_t>(align);
    } else if (w[0] == '.') {
      if (const type t = type_called(w.substr(1)); t.is != kind::none) out.of = t;
    } else {
      out.name = w;
      break;
    }
  }
  std::uint64_t count = 1;
  while (from.eat('[')) count *= number_in(trimmed(from.until("]"))).value_or(0);
  out.bytes = count * out.of.bytes;
  out.align = std::max<std::uint32_t>(out.align, out.of.bytes);
  return out;
}

namespace {
bool begins_function(words& from) {
  const std::size_t here = from.position();
  const int line = from.line();
  const bool is = from.word() == ".func";
  from.go_back(here, line);
  return is;
}
}  // namespace

ptx_unit::ptx_unit(std::string text, variable_memory& memory) : text_(std::move(text)), memory_(memory) {
  for (std::size_t at = 0; (at = text_.find("//", at)) != std::string::npos;)
    for (; at < text_.size() && text_[at] != '\n'; ++at) text_[at] = ' ';
  read_outside(text_);
}

void ptx_unit::read_outside(std::string_view text) {
  words from(text);
  while (!from.done()) {
    const std::size_t first = from.position();
    const std::string_view w = from.word();
    if (w == ".file") {
      const int number = from.number();
      from.until("\"");
      files_[number] = from.until("\"");
      from.until("\n");
    } else if (w == ".entry") {
      const std::string name(from.word());
      const int line = from.line();
      const std::size_t begins = from.position();
      while (from.peek() != '{' && !from.done()) from.until(")\n");
      from.braces();
      bodies_[name] = {from.from(begins), line};
    } else if (w == ".func") {
      const std::size_t begins = from.position();
      if (from.peek() == '(') from.until(")");  // what it returns
      const std::string name(from.word());
      from.until("{;");
      if (from.from(from.position() - 1) == "{") {
        from.go_back(from.position() - 1, from.line());
        from.braces();
        functions_[name] = from.from(begins);
      }
    } else if (w == ".section") {
      from.until("{");
      from.go_back(from.position() - 1, from.line());
      from.braces();
    } else if (w == ".extern" && begins_function(from)) {  // of the device's run-time, as printf's
      from.until(";");
    } else if (w == ".global" || w == ".const" || w == ".shared" || w == ".extern") {
      std::string_view rest = from.until("{;=");
      rest = from.from(first);
      if (rest.back() == '=') from.until(";");
      read_variable(from.from(first));
    } else if (w == ".visible" || w == ".weak" || w == ".common") {
      continue;
    } else if (w == ".version" || w == ".target" || w == ".address_size") {
      from.until("\n");
    } else if (w == ".pragma" || w == ".alias") {
      from.until(";");
    } else {
      throw refused("PTX, line " + std::to_string(from.line()) + ": '" + std::string(w) + "' isn't known");
    }
  }
}

void ptx_unit::read_variable(std::string_view statement) {
  words from(statement);
  variable v;
  std::string_view w = from.word();
  if (w == ".extern") v.elsewhere = true, w = from.word();
  v.in = w == ".shared" ? space::shared : space::global;
  const declaration d = read_declaration(from);
  v.align = d.align, v.bytes = d.bytes;
  v.first.assign(d.bytes, 0);
  if (from.eat('=')) {
    const std::string_view values = from.peek() == '{' ? from.braces() : from.until(";");
    std::size_t at = 0;
    for (const std::string_view value : listed(values)) {
      const auto bits = number_in(value);
      if (!bits) throw refused("PTX: " + d.name + " begins as what isn't a number: " + std::string(value));
      if (at + d.of.bytes <= v.first.size()) std::memcpy(&v.first[at], &*bits, d.of.bytes);
      at += d.of.bytes;
    }
  }
  if (v.in == space::global) v.address = memory_.hold(v);
  variables_[d.name] = std::move(v);
}

const kernel& ptx_unit::find(const std::string& name) {
  if (const auto made = kernels_.find(name); made != kernels_.end()) return *made->second;
  const auto at = bodies_.find(name);
  if (at == bodies_.end()) throw refused("the program has no PTX of the kernel " + name);
  auto made = std::make_unique<kernel>(read_kernel(name, at->second.text, {variables_, functions_}));
  if (change) change(*made);
  return *(kernels_[name] = std::move(made));
}

std::vector<std::string> ptx_unit::names() const {
  std::vector<std::string> out;
  for (const auto& [name, body] : bodies_) out.push_back(name);
  return out;
}

const std::string& ptx_unit::file(int number) const {
  static const std::string none = "the PTX";
  const auto at = files_.find(number);
  return at == files_.end() ? none : at->second;
}

}  // namespace device
