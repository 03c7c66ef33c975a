// Data for a trainer: batches of 31 tokens that follow from the step, the same for any number of ranks.
#pragma once

#include <weft/io/text_dataset.hpp>
#include <weft/op/create.hpp>

namespace weft_test {

struct small_batches {
  weft::context* rank;

  template <weft::any_tensor Ids>
  weft::token_batch<Ids> train(std::int64_t step, std::int64_t first, std::int64_t n, std::int64_t columns) const {
    const auto token = [=](std::int64_t i) { return ((first * columns + i) * 5 + step * 7 + i * i) % 31; };
    return {weft::generate<Ids>(*rank, {n, columns}, token),
            weft::generate<Ids>(*rank, {n, columns}, [&](std::int64_t i) { return token(i + 1); })};
  }
  bool can_validate(std::int64_t) const { return false; }
  template <weft::any_tensor Ids>
  weft::token_batch<Ids> validation(std::int64_t first, std::int64_t n, std::int64_t columns) const {
    return train<Ids>(1, first, n, columns);
  }
};

}  // namespace weft_test
