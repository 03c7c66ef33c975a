// The strategies of one family, a template: llama.cpp and gpt2.cpp make them. Invariant: names come from the policies
// themselves.
#pragma once

#include <weft/plan/generation.hpp>
#include <weft/plan/training.hpp>

#include "configuration.hpp"
#include "strategies.hpp"

namespace weft_plan {

template <template <class> class Model, class Config>
struct ways_with {
  template <class Sharding, class... Policies>
  using strategy = weft::strategy<weft::mesh<weft::pp, weft::dp, weft::tp>, Sharding, weft::bf16_mixed, Policies...>;

  template <class S>
  static std::vector<weft::rank_plan> training(const asked_model& m, const question& q, const weft::degrees& d) {
    const weft::training step{.batch = q.batch, .micro_batches = micro_batches_of(q, d.dp), .seq = q.seq};
    return weft::plan_stages<Model, S>(std::get<Config>(m.config->is), d, step, weft::adamw{},
                                       {.threads_per_rank = q.threads});
  }
  // Stages are outermost in the mesh.
  template <class S>
  static std::vector<weft::rank_plan> text(const asked_model& m, const question& q, const weft::degrees& d) {
    std::vector<weft::rank_plan> out;
    for (int stage = 0; stage < d.pp; ++stage)
      out.push_back(weft::plan_generation<Model, S>(std::get<Config>(m.config->is), d, {q.prompt, q.tokens},
                                                    stage * d.dp * d.tp, {.threads_per_rank = q.threads}));
    return out;
  }

  template <class Form, class... Shardings>
  void train(const task& t) {
    const auto add = [&]<class Sharding, class Checkpointing>() {
      using S = strategy<Sharding, Checkpointing, weft::sequence_parallel, Form>;
      all.push_back({&t, std::string(Sharding::name), std::string(Checkpointing::name), training<S>});
    };
    const auto with = [&]<class Sharding>() {
      add.template operator()<Sharding, weft::checkpoint_none>();
      add.template operator()<Sharding, weft::checkpoint_selective>();
      add.template operator()<Sharding, weft::checkpoint_full>();
    };
    (with.template operator()<Shardings>(), ...);
  }
  template <class Form>
  void write(const task& t) {
    all.push_back({&t, "replicated", "none", text<strategy<weft::replicated, Form>>});
    all.push_back({&t, "zero3", "none", text<strategy<weft::zero3, Form>>});
  }

  static std::vector<way> made() {
    using namespace weft;
    ways_with w;
    const auto& t = tasks();
    w.template train<dense, replicated, zero1, zero2, zero3>(t[0]);
    // Where adapters alone are trained, gradients and the optimizer's state are not what takes memory.
    w.template train<lora<16>, replicated, zero3>(t[1]);
    w.template train<int8<lora<16>>, replicated, zero3>(t[2]);
    w.template train<nf4<lora<16>>, replicated, zero3>(t[3]);
    w.template write<dense>(t[4]);
    w.template write<int8<>>(t[5]);
    w.template write<nf4<>>(t[6]);
    return w.all;
  }

  std::vector<way> all;
};

}  // namespace weft_plan
