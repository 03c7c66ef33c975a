// A model's weights to a safetensors file, each rank writing what it keeps. Invariant: every element is written by one
// rank, and the file has its name when all are there.
#pragma once

#include <functional>

#include <weft/io/run_writer.hpp>
#include <weft/io/weight_names.hpp>
#include <weft/parallel/flat_bucket.hpp>
#include <weft/tensor/agree.hpp>
#include <weft/tensor/gather_text.hpp>

namespace weft {

namespace detail {

/// Whether this rank's copy of a stored parameter is the one that is written.
inline bool writes(const context& ctx, const stored_parameter& p) {
  if (!p.record.counted) return false;
  for (const axis_group& g : ctx.axes())
    if (g.axis != id_of<pipeline_ends> && !g.cuts(p.record.sharded, p.storage) && g.index != 0) return false;
  return true;
}

inline const safetensors_type& safetensors_type_of(dtype type, bool signed_bytes = false) {
  for (const safetensors_type& t : safetensors_types)
    if (signed_bytes ? t.name == "I8" : t.type == type) return t;
  throw failure(text("a safetensors file has no numbers of ", name_of(type)));
}

/// Numbers that a rank writes: elements begin ... of its slice `at` of a parameter, as `type`. `change`: what is done
/// with their copy before. `quantised`: in place of numbers, codes that stand for them. `of_host`: the same, what the
/// host has. `made`: the same, so many that `make` writes when they are written. `signed_bytes`: what u8 holds is
/// called I8 in files.
struct outgoing {
  local_array numbers;
  placed_slice at;
  std::int64_t begin;
  dtype type;
  std::vector<tensor_part> parts;
  std::function<void(double*)> change = nullptr;
  quantised_slice quantised = {};
  std::int64_t scales = 0;  // of quantised
  std::vector<float> of_host = {};
  bool signed_bytes = false;
  std::int64_t made = 0;
  std::function<void(double*)> make = nullptr;

  std::int64_t count() const {
    if (make) return made;
    return numbers ? numbers.elements() : of_host.empty() ? quantised.count : static_cast<std::int64_t>(of_host.size());
  }
  const safetensors_type& file_type() const { return safetensors_type_of(type, signed_bytes); }
};

/// The weights of a stored parameter, to be written as `type`.
inline outgoing outgoing_weights(const stored_parameter& p, dtype type, std::vector<tensor_part> parts) {
  require_numbers(p.record, p.has_numbers);
  outgoing o{p.weight, p.record.at, p.begin, type, std::move(parts)};
  if (p.is_quantised()) o.quantised = p.quantised(), o.scales = p.scales.elements();
  return o;
}

/// The tensors that all ranks' numbers lie in, on the first rank. Of each its sizes, its type, its name. All ranks call
/// it.
inline safetensors_header all_tensors(context& ctx, const std::vector<outgoing>& all) {
  std::string own;
  on_all_or_none(ctx, [&] {
    for (const outgoing& o : all)
      for (const tensor_part& p : o.parts) {
        for (const std::int64_t n : p.tensor_shape) own += std::to_string(n) + ' ';
        own += static_cast<char>('a' + (&o.file_type() - safetensors_types));
        own += std::to_string(p.tensor.size()) + ' ' + p.tensor;
      }
  });
  const std::vector<std::string> of_ranks = gather_text(ctx, own);
  safetensors_header header;
  on_all_or_none(ctx, [&] {
    std::map<std::string, safetensors_entry> tensors;
    for (const std::string& of_rank : of_ranks)
      for (std::size_t at = 0; at < of_rank.size();) {
        safetensors_entry e;
        for (std::size_t end = 0; of_rank[at] >= '0' && of_rank[at] <= '9'; at = end + 1) {
          end = of_rank.find(' ', at);
          e.shape.push_back(std::stoull(of_rank.substr(at, end - at)));
        }
        e.type = &safetensors_types[of_rank[at] - 'a'];
        const std::size_t name = of_rank.find(' ', at) + 1, length = std::stoull(of_rank.substr(at + 1, name - at - 2));
        e.name = of_rank.substr(name, length);
        at = name + length;
        tensors.emplace(e.name, e);
      }
    header = {0, {}, {{"format", "pt"}}};
    for (auto& [name, e] : tensors) header.tensors.push_back(std::move(e));
  });
  return header;
}

template <class Backend, class T>
std::vector<T> on_the_host(context& ctx, const T* from, std::int64_t count) {
  std::vector<T> out(static_cast<std::size_t>(count));
  if (ctx.lies_on_host(from))
    ctx.order().synchronize(), std::copy_n(from, count, out.begin());
  else if (count > 0)
    Backend::download(ctx.queue<Backend>(), from, out.data(), count * static_cast<std::int64_t>(sizeof(T)));
  return out;
}
/// What codes stand for. Waits for the queue.
template <class Backend>
std::vector<float> decoded(context& ctx, const outgoing& o) {
  quantised_slice q = o.quantised;
  const auto codes = on_the_host<Backend>(ctx, q.codes, code_bytes(q.format, q.count)),
             levels = on_the_host<Backend>(ctx, q.levels, level_bytes(q.format, q.count));
  const auto scales = on_the_host<Backend>(ctx, q.scales, o.scales);
  q.codes = codes.data(), q.levels = levels.data(), q.scales = scales.data();
  std::vector<float> out(static_cast<std::size_t>(q.count));
  q.at.runs(q.first, q.count, [&](std::int64_t i, std::int64_t at, std::int64_t n) {
    for (std::int64_t k = 0; k < n && at >= 0; ++k) out[static_cast<std::size_t>(i + k)] = decoded(q, i + k, at + k);
  });
  return out;
}

/// f(pointer) to numbers of the store's, where the host reads them. Waits for the queue.
template <class Backend, class F>
void staged(context& ctx, const outgoing& o, F&& f) {
  const auto give = [&]<class T>(const std::vector<T>& out) {
    if (!o.change) return f(out.data());
    std::vector<double> changed(out.begin(), out.end());
    o.change(changed.data());
    f(static_cast<const double*>(changed.data()));
  };
  if (o.make) {
    std::vector<double> numbers(static_cast<std::size_t>(o.made));
    o.make(numbers.data());
    return f(static_cast<const double*>(numbers.data()));
  }
  if (!o.of_host.empty()) return give(o.of_host);
  if (!o.numbers) return give(decoded<Backend>(ctx, o));
  visit_stored(o.numbers.type, [&]<class T>(T) {
    const T* const numbers = o.numbers.as<const T>();
    if constexpr (Backend::host_memory)
      if (!o.change) {
        if constexpr (Backend::queue::runs_behind) ctx.queue<Backend>().synchronize();
        return f(numbers);
      }
    give(on_the_host<Backend>(ctx, numbers, o.numbers.elements()));
  });
}

/// Makes the unfinished files, and puts them into their memory: the disk has them when every rank has synced what comes
/// back. `headers`: on the first rank, what each file holds; together the tensors of all. All ranks call it, and all
/// see the files' folders.
template <class Backend>
std::vector<std::unique_ptr<output_bytes>> fill_files(context& ctx, const std::vector<std::string>& paths,
                                                      std::vector<safetensors_header>& headers,
                                                      const std::vector<outgoing>& all) {
  on_all_or_none(ctx, [&] {
    if (!ctx.is_first()) return;
    for (std::size_t f = 0; f < paths.size(); ++f) {
      safetensors_header& h = headers[f];
      const std::string beginning = write_safetensors_header(h, paths[f]);
      begin_output(paths[f], beginning, h.bytes + (h.tensors.empty() ? 0 : h.tensors.back().end));
    }
  });
  std::vector<std::unique_ptr<output_bytes>> files;
  on_all_or_none(ctx, [&] {
    struct place {
      const output_bytes* file;
      std::size_t offset;
    };
    std::map<std::string, place> places;
    for (const std::string& path : paths) {
      const output_bytes& file = *files.emplace_back(std::make_unique<output_bytes>(path));
      const safetensors_header at = read_safetensors_header({file.data(), file.size()}, unfinished(path));
      for (const safetensors_entry& e : at.tensors) places[e.name] = {&file, at.bytes + e.begin};
    }
    run_writer runs;
    for (const outgoing& o : all)
      staged<Backend>(ctx, o, [&]<class T>(const T* numbers) {
        const auto run = [&](std::size_t k, std::int64_t element, std::int64_t stride, std::int64_t n,
                             std::int64_t from) {
          const place& to = places.at(o.parts[k].tensor);
          visit_stored(o.type, [&]<class To>(To) {
            const std::size_t offset = to.offset + static_cast<std::size_t>(element) * sizeof(To);
            if (stride != 1) return write_numbers<To>(numbers + from, stride, n, to.file->data() + offset);
            constexpr auto most = static_cast<std::int64_t>(run_writer::most / sizeof(To));
            for (std::int64_t done = 0; done < n; done += most) {
              const std::int64_t piece = std::min(most, n - done);
              const auto bytes = static_cast<std::size_t>(piece) * sizeof(To);
              write_numbers<To>(numbers + from + done, 1, piece,
                                runs.next(*to.file, offset + static_cast<std::size_t>(done) * sizeof(To), bytes));
            }
          });
        };
        each_run(o.parts, o.at, o.begin, o.count(), run);
      });
    runs.finish();
  });
  return files;
}

/// The same with one file. metadata: what its header says beside the format; the first rank's counts.
template <class Backend>
std::unique_ptr<output_bytes> fill_tensors(context& ctx, const std::string& path, const std::vector<outgoing>& all,
                                           std::map<std::string, std::string> metadata = {}) {
  safetensors_header tensors = all_tensors(ctx, all);
  std::vector<safetensors_header> headers;
  std::vector<std::string> paths;
  on_all_or_none(ctx, [&] {
    tensors.metadata.merge(metadata);
    headers.push_back(std::move(tensors)), paths.push_back(path);
  });
  return std::move(fill_files<Backend>(ctx, paths, headers, all).front());
}

/// Writes them to a file that is there once it is whole. All ranks call it, and all see the file's folder.
template <class Backend>
void write_tensors(context& ctx, const std::string& path, const std::vector<outgoing>& all) {
  const auto file = fill_tensors<Backend>(ctx, path, all);
  on_all_or_none(ctx, [&] { file->sync(); });
  on_all_or_none(ctx, [&] {
    if (ctx.is_first()) finish_output(path);
  });
}

/// Throws on all ranks unless a store's parameters but adapters fill their tensors.
template <class Store>
void check_filled_by(context& ctx, const weight_names& names, Store& store) {
  check_filled(ctx, names, [&](auto&& tell) {
    store.each_stored([&](const stored_parameter& p) {
      if (!p.record.adapter) tell(p.record);
    });
  });
}

/// What this rank writes of a store's weights but adapters, each as `type`. All ranks call it.
template <class Store>
std::vector<outgoing> outgoing_weights(context& ctx, Store& store, const weight_names& names, dtype type) {
  require(type <= dtype::f16, "weights are saved as f64, f32, bf16 or f16, not as ", name_of(type));
  check_filled_by(ctx, names, store);
  std::vector<outgoing> all;
  on_all_or_none(ctx, [&] {
    store.each_stored([&](const stored_parameter& p) {
      if (writes(ctx, p) && !p.record.adapter) all.push_back(outgoing_weights(p, type, parts_of(names, p.record)));
    });
  });
  return all;
}

}  // namespace detail

/// Writes all weights of a parameter store but adapters to a safetensors file, by a family's names, as numbers of
/// `type`, which is floating (without it that of the master weights): the master weights, or where a parameter is
/// frozen its only ones, and where it is stored in few bits
/// what these stand for. Together the parameters fill the tensors that the table gives them. All ranks call it, and all
/// of them see the file's folder. A file of this name is replaced once the new one is whole. Throws weft::failure on
/// all ranks, naming the file and the system's reason, when it can't be written on any.
template <class Store>
void save_weights(context& ctx, Store& store, const std::string& path, const weight_names& names,
                  dtype type = dtype_of<typename Store::master>) {
  detail::write_tensors<typename Store::backend>(ctx, path, detail::outgoing_weights(ctx, store, names, type));
}

}  // namespace weft
