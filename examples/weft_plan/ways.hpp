// The strategies of one family, a template: llama*.cpp and gpt2*.cpp make them, some each. Invariant: names come from
// the policies themselves.
#pragma once

#include <weft/plan/generation.hpp>
#include <weft/plan/training.hpp>

#include "configuration.hpp"
#include "strategies.hpp"

namespace weft_plan {

/// Whether a rank along tp has key and value heads of its own, or shares all of them: its projections' form.
struct own_heads {
  static constexpr bool shared = false;
  template <class Form>
  using form = Form;
};
struct shared_heads {
  static constexpr bool shared = true;
  template <class Form>
  using form = weft::shared_kv<Form>;
};

template <template <class> class Model, class Config, class Heads = own_heads>
struct ways_with {
  template <class Sharding, class... Policies>
  using strategy = weft::strategy<weft::mesh<weft::pp, weft::dp, weft::tp>, Sharding, weft::bf16_mixed, Policies...>;
  using base = typename Heads::template form<weft::dense>;
  using adapted = typename Heads::template form<weft::lora<16>>;

  template <class S>
  static std::vector<weft::rank_plan> training(const asked_model& m, const question& q, const weft::degrees& d) {
    const weft::training step{.batch = q.batch, .micro_batches = micro_batches_of(q, d.dp), .seq = q.seq};
    return weft::plan_stages<Model, S>(std::get<Config>(m.config->is), d, step, weft::adamw{},
                                       {.threads_per_rank = q.threads});
  }
  template <class S>
  static std::vector<weft::rank_plan> text(const asked_model& m, const question& q, const weft::degrees& d) {
    return weft::plan_generation_stages<Model, S>(std::get<Config>(m.config->is), d, {q.prompt, q.tokens},
                                                  {.threads_per_rank = q.threads});
  }

  template <class Form, class... Shardings>
  void train(const task& t) {
    const auto add = [&]<class Sharding, class Checkpointing, class Loss>() {
      using S = strategy<Sharding, Checkpointing, Loss, weft::sequence_parallel, Form>;
      all.push_back({&t, Heads::shared, std::string(Sharding::name), std::string(Checkpointing::name),
                     std::string(Loss::name), training<S>});
    };
    const auto with = [&]<class Sharding, class Loss>() {
      add.template operator()<Sharding, weft::checkpoint_none, Loss>();
      add.template operator()<Sharding, weft::checkpoint_selective, Loss>();
      add.template operator()<Sharding, weft::checkpoint_full, Loss>();
    };
    (with.template operator()<Shardings, weft::whole_loss>(), ...);
    // Of what takes most and what takes least: the compiler's time.
    with.template operator()<weft::replicated, weft::chunked_loss<8>>();
    with.template operator()<weft::zero3, weft::chunked_loss<8>>();
  }
  template <class Form>
  void write(const task& t) {
    all.push_back({&t, Heads::shared, "replicated", "none", "whole", text<strategy<weft::replicated, Form>>});
    all.push_back({&t, Heads::shared, "zero3", "none", "whole", text<strategy<weft::zero3, Form>>});
  }

  /// Training of all weights, and text.
  static std::vector<way> of_weights() {
    ways_with w;
    const auto& t = tasks();
    w.template train<base, weft::replicated, weft::zero1, weft::zero2, weft::zero3>(t[0]);
    w.template write<base>(t[4]);
    w.template write<weft::int8<base>>(t[5]);
    w.template write<weft::nf4<base>>(t[6]);
    return w.all;
  }
  /// Training of adapters, where gradients and the optimizer's state are not what takes memory.
  static std::vector<way> of_lora() {
    ways_with w;
    w.template train<adapted, weft::replicated, weft::zero3>(tasks()[1]);
    return w.all;
  }
  static std::vector<way> of_int8() {
    ways_with w;
    w.template train<weft::int8<adapted>, weft::replicated, weft::zero3>(tasks()[2]);
    return w.all;
  }
  static std::vector<way> of_nf4() {
    ways_with w;
    w.template train<weft::nf4<adapted>, weft::replicated, weft::zero3>(tasks()[3]);
    return w.all;
  }

  std::vector<way> all;
};

}  // namespace weft_plan
