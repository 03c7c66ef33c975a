// What the units of the tests begin with under clang, precompiled (precompiled.cmake): the headers that most of them
// include, and trainings whose operators, stores, checkpoints and plans are those of other strategies too, whose units
// compile the rest alone. Invariant: nothing here is called, and every unit includes itself what it uses.
#pragma once

#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <weft/io/pretrained.hpp>
#include <weft/plan/training.hpp>
#include <weft/testing/strategy.hpp>
#include <weft/train/checkpoint.hpp>
#include <weft/weft.hpp>

// Sanitizers' code of these trainings would be 3 GB to compile in one piece.
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer) && \
    !__has_feature(undefined_behavior_sanitizer)
namespace weft_test::precompiled {
using namespace weft;

template <class Model>
struct training_of {
  void operator()(context& ctx) const {
    Model model(ctx, {});
    trainer t(ctx, model);
    load_checkpoint(ctx, t, "");
    t.run(text_dataset(ctx, std::make_shared<const text_corpus>("", "")), {});
    save_checkpoint(ctx, t, "");
  }
};
template <template <class> class Model, class... Policies>
void trained() {
  launch<strategy<Policies...>>({}, training_of<Model<strategy<Policies...>>>{});
}

// A tensor's type says where its dimensions lie, and not how parameters are sharded or stages scheduled: one mesh
// stands for each precision and model. Of whatever some ten units have in common, it takes what they took.
inline void trainings() {
  trained<llama, mesh<dp, tp>>();
  trained<llama, mesh<dp, tp>, fp64>();
  trained<llama, mesh<pp, dp, tp>, fp64, zero3, sequence_parallel, zb_h1>();
  trained<llama, mesh<dp, tp>, fp64, lora<3>>();
  trained<llama, mesh<dp, tp>, zero3, bf16_mixed, checkpoint_full>();
  trained<gpt2, mesh<dp, tp>>();
  trained<gpt2, mesh<dp, tp>, fp64>();
  plan_training<llama, strategy<mesh<dp, tp>, zero3, bf16_mixed, checkpoint_full>>(llama_config{}, {}, training{});
  weft::testing::train<strategy<mesh<>, fp64>>({});
  weft::testing::train_model<gpt2<strategy<mesh<>, fp64>>>({}, gpt2_config{}, weft::testing::training_plan{});
}

}  // namespace weft_test::precompiled
#endif
