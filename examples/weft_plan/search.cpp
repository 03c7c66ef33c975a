// Planning what was asked, on all cores. The order of the answers doesn't depend on which was planned first.
#include "search.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <thread>
#include <tuple>

namespace weft_plan {
namespace {

constexpr int most_unless_given = 8;  // of tp and pp

bool asked(const std::vector<std::string>& list, const std::string& word) {
  return list.empty() || std::find(list.begin(), list.end(), word) != list.end();
}
bool asked(const question& q, const task& t) {
  if (q.train.empty() && q.text.empty()) return true;
  const std::vector<std::string>& list = t.trains ? q.train : q.text;
  return !list.empty() && asked(list, t.name);
}
bool asked(const question& q, const way& w, const weft::degrees& d) {
  // On one data-parallel rank there is nothing to shard, and in a text nothing to recompute.
  const bool same_as_replicated = d.dp == 1 && w.sharding != "replicated" && q.sharding.empty();
  return asked(q.sharding, w.sharding) && !same_as_replicated &&
         (!w.does->trains || (asked(q.checkpointing, w.checkpointing) && asked(q.loss, w.loss)));
}

/// Ways that differ in recomputation of layers alone, under the same degrees.
struct work {
  std::vector<const way*> ways;
  weft::degrees degrees;
  std::vector<answer> done;
};

/// What a search costs, in layers passed by a token that is written; of a micro-batch, which has a backward, five.
std::int64_t cost_of(const std::vector<work>& all, const asked_model& m, const question& q) {
  std::int64_t sum = 0;
  for (const work& w : all)
    for (const way* by : w.ways) {
      const std::int64_t each = std::max(q.batch / w.degrees.dp, std::int64_t{1});
      sum += m.layers * (!by->does->trains ? q.tokens + 1 : 5 * (q.micro_batches > 0 ? q.micro_batches : each));
    }
  return sum;
}
constexpr std::int64_t most_cost = std::int64_t{1} << 26;  // five minutes or so of one core

bool fits(const answer& a, const question& q) { return q.memory == 0 || a.takes() <= q.memory; }

void do_one(work& w, const asked_model& m, const question& q) {
  const bool may_stop = q.memory > 0 && q.rows > 0 && q.checkpointing.empty();
  for (const way* by : w.ways) {
    w.done.push_back(plan_one(*by, m, q, w.degrees));
    if (!w.done.back().refused.empty()) return;  // as the others would be
    if (may_stop && fits(w.done.back(), q)) return;
  }
}

}  // namespace

const weft::rank_plan& answer::largest() const {
  return *std::max_element(stages.begin(), stages.end(), [](const weft::rank_plan& a, const weft::rank_plan& b) {
    return a.memory.reserved < b.memory.reserved;
  });
}
std::uint64_t answer::receives() const {
  std::uint64_t most = 0;
  for (const weft::rank_plan& p : stages) {
    std::uint64_t sum = 0;
    for (const weft::trace_total& t : p.collectives) sum += static_cast<std::uint64_t>(t.wire_bytes);
    most = std::max(most, sum);
  }
  return most;
}
int answer::recomputes() const {
  const auto& names = checkpointing_names();
  return static_cast<int>(std::find(names.begin(), names.end(), by->checkpointing) - names.begin());
}

std::vector<weft::degrees> degrees_of(const question& q, const asked_model& m) {
  std::vector<weft::degrees> all;
  const auto open = [](int given, int degree, int most) { return given > 0 ? degree == given : degree <= most; };
  const int most_stages = static_cast<int>(std::min<std::int64_t>(most_unless_given, m.layers));
  for (int pp = 1; pp <= q.ranks; ++pp)
    for (int tp = 1; tp * pp <= q.ranks; ++tp) {
      const int dp = q.ranks / (tp * pp);
      if (dp * tp * pp == q.ranks && open(q.pp, pp, most_stages) && open(q.tp, tp, most_unless_given) &&
          open(q.dp, dp, q.ranks))
        all.push_back({.dp = dp, .tp = tp, .pp = pp});
    }
  return all;
}

answer plan_one(const way& by, const asked_model& m, const question& q, const weft::degrees& d) {
  answer out{&by, d, {}, {}};
  try {
    out.stages = by.plan(m, q, d);
  } catch (const weft::failure& e) {
    out.refused = e.what();
  } catch (const std::bad_alloc&) {  // of numbers that the machine which plans makes itself
    out.refused = "planning it takes more memory than there is here; ask for shorter sequences and a smaller batch";
  }
  return out;
}

std::vector<answers> search(const asked_model& m, const question& q, const progress& tell) {
  std::vector<work> all;
  for (const weft::degrees& d : degrees_of(q, m))
    for (const way& w : ways_of(m, d.tp)) {
      if (!asked(q, *w.does) || !asked(q, w, d)) continue;
      const auto same = [&](const work& other) {
        const way& first = *other.ways[0];
        return other.degrees == d && first.does == w.does && first.sharding == w.sharding && first.loss == w.loss;
      };
      const auto at = std::find_if(all.begin(), all.end(), same);
      if (at == all.end())
        all.push_back({{&w}, d, {}});
      else
        at->ways.push_back(&w);
    }

  const std::int64_t cost = cost_of(all, m, q);
  weft::require(cost <= most_cost, "so much is asked that planning it would take ", cost / most_cost + 1,
                " times as long as a plan may; give --micro-batches or a smaller --batch, fewer --tokens, or ask for "
                "less: --train, --text, --sharding, --dp, --tp, --pp");
  std::atomic<std::size_t> next{0};
  const auto go_on = [&](const progress& told) {
    for (std::size_t i = next++; i < all.size(); i = next++) {
      if (told) told(i, all.size());
      do_one(all[i], m, q);
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < std::min<std::size_t>(std::thread::hardware_concurrency(), all.size()); ++i)
      others.emplace_back(go_on, progress());
    go_on(tell);
  }

  std::vector<answers> out;
  for (const task& t : tasks()) {
    answers of_task{&t, {}, {}, 0, {}};
    for (work& w : all)
      for (answer& a : w.done)
        if (a.by->does == &t) (a.refused.empty() ? of_task.planned : of_task.refused).push_back(std::move(a));
    const auto size = [](const answer& a) {
      return std::tuple(a.takes(), a.largest().memory.peak_total, a.receives());
    };
    const auto key = [](const answer& a) {
      return std::tuple(a.degrees.pp, a.receives(), a.recomputes(), a.chunked(), a.takes());
    };
    const auto before = [&](const answer& a, const answer& b) {
      const bool fits_a = fits(a, q), fits_b = fits(b, q);
      if (fits_a != fits_b) return fits_a;
      if (q.memory == 0 || !fits_a) return size(a) < size(b);
      return key(a) < key(b);
    };
    std::stable_sort(of_task.planned.begin(), of_task.planned.end(), before);
    for (const answer& a : of_task.planned) of_task.fit += fits(a, q);
    if (asked(q, t)) out.push_back(std::move(of_task));
  }
  return out;
}

bool is_worse_than_one_of(const answer& a, const std::vector<const answer*>& before) {
  return std::any_of(before.begin(), before.end(), [&](const answer* b) {
    return b->takes() <= a.takes() && b->receives() <= a.receives() && b->recomputes() <= a.recomputes() &&
           b->chunked() <= a.chunked() && b->degrees.pp <= a.degrees.pp;
  });
}

}  // namespace weft_plan
