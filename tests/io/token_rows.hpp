// For tests of token_dataset: a rank alone, files of documents, and a batch's rows. Invariant: none of it communicates.
#pragma once

#include <vector>

#include <weft/comm/single_rank.hpp>
#include <weft/io/token_dataset.hpp>

namespace weft_test {

using namespace weft;
using ids = tensor<std::int32_t, dims<batch, seq>, shard<batch, dp>>;
using document = std::vector<std::int32_t>;

// The context that one rank of a mesh has, with nobody to talk to: making data takes no communication.
struct lone_rank {
  context ctx;
  explicit lone_rank(int dp_degree = 1, int dp_index = 0, std::uint64_t seed = 7, int cp_degree = 1, int cp_index = 0)
      : ctx(any_communicator(), seed) {
    ctx.add_axis({id_of<dp>, "dp", dp_degree, dp_index, {}});
    ctx.add_axis({id_of<cp>, "cp", cp_degree, cp_index, {}});
    ctx.set_queue<cpu_backend>(std::make_shared<cpu_backend::queue>(1));
  }
};

inline void write_documents(const std::string& stem, const std::vector<document>& all, std::int64_t vocab = 100000) {
  token_writer w(stem, vocab);
  for (const document& d : all) w.add(d);
  w.finish();
}

// Tokens first ... first + n - 1, in documents of other lengths each: a token tells its place.
inline std::vector<document> counted(std::int32_t n, std::int32_t first = 0) {
  std::vector<document> out;
  for (std::int32_t i = 0; i < n;) {
    document d;
    const auto length = static_cast<std::int32_t>(philox{1, 2}.word(out.size()) % 40);
    for (; static_cast<std::int32_t>(d.size()) < length && i < n; ++i) d.push_back(first + i);
    out.push_back(d);
  }
  return out;
}

using row = std::vector<std::int32_t>;
template <class X>
void append(std::vector<row>& to, const X& x) {
  const auto n = x.template local_extent<seq>();
  const auto own = x.local_share();
  for (std::int64_t r = 0; r < x.template local_extent<batch>(); ++r)
    to.emplace_back(own.begin() + r * n, own.begin() + (r + 1) * n);
}

}  // namespace weft_test
