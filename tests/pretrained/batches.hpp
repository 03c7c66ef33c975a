// The data that the folders' numbers were computed with: batches that follow from the step, with some tokens' targets
// left out.
#pragma once

#include <weft/io/text_dataset.hpp>
#include <weft/op/create.hpp>

namespace weft_test {

constexpr std::int64_t folder_rows = 4, folder_length = 6, folder_vocabulary = 13;

/// As the scripts' batch_of.
struct folder_batches {
  weft::context* rank;

  static std::int64_t token(std::int64_t step, std::int64_t i) {
    return (step * 31 + i * i * 5 + i * 3) % folder_vocabulary;
  }
  template <weft::any_tensor Ids>
  weft::token_batch<Ids> train(std::int64_t step, std::int64_t first, std::int64_t n, std::int64_t columns) const {
    const auto at = [=](std::int64_t i) { return first * columns + i; };
    return {weft::generate<Ids>(*rank, {n, columns}, [&](std::int64_t i) { return token(step, at(i)); }),
            weft::generate<Ids>(*rank, {n, columns}, [&](std::int64_t i) {
              return (at(i) + step) % 9 == 4 ? std::int64_t{-1} : token(step, at(i) + 1);
            })};
  }
  bool can_validate(std::int64_t) const { return false; }
  template <weft::any_tensor Ids>
  weft::token_batch<Ids> validation(std::int64_t first, std::int64_t n, std::int64_t columns) const {
    return train<Ids>(1, first, n, columns);
  }
};

}  // namespace weft_test
