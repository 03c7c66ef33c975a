// The header of a safetensors file: which tensors it has, and where. Invariant: the tensors' bytes lie one behind
// another, from the header's end to the file's, each as many as its shape and type say.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <weft/core/dtype.hpp>
#include <weft/io/json.hpp>
#include <weft/io/read_json.hpp>

namespace weft {

/// An element type of safetensors files. `bits` of one element; `type`: the library's, where it has one.
struct safetensors_type {
  std::string_view name;
  int bits;
  std::optional<dtype> type = {};
};

/// Every type that a file may have, in the format's order: files are written from the last to the first.
inline constexpr safetensors_type safetensors_types[] = {
    {"BOOL", 8},
    {"F4", 4},
    {"F6_E2M3", 6},
    {"F6_E3M2", 6},
    {"U8", 8, dtype::u8},
    {"I8", 8},
    {"F8_E5M2", 8},
    {"F8_E4M3", 8},
    {"F8_E8M0", 8},
    {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8},
    {"I16", 16},
    {"U16", 16},
    {"F16", 16, dtype::f16},
    {"BF16", 16, dtype::bf16},
    {"I32", 32, dtype::i32},
    {"U32", 32},
    {"F32", 32, dtype::f32},
    {"C64", 64},
    {"F64", 64, dtype::f64},
    {"I64", 64, dtype::i64},
    {"U64", 64},
};

/// A tensor of a file. Its elements lie row-major, little-endian, in the bytes begin ... end - 1 behind the header.
struct safetensors_entry {
  std::string name;
  const safetensors_type* type = nullptr;
  std::vector<std::uint64_t> shape;  // empty: one number
  std::uint64_t begin = 0, end = 0;
};

struct safetensors_header {
  std::uint64_t bytes = 0;                      // of the file before the first tensor's
  std::vector<safetensors_entry> tensors;       // as they lie in the file
  std::map<std::string, std::string> metadata;  // `__metadata__`
};

namespace detail {

inline constexpr std::uint64_t most_header_bytes = 100'000'000;
inline constexpr const char* metadata_name = "__metadata__";

template <class... Parts>
[[noreturn, gnu::cold]] void fail_of_safetensors(const std::string& path, const Parts&... parts) {
  throw file_error(text("the file ", path, " is no sound safetensors file: ", parts...,
                        "; it was cut off or changed after it was written: fetch or write it again"));
}

/// A name as errors say it.
inline std::string in_quotes(std::string_view name) { return '"' + json_escape(name.substr(0, 200)) + '"'; }

/// A member of a tensor's description as a list of whole numbers.
inline std::vector<std::uint64_t> whole_numbers(const std::string& path, const std::string& tensor,
                                                const nlohmann::json& said, const char* member) {
  const auto at = said.find(member);
  if (at == said.end()) fail_of_safetensors(path, "tensor ", tensor, " has no ", member);
  std::vector<std::uint64_t> out;
  if (!at->is_array()) fail_of_safetensors(path, "the ", member, " of tensor ", tensor, " is no list");
  for (const nlohmann::json& n : *at) {
    if (!n.is_number_unsigned())
      fail_of_safetensors(path, "the ", member, " of tensor ", tensor,
                          " has a member that is no whole number from 0 on");
    out.push_back(n.get<std::uint64_t>());
  }
  return out;
}

inline std::uint64_t bytes_of(const std::string& path, const std::string& tensor, const safetensors_entry& e) {
  std::uint64_t bits = static_cast<std::uint64_t>(e.type->bits);
  bool overflows = false;
  // Format's own reader: multiplies in order, so a 0 behind an overflow doesn't save it.
  std::uint64_t elements = 1;
  for (const std::uint64_t n : e.shape) overflows = overflows || __builtin_mul_overflow(elements, n, &elements);
  if (overflows || __builtin_mul_overflow(elements, bits, &bits))
    fail_of_safetensors(path, "the shape of tensor ", tensor, " has more bits than 64 bits count");
  if (bits % 8 != 0) fail_of_safetensors(path, "tensor ", tensor, " ends within a byte");
  return bits / 8;
}

inline safetensors_entry safetensors_entry_of(const std::string& path, const std::string& name,
                                              const nlohmann::json& said) {
  const std::string tensor = in_quotes(name);
  if (!said.is_object()) fail_of_safetensors(path, "tensor ", tensor, " is described by no object");
  safetensors_entry e;
  e.name = name;
  const auto type = said.find("dtype");
  if (type == said.end() || !type->is_string()) fail_of_safetensors(path, "tensor ", tensor, " has no dtype");
  const std::string& wanted = type->get_ref<const std::string&>();
  for (const safetensors_type& t : safetensors_types)
    if (t.name == wanted) e.type = &t;
  if (!e.type) fail_of_safetensors(path, "tensor ", tensor, " has the unknown dtype ", in_quotes(wanted));
  e.shape = whole_numbers(path, tensor, said, "shape");
  const auto offsets = whole_numbers(path, tensor, said, "data_offsets");
  if (offsets.size() != 2) fail_of_safetensors(path, "the data_offsets of tensor ", tensor, " are not two");
  if (said.size() != 3)
    fail_of_safetensors(path, "tensor ", tensor, " has members beside dtype, shape and data_offsets");
  e.begin = offsets[0], e.end = offsets[1];
  if (e.begin > e.end) fail_of_safetensors(path, "tensor ", tensor, " ends before it begins");
  if (const std::uint64_t bytes = bytes_of(path, tensor, e); bytes != e.end - e.begin)
    fail_of_safetensors(path, "tensor ", tensor, " has ", e.end - e.begin, " bytes, where its shape and dtype take ",
                        bytes);
  return e;
}

}  // namespace detail

/// Reads the header of a whole file's bytes; `path` names it in errors. Throws weft::file_error where anything is
/// amiss, as the format's own library does: https://github.com/huggingface/safetensors.
inline safetensors_header read_safetensors_header(std::string_view file, const std::string& path) {
  std::uint64_t n = 0;
  if (file.size() < sizeof n) detail::fail_of_safetensors(path, "it has ", file.size(), " bytes, fewer than 8");
  for (int i = 7; i >= 0; --i) n = n << 8 | static_cast<unsigned char>(file[static_cast<std::size_t>(i)]);
  if (n > detail::most_header_bytes)
    detail::fail_of_safetensors(path, "its header would have ", n, " bytes, more than ", detail::most_header_bytes);
  if (n > file.size() - sizeof n)
    detail::fail_of_safetensors(path, "its header ends at byte ", n + sizeof n, " of ", file.size());
  const std::string_view text = file.substr(sizeof n, n);
  if (!text.starts_with('{')) detail::fail_of_safetensors(path, "its header doesn't begin with {");
  const nlohmann::json all = parse_json(text, path);

  safetensors_header out;
  out.bytes = n + sizeof n;
  for (const auto& [name, said] : all.items()) {
    if (name != detail::metadata_name) {
      out.tensors.push_back(detail::safetensors_entry_of(path, name, said));
      continue;
    }
    const bool strings = said.is_object() &&
                         std::all_of(said.begin(), said.end(), [](const nlohmann::json& v) { return v.is_string(); });
    if (!strings) detail::fail_of_safetensors(path, "its __metadata__ doesn't map strings to strings");
    out.metadata = said.get<std::map<std::string, std::string>>();
  }
  std::sort(out.tensors.begin(), out.tensors.end(), [](const safetensors_entry& a, const safetensors_entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t end = 0;
  for (const safetensors_entry& e : out.tensors) {
    if (e.begin != end)
      detail::fail_of_safetensors(path, "tensor ", detail::in_quotes(e.name), " begins at byte ", e.begin, ", where ",
                                  end, " bytes lie before it");
    end = e.end;
  }
  if (end != file.size() - out.bytes)
    detail::fail_of_safetensors(path, "its tensors have ", end, " bytes, and ", file.size() - out.bytes,
                                " follow the header");
  return out;
}

/// The beginning of the file that has these tensors, to the byte as the format's own library writes it (up to the order
/// of several metadata): sorts them as it does, and sets each one's `begin` and `end`, and header.bytes. `path` names
/// the file in errors. Throws weft::file_error where two tensors have one name, one is called __metadata__, a shape has
/// too many elements, and where the header would be longer than the format allows.
inline std::string write_safetensors_header(safetensors_header& header, const std::string& path) {
  auto& tensors = header.tensors;
  std::sort(tensors.begin(), tensors.end(), [](const safetensors_entry& a, const safetensors_entry& b) {
    return a.type != b.type ? a.type > b.type : a.name < b.name;
  });
  const auto string = [&path](const std::string& s) {
    try {
      return nlohmann::json(s).dump();
    } catch (const nlohmann::json::exception&) {
      throw file_error(detail::text("the file ", path, " can't have a tensor called ", detail::in_quotes(s),
                                    ", whose bytes are no UTF-8"));
    }
  };
  std::string out(sizeof(std::uint64_t), '\0');
  std::set<std::string_view> names{detail::metadata_name};
  const auto member = [&](const std::string& name) -> std::string& {
    return (out += out.back() == '{' ? "" : ",") += string(name) += ':';
  };
  out += '{';
  if (!header.metadata.empty()) {
    member(detail::metadata_name) += '{';
    for (const auto& [name, said] : header.metadata) member(name) += string(said);
    out += '}';
  }
  std::uint64_t end = 0;
  for (safetensors_entry& e : tensors) {
    if (!names.insert(e.name).second)
      throw file_error(detail::text("the file ", path, " can't have two tensors called ", detail::in_quotes(e.name)));
    e.begin = end;
    e.end = end += detail::bytes_of(path, detail::in_quotes(e.name), e);
    member(e.name) += R"({"dtype":")";
    (out += e.type->name) += R"(","shape":[)";
    for (const std::uint64_t n : e.shape) (out += out.back() == '[' ? "" : ",") += std::to_string(n);
    out += detail::text(R"(],"data_offsets":[)", e.begin, ',', e.end, "]}");
  }
  out += '}';
  while (out.size() % sizeof(std::uint64_t) != 0) out += ' ';
  const std::uint64_t n = out.size() - sizeof n;
  if (n > detail::most_header_bytes)
    throw file_error(detail::text("the file ", path, " can't have a header of ", n, " bytes; the format allows ",
                                  detail::most_header_bytes, ": put its tensors into several files"));
  for (std::size_t i = 0; i < sizeof n; ++i) out[i] = static_cast<char>(n >> 8 * i);
  header.bytes = out.size();
  return out;
}

}  // namespace weft
