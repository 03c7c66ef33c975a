// Reading folders that bitsandbytes quantised, and comparing with what it makes of them.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>

#include <doctest/doctest.h>

#include <weft/io/pretrained.hpp>
#include <weft/weft.hpp>

#include "../source_folder.hpp"
#include "batches.hpp"

namespace weft_test {

using namespace weft;

inline std::string folder_of(const std::string& name) { return source_file("pretrained/" + name); }

inline std::string hash_of(const std::vector<float>& x) {
  std::uint64_t h = 0xcbf29ce484222325u;
  const auto* bytes = reinterpret_cast<const unsigned char*>(x.data());
  for (std::size_t i = 0; i < x.size() * sizeof(float); ++i) h = (h ^ bytes[i]) * 0x100000001b3u;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(h));
  return text;
}

struct read_back {
  std::map<std::string, std::vector<float>> weights;  // by tensor
  std::vector<double> logits;
};

// A folder's model under the strategy S. Every rank's numbers are put in their places.
template <class S, template <class> class Model = llama>
read_back read(const degrees& ranks, const std::string& folder) {
  read_back out;
  std::mutex lock;
  launch<S>(ranks, [&](context& ctx) {
    constexpr bool is_llama = std::is_same_v<Model<S>, llama<S>>;
    const auto config = [&] {
      if constexpr (is_llama)
        return read_llama_config(folder);
      else
        return read_gpt2_config(folder);
    };
    pretrained<Model<S>> p(ctx, config(), folder);
    p.store.each_parameter([&](const parameter_record& r, auto, auto w) {
      const std::lock_guard guard(lock);
      const tensor_part part = detail::parts_of(weight_names_of(p.model.config()), r, true).front();
      auto& all = out.weights[part.tensor];
      std::int64_t elements = 1;
      for (const std::int64_t n : part.tensor_shape) elements *= n;
      all.resize(static_cast<std::size_t>(elements));
      for (std::int64_t i = 0; i < r.local.elements(); ++i)
        if (const std::int64_t at = r.at.global_index(i); at >= 0)
          all[static_cast<std::size_t>(part.offset + at)] = static_cast<float>(w[i]);
    });
    const folder_batches data{&ctx};
    const recording off(ctx, nullptr);
    const auto tokens = data.template train<token_ids<S>>(1, 0, folder_rows, folder_length).tokens;
    const auto logits = on_host(all_gather<dp>(all_gather<tp>(p.model(tokens))));
    const std::lock_guard guard(lock);
    if (ctx.is_first()) out.logits.assign(logits.begin(), logits.end());
  });
  return out;
}

inline void check_bits(const read_back& found, const std::string& folder) {
  const nlohmann::json right = read_json(folder_of(folder) + "/expected.json");
  for (const auto& entry : right.at("hashes").items()) {
    CAPTURE(entry.key());
    CHECK(hash_of(found.weights.at(entry.key())) == entry.value().get<std::string>());
  }
}
inline void check_logits(const read_back& found, const std::string& folder, double most) {
  const auto right = read_json(folder_of(folder) + "/expected.json").at("logits").get<std::vector<double>>();
  REQUIRE(found.logits.size() == right.size());
  double worst = 0;
  for (std::size_t i = 0; i < right.size(); ++i) worst = std::max(worst, std::abs(found.logits[i] - right[i]));
  CHECK(worst <= most);
}

}  // namespace weft_test
