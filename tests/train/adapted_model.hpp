// A small model with adapters: the bits of its weights, and its loss on a text under the weights as they are.
#pragma once

#include <cstring>
#include <map>
#include <vector>

#include <weft/weft.hpp>

namespace weft_test {
using namespace weft;

inline const llama_config small{
    .layers = 2, .hidden = 24, .heads = 4, .kv_heads = 2, .head_dim = 6, .ffn = 36, .vocab = 256, .max_seq = 12};

inline std::shared_ptr<const text_corpus> rhyme() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "one two three four five, once I caught a fish alive; ";
  return std::make_shared<const text_corpus>("rhyme", text);
}
// The bits of every weight that this rank stores.
template <class Store>
std::map<std::string, std::vector<std::byte>> bits_of(Store& store) {
  std::map<std::string, std::vector<std::byte>> all;
  store.each_stored([&](const stored_parameter& p) {
    std::vector<std::byte>& to = all[p.record.name];
    to.resize(static_cast<std::size_t>(p.weight.bytes()));
    std::memcpy(to.data(), p.weight.data, to.size());
  });
  return all;
}

// Of the text, under the weights as they are.
template <class S, class T>
double loss_of(context& ctx, llama<S>& model, T&) {
  pipeline<llama<S>> stages(ctx, model);
  const text_dataset data(ctx, rhyme());
  auto& sums = stages.evaluate(2, [&](int m) { return data.template train<typename llama<S>::ids>(7, m * 4, 4, 12); });
  const loss_sums all = finished<typename pipeline<llama<S>>::loss_tensor>(ctx, sums);
  return all.sum / all.count;
}

}  // namespace weft_test
