// Which virtual stages of a pipeline a rank has, and which layers these have. Invariant: each virtual stage lies on one
// rank, and has at least one layer.
#pragma once

#include <vector>

#include <weft/core/tags.hpp>
#include <weft/policy/check_schedule.hpp>
#include <weft/tensor/context.hpp>

namespace weft {

/// A virtual stage's place among the others, and the layers that it has: begin ... end - 1.
struct stage_place {
  int index = 0, count = 1;
  std::int64_t begin = 0, end = 0;
  int rank = 0, before = 0, after = 0;  // along pp: its own, and those of the virtual stages before it and after it

  bool first() const { return index == 0; }
  bool last() const { return index == count - 1; }
};

/// The virtual stages of the rank, by chunk, where the schedule gives it `chunks` of them.
class stage_places {
 public:
  /// One stage of a model that isn't cut.
  stage_places() : places_(1), rank_of_(1) {}
  /// rank_of: the rank along pp of each virtual stage; index_of: the virtual stage of each of this rank's chunks.
  stage_places(std::int64_t layers, std::vector<int> rank_of, const std::vector<int>& index_of)
      : rank_of_(std::move(rank_of)) {
    const auto count = static_cast<std::int64_t>(rank_of_.size());
    const auto on = [&](int v, int none) { return v < 0 || v >= count ? none : this->rank_of(v); };
    for (const int v : index_of) {
      const int rank = this->rank_of(v);
      places_.push_back({v, static_cast<int>(count), layers * v / count, layers * (v + 1) / count, rank,
                         on(v - 1, rank), on(v + 1, rank)});
    }
  }

  int chunks() const { return static_cast<int>(places_.size()); }
  /// Virtual stages of all ranks.
  int count() const { return static_cast<int>(rank_of_.size()); }
  const stage_place& operator[](int chunk) const { return places_[static_cast<std::size_t>(chunk)]; }
  /// The rank along pp that has virtual stage v.
  int rank_of(int v) const { return rank_of_[static_cast<std::size_t>(v)]; }
  /// This rank's chunk that is virtual stage v; -1: another rank has it.
  int chunk_at(int v) const {
    for (int c = 0; c < chunks(); ++c)
      if ((*this)[c].index == v) return c;
    return -1;
  }
  bool has_first() const { return chunk_at(0) >= 0; }
  bool has_last() const { return chunk_at(count() - 1) >= 0; }
  /// Layers of this rank's chunks before `chunk`; all of them for chunks().
  std::size_t layers_before(int chunk) const {
    std::int64_t n = 0;
    for (int c = 0; c < chunk; ++c) n += (*this)[c].end - (*this)[c].begin;
    return static_cast<std::size_t>(n);
  }

 private:
  std::vector<stage_place> places_;
  std::vector<int> rank_of_;
};

/// This rank's virtual stages of a model with so many layers, under the schedule P: the layers are cut as evenly as
/// possible. Throws when a virtual stage would have none, or lie on no rank or on two.
template <schedule_policy P = one_f_one_b>
stage_places stages_of(const context& ctx, std::int64_t layers) {
  const int rank = ctx.index<pp>().here(), ranks = ctx.degree<pp>(), count = ranks * chunks_of<P>;
  if constexpr (chunks_of<P> == 1)
    require(layers >= count, layers, " layers don't fill ", count,
            " pipeline stages; choose pp of at most the number of layers");
  else
    require(layers >= count, layers, " layers don't fill ", count, " pipeline stages, ", chunks_of<P>, " on each of ",
            ranks, " ranks; choose pp of at most ", layers / chunks_of<P>, ", or another schedule");
  std::vector<int> rank_of(static_cast<std::size_t>(count)), index_of;
  if (const schedule_fault f = detail::place_stages<P>(ranks, rank_of.data()))
    detail::fail_of_schedule(P::name, f, ranks, 0, chunks_of<P>);
  for (int c = 0; c < chunks_of<P>; ++c) index_of.push_back(detail::virtual_stage<P>(rank, ranks, c));
  return {layers, std::move(rank_of), index_of};
}

/// The first of them: of most schedules the only one.
template <schedule_policy P = one_f_one_b>
stage_place stage_of(const context& ctx, std::int64_t layers) {
  return stages_of<P>(ctx, layers)[0];
}

}  // namespace weft
