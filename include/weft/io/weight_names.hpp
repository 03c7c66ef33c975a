// What a family of models calls its weights in files: a table from a model's parameters to tensors, and loading by it.
// Invariant: every parameter is read from one tensor of the table, and every tensor of the files is of it.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include <weft/io/pruned_parts.hpp>
#include <weft/nn/parameters.hpp>
#include <weft/tensor/agree.hpp>
#include <weft/tensor/gather_text.hpp>

namespace weft {

/// A line of the table. '#' stands for a layer's number, the same in both names.
struct weight_name {
  std::string_view parameter, tensor;
  int columns = 1;  // how many of the parameter's last dimensions make the tensor's last; 0: a tensor of one dimension
  bool transposed = false;     // rows and columns change places
  int part = 0, of_parts = 1;  // of the tensor's rows (if transposed, columns), which this parameter has
};

/// A family's table.
struct weight_names {
  std::span<const weight_name> lines;
  std::span<const std::string_view> ignored = {};  // endings of tensors that files may have and no model reads
  std::string_view prefix = {};  // of names in files of a whole model; where they are of its trunk alone it isn't there
};

namespace detail {

/// What PyTorch calls a floating type.
inline const char* torch_name(dtype type) {
  const char* const names[] = {"float64", "float32", "bfloat16", "float16"};
  require(type <= dtype::f16, "weights are saved as f64, f32, bf16 or f16, not as ", name_of(type));
  return names[static_cast<int>(type)];
}

/// The line for a parameter, and its tensor's name; null: none.
inline const weight_name* named(const weight_names& names, std::string_view parameter, std::string& tensor) {
  for (const weight_name& n : names.lines) {
    const std::size_t at = n.parameter.find('#');
    require((at == n.parameter.npos) == (n.tensor.find('#') == n.tensor.npos), "the table's line for parameter ",
            n.parameter, ", tensor ", in_quotes(n.tensor),
            ": one has '#' for a layer's number, and the other of its two names hasn't; write it in both");
    if (at == n.parameter.npos) {
      if (n.parameter != parameter) continue;
      tensor = n.tensor;
      return &n;
    }
    const std::string_view before = n.parameter.substr(0, at), after = n.parameter.substr(at + 1);
    if (!parameter.starts_with(before) || !parameter.ends_with(after) ||
        parameter.size() <= before.size() + after.size())
      continue;
    const std::string_view number = parameter.substr(at, parameter.size() - before.size() - after.size());
    if (number.find_first_not_of("0123456789") != number.npos) continue;
    tensor = n.tensor;
    tensor.replace(tensor.find('#'), 1, number);
    return &n;
  }
  return nullptr;
}

/// The whole of a parameter in the tensor of this line.
inline tensor_part part_of(const weight_name& n, std::string tensor, const shape& global) {
  tensor_part p;
  p.tensor = std::move(tensor);
  p.extent = global;
  std::int64_t rows = 1, columns = 1;
  for (int d = 0; d < global.ndim; ++d) (d < global.ndim - n.columns ? rows : columns) *= global[d];
  const std::int64_t all = rows * n.of_parts;
  if (n.columns == 0)
    p.tensor_shape = {all};
  else
    p.tensor_shape = n.transposed ? std::vector{columns, all} : std::vector{all, columns};
  std::int64_t row = n.transposed ? 1 : columns, column = n.transposed ? all : 1;
  p.offset = n.part * rows * row;
  p.first = p.stride = global;
  for (int d = global.ndim - 1; d >= 0; --d) {
    std::int64_t& step = d < global.ndim - n.columns ? row : column;
    p.first[d] = 0;
    p.stride[d] = step;
    step *= global[d];
  }
  return p;
}

/// The lines of all lists, each of which ends with one.
inline std::set<std::string_view> all_lines(const std::vector<std::string>& lists) {
  std::set<std::string_view> out;
  for (const std::string_view list : lists)
    for (std::size_t at = 0, end; at < list.size(); at = end + 1) {
      end = list.find('\n', at);
      out.insert(list.substr(at, end - at));
    }
  return out;
}

/// Throws where a line can't be meant of a parameter of this shape.
inline void check_line(const weight_name& n, std::string_view tensor, const parameter_record& p) {
  const auto line = [&] { return text("the table's line for parameter ", p.name, ", tensor ", in_quotes(tensor)); };
  const auto prints = [](const char c) { return static_cast<unsigned char>(c) >= 0x20; };
  require(!tensor.empty() && std::all_of(tensor.begin(), tensor.end(), prints), line(),
          ": a tensor's name isn't empty and has no control characters; give it another");
  require(n.of_parts >= 1 && n.part >= 0 && n.part < n.of_parts, line(), ": part ", n.part, " of ", n.of_parts,
          " is none; parts go from 0 to of_parts - 1");
  require(n.columns >= 0 && n.columns <= p.global.ndim, line(), ": ", n.columns,
          " of its dimensions make the tensor's last, and it has ", p.global.ndim);
}
/// Where a parameter, of these extents, lies in the files of a family. `few_bits`: in a tensor of these, which
/// bitsandbytes has by rows of the output, whatever the family's own order is. Throws weft::file_error where the family
/// has no line for it.
inline tensor_part part_in(const weight_names& names, const parameter_record& p, const shape& global, bool few_bits) {
  std::string tensor;
  const weight_name* const line = named(names, p.name, tensor);
  if (!line)
    throw file_error(
        text("parameter ", p.name, " has no tensor in such files: its family's names have no line for it"));
  check_line(*line, tensor, p);
  weight_name as = *line;
  as.transposed = as.transposed && !few_bits;
  return part_of(as, std::move(tensor), global);
}
/// The same of a parameter as it is.
inline std::vector<tensor_part> parts_of(const weight_names& names, const parameter_record& p, bool few_bits = false) {
  return {part_in(names, p, p.global, few_bits)};
}
/// The same in files that are there, which may have it in few bits, or be of a trunk alone.
inline tensor_part part_in(const safetensors& files, const weight_names& names, const parameter_record& p,
                           const shape& global) {
  tensor_part part = part_in(names, p, global, false);
  std::string tensor = part.tensor;
  if (!files.find(tensor) && tensor.starts_with(names.prefix))
    if (std::string trunk = tensor.substr(names.prefix.size()); files.find(trunk)) tensor = std::move(trunk);
  if (const mapped_tensor* const found = files.find(tensor); found && found->entry->type->bits == 8)
    part = part_in(names, p, global, true);
  part.tensor = std::move(tensor);
  return part;
}

/// Throws on all ranks unless the parameters, of which each rank tells its own by `each`, fill their tensors, each part
/// being one parameter's.
template <class EachParameter>
void check_filled(context& ctx, const weight_names& names, EachParameter&& each) {
  std::string own;
  const auto tell = [&](const parameter_record& p) {
    parts_of(names, p);  // throws where its line can't be meant
    std::string tensor, sizes;
    const weight_name& n = *named(names, p.name, tensor);
    for (const std::int64_t size : part_of(n, tensor, p.global).tensor_shape) sizes += text(size, " ");
    own += text(tensor, '\t', n.part, '\t', n.of_parts, n.transposed ? ", transposed" : "", ", of ", sizes, '\t',
                in_quotes(p.name), '\n');
  };
  on_all_or_none(ctx, [&] { each(tell); });
  const std::vector<std::string> of_ranks = gather_text(ctx, own);
  on_all_or_none(ctx, [&] {
    std::map<std::string_view, std::map<std::int64_t, std::pair<std::string_view, std::string_view>>> tensors;
    for (std::string_view line : all_lines(of_ranks)) {
      const auto next = [&] {
        const std::size_t end = std::min(line.find('\t'), line.size());
        const std::string_view word = line.substr(0, end);
        line.remove_prefix(std::min(end + 1, line.size()));
        return word;
      };
      const std::string_view tensor = next(), part = next(), whole = next();
      auto& parts = tensors[tensor];
      const auto [at, is_new] = parts.try_emplace(std::stoll(std::string(part)), whole, line);
      require(is_new, "parameters ", at->second.second, " and ", line, " are both part ", part, " of tensor ", tensor,
              "; give each a part of its own in the table");
      require(parts.begin()->second.first == whole, "tensor ", tensor, " has ", parts.begin()->second.first,
              "by parameter ", parts.begin()->second.second, ", and ", whole, "by ", line,
              "; the table's lines for it have to agree");
    }
    for (const auto& [tensor, parts] : tensors) {
      const std::int64_t all = std::stoll(std::string(parts.begin()->second.first));
      require(static_cast<std::int64_t>(parts.size()) == all, "tensor ", tensor, " has ", all,
              " parts by the table, and only ", parts.size(), " of them are parameters of this model");
    }
  });
}

/// Throws where the files have a tensor that no rank read, by the lists of names that they give.
inline void check_all_read(const safetensors& files, const weight_names& names, const std::vector<std::string>& lists) {
  const std::set<std::string_view> read = all_lines(lists);
  const auto bytes = [](const mapped_tensor& t) { return std::string_view(t.data, t.entry->end - t.entry->begin); };
  std::set<std::string_view> unread;
  std::string beside;
  for (const auto& entry : files.tensors()) {
    const std::string_view tensor_name = entry.first;
    const mapped_tensor& tensor = entry.second;
    const bool known =
        read.contains(tensor_name) ||
        std::any_of(names.ignored.begin(), names.ignored.end(), [&](auto end) { return tensor_name.ends_with(end); }) ||
        (stands_beside(files, tensor_name, beside) && read.contains(beside)) ||
        // a copy, as a head's that is tied to the embedding
        std::any_of(read.begin(), read.end(), [&](auto other) {
          const mapped_tensor* const one = files.find(other);
          return one && one->entry->type == tensor.entry->type && one->entry->shape == tensor.entry->shape &&
                 bytes(*one) == bytes(tensor);
        });
    if (!known) unread.insert(tensor_name);
  }
  std::string others;
  for (const std::string_view name : unread)
    if (others.size() < 300) (others += others.empty() ? "" : ", ") += name;
  if (!others.empty())
    throw file_error(
        text("the weights have tensors that the model doesn't read, so it is of another configuration: ", others));
}

/// Sets all weights of a store from files. parts_of(parameter): where it lies in them, at least one part;
/// explain(parameter) may say better what it is that the files don't have so.
template <class Store, class PartsOf, class Explain>
void load_by(context& ctx, Store& store, const safetensors& files, const weight_names& names, const PartsOf& parts_of,
             const Explain& explain) {
  std::string read;
  const auto numbers_of = [&](const parameter_record& p) {
    return mapped_numbers(files, p.name, p.global, parts_of(p));
  };
  on_all_or_none(ctx, [&] {  // nothing is set before everything is known to be there
    store.load_parameters([&](const parameter_record& p) -> std::optional<mapped_numbers> {
      if (p.adapter) return {};
      try {
        numbers_of(p);
      } catch (const file_error&) {
        explain(p);
        throw;
      }
      read += parts_of(p).front().tensor + '\n';
      return {};
    });
  });
  const std::vector<std::string> of_ranks = gather_text(ctx, read);
  on_all_or_none(ctx, [&] {
    if (ctx.is_first()) check_all_read(files, names, of_ranks);
  });
  on_all_or_none(ctx, [&] {
    store.load_parameters([&](const parameter_record& p) -> std::optional<mapped_numbers> {
      if (p.adapter || codes_for(files, parts_of(p).front(), p)) return {};
      return numbers_of(p);
    });
    store.load_quantised([&](const stored_parameter& p) {
      const tensor_part part = parts_of(p.record).front();
      const auto few = codes_for(files, part, p.record);
      if (few) load_codes<typename Store::backend>(ctx, files, part.tensor, *few, p);
      return few != nullptr;
    });
  });
}

}  // namespace detail

/// Sets all weights of a parameter store from files, by a family's names; each rank reads what it keeps. Moments stay
/// as they are, and so do adapters (load_adapters). Files may have weights in few bits, as bitsandbytes leaves them:
/// what the store keeps in the same format is taken as it is, all else as the numbers that these stand for. All ranks
/// call it, and all of them see the files. Throws weft::file_error naming the parameter or tensor that is missing, of
/// another shape, or read by no parameter, and then leaves the weights as they were.
template <class Store>
void load_weights(context& ctx, Store& store, const safetensors& files, const weight_names& names) {
  const auto part_in = [&](const parameter_record& p, const shape& global) {
    return detail::part_in(files, names, p, global);
  };
  detail::load_by(
      ctx, store, files, names, [&](const parameter_record& p) { return std::vector{part_in(p, p.global)}; },
      [&](const parameter_record& p) {
        detail::refuse_more_heads(files, p, "load_pruned takes those that this model keeps",
                                  [&](const shape& global) { return part_in(p, global); });
      });
}

/// The same of a pruned model's store from the files of the whole model, of this configuration: of tensors with heads
/// each rank reads those of the groups that are kept. So the whole model is never in memory. The pruned model's own is
/// pruned(whole, kept). Throws as load_weights does, and where these can't be kept of the whole model.
template <class Store, class Config>
void load_pruned(context& ctx, Store& store, const safetensors& files, const weight_names& names, const Config& whole,
                 const kept_heads& kept) {
  const std::vector<std::int64_t> groups = whole.groups_by_layer();
  detail::check_kept(kept, groups);
  const auto parts_of = [&](const parameter_record& p) {
    const std::int64_t layer = detail::layer_of(p.name), n = detail::heads_in(p);
    if (layer < 0 || n == 0 || layer >= std::ssize(kept))
      return std::vector{detail::part_in(files, names, p, p.global)};
    const auto& of_layer = kept[static_cast<std::size_t>(layer)];
    require(!of_layer.empty() && n % std::ssize(of_layer) == 0, "parameter ", p.name, " has ", n,
            " heads, and its layer keeps ", of_layer.size(),
            " groups of heads: make the pruned model's configuration by pruned(whole, kept)");
    const shape all = detail::with_heads(p, n / std::ssize(of_layer) * groups[static_cast<std::size_t>(layer)]);
    return detail::kept_parts(detail::part_in(files, names, p, all), p, of_layer);
  };
  detail::load_by(ctx, store, files, names, parts_of, [](const parameter_record&) {});
}

}  // namespace weft
