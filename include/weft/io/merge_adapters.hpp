// Adapters merged into a model's weights where they lie, and taken out again. Invariant: weights' bits of before are
// kept, so that taking adapters out rounds nothing.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <weft/io/adapters.hpp>
#include <weft/io/merged_numbers.hpp>

namespace weft {
namespace detail {

/// The whole of every adapter's factor of this stage, by the parameter's name. All ranks call it.
template <class Store>
std::map<std::string, std::vector<double>> whole_adapters(context& ctx, const parameter_registry& registry,
                                                          Store& store) {
  using backend = typename Store::backend;
  std::map<std::string, std::vector<double>> all;
  for (const parameter_unit& u : registry.units())
    for (const parameter_record& p : u.parameters)
      if (p.adapter) all[p.name].resize(static_cast<std::size_t>(p.global.elements()));
  store.each_stored([&](const stored_parameter& p) {
    if (!p.record.adapter || !writes(ctx, p)) return;  // one rank has an element for all
    std::vector<std::byte> copy;
    const local_array seen = host_view<backend>(ctx, p.weight, copy);
    auto& to = all[p.record.name];
    visit_floating(seen.type, [&]<class T>(T) {  // where adapters are frozen too, the compute type
      const auto* const from = seen.template as<const T>();
      for (std::int64_t i = 0; i < p.count; ++i)
        if (const std::int64_t at = p.record.at.global_index(p.begin + i); at >= 0)
          to[static_cast<std::size_t>(at)] = static_cast<double>(from[i]);
    });
  });
  for (const axis_group& g : ctx.axes())
    if (g.degree > 1 && g.axis != id_of<pp> && g.axis != id_of<pipeline_ends>)
      for (auto& [name, x] : all)
        ctx.along(g.axis)
            .comm.host()
            .all_reduce(x.data(), x.data(), static_cast<std::int64_t>(x.size()), dtype::f64, reduction::sum,
                        {"adapters"})
            .wait();
  return all;
}

}  // namespace detail

/// A model's adapters, merged into its weights for as long as this lives or until unmerge(): a forward is then that of
/// weight + scale * B A, computed in double and rounded once to the compute type, and multiplies by no adapter. After
/// it the weights have their bits of before. All ranks make it, and take it back; the store outlives it. Nothing is
/// trained, loaded or checkpointed meanwhile; what is saved of weights is merged. Throws weft::failure on all ranks for
/// weights in few bits, weights that are trained and a store of another model; then, as where a rank has no memory for
/// it, nothing is merged. Memory: on the host, what this rank
/// stores of the weights with adapters once more, and the adapters whole.
template <class Model, class Store>
class merged_adapters {
 public:
  merged_adapters(context& ctx, Model& model, Store& store) : model_(model), store_(store) {
    detail::require_adapters<Model>();
    detail::on_all_or_none(ctx, [&] {
      each_pair([](const parameter_record& w, const parameter_record& a, auto&) { check(w, a); });
      std::set<const parameter_record*> stored;
      store.load_parameters([&](const parameter_record& p) -> std::optional<detail::merged_numbers<number>> {
        stored.insert(&p);
        return {};
      });
      each_pair([&](const parameter_record& w, auto&, auto&) {
        require(stored.contains(&w), "parameter ", w.name,
                " isn't in the store that it is to be merged in, which is another model's: give this model's, "
                "trainer.store() say");
      });
    });
    const auto factors = detail::whole_adapters(ctx, model.registry(), store);
    std::map<std::string, const parameter_record*> beside;
    each_pair([&](parameter_record& w, parameter_record& a, parameter_record&) {
      beside[w.name] = &a;
      before_[w.name];  // where a rank stores nothing of it, what reads it is to know of the change all the same
    });
    store.each_stored([&](const stored_parameter& p) {
      if (!beside.contains(p.record.name)) return;
      std::vector<std::byte> copy;
      const local_array seen = detail::host_view<backend>(ctx, p.weight, copy);
      const auto* const from = seen.template as<const number>();
      before_[p.record.name] = {p.begin, std::vector<number>(from, from + p.count)};
    });
    try {
      load([&](const parameter_record& p, detail::merged_numbers<number>& numbers) {
        const std::string a = beside.at(p.name)->name;
        numbers.a = factors.at(a), numbers.b = factors.at(p.name + ".lora_b");
        numbers.rank = Model::strategy::projections::rank, numbers.scale = Model::strategy::projections::scale;
      });
    } catch (...) {
      restore();
      throw;
    }
    say(true);
  }
  ~merged_adapters() {
    try {
      unmerge();
    } catch (...) {  // of a launch that ends with an error; adapters stay merged, which a next step or load says
    }
  }
  merged_adapters(const merged_adapters&) = delete;
  merged_adapters& operator=(const merged_adapters&) = delete;

  /// The weights are as they were, and adapters beside them again. Moves nothing between ranks; a second call does
  /// nothing.
  void unmerge() {
    if (!merged_) return;
    say(false);
    try {
      restore();
    } catch (...) {
      say(true);
      throw;
    }
    merged_ = false;
    before_.clear();
  }

 private:
  using number = typename Model::strategy::precision::compute;
  using backend = typename Store::backend;
  struct bits {
    std::int64_t begin = 0;
    std::vector<number> own;
  };

  static void check(const parameter_record& w, const parameter_record& a) {
    require(w.stored.format == weight_format::plain, "parameter ", w.name, " is stored as ", name_of(w.stored.format),
            ", and an adapter can't be merged into codes: save_merged writes merged numbers to a folder, or take "
            "lora<rank> alone, whose weights are numbers");
    require(!w.trained, "parameter ", w.name,
            " is trained beside its adapter, and adapters are merged into frozen weights: freeze it "
            "(registry.freeze) before the trainer or store is made");
    require(!a.live->merged, "parameter ", w.name, " has its adapter merged into it already");
  }
  /// f(weight, A, B) for every weight with an adapter.
  template <class F>
  void each_pair(F&& f) {
    for (parameter_unit& u : model_.registry().units()) {
      std::map<std::string_view, parameter_record*> named;
      for (parameter_record& p : u.parameters) named[p.name] = &p;
      for (parameter_record& p : u.parameters)
        if (const auto a = named.find(p.name + ".lora_a"); a != named.end())
          f(p, *a->second, *named.at(p.name + ".lora_b"));
    }
  }
  template <class F>
  void load(F&& change) {
    store_.load_parameters([&](const parameter_record& p) -> std::optional<detail::merged_numbers<number>> {
      const auto own = before_.find(p.name);
      if (own == before_.end()) return {};
      detail::merged_numbers<number> numbers{p.global.elements(), own->second.begin, own->second.own};
      change(p, numbers);
      return numbers;
    });
  }
  void restore() {
    load([](const parameter_record&, auto&) {});
  }
  void say(bool merged) {
    each_pair(
        [&](parameter_record&, parameter_record& a, parameter_record& b) { a.live->merged = b.live->merged = merged; });
  }

  Model& model_;
  Store& store_;
  std::map<std::string, bits> before_;  // of what this rank stores, by parameter
  bool merged_ = true;
};

}  // namespace weft
