// Planning again with the loss in chunks, with more ranks, and with shorter sequences.
#include "advice.hpp"

namespace weft_plan {

std::vector<advice> advice_for(const answers& of, const asked_model& m, const question& q) {
  std::vector<advice> out;
  if (of.fit > 0 || of.planned.empty()) return out;
  const bool trains = of.of->trains;
  const answer& smallest = of.planned[0];

  // Ways alike but for the loss.
  for (const way& by : ways_of(m, smallest.degrees.tp)) {
    const way& was = *smallest.by;
    const bool alike = by.does == was.does && by.sharding == was.sharding && by.checkpointing == was.checkpointing;
    if (!alike || by.loss != "chunked" || was.loss == "chunked") continue;
    answer then = plan_one(by, m, q, smallest.degrees);
    if (then.refused.empty() && then.takes() <= q.memory) out.push_back({"--loss chunked", std::move(then)});
  }

  question more = q;
  more.dp = more.tp = more.pp = 0;
  more.train = trains ? std::vector<std::string>{of.of->name} : std::vector<std::string>{};
  more.text = trains ? std::vector<std::string>{} : std::vector<std::string>{of.of->name};
  more.sharding = {"zero3"}, more.checkpointing = {"full"};
  bool enough = false;
  for (int times = 2; times <= 16 && q.ranks * times <= 4096 && !enough; times *= 2) {
    more.ranks = q.ranks * times, more.batch = q.batch * times;
    for (answers& then : search(m, more))
      if (then.fit > 0) {
        const std::string batch = q.batch == q.ranks ? "" : " --batch " + std::to_string(more.batch);
        out.push_back({"--ranks " + std::to_string(more.ranks) + batch, std::move(then.planned[0])});
        enough = true;
      }
  }

  question shorter = q;
  std::int64_t& length = trains ? shorter.seq : shorter.prompt;
  while (length > 256) {
    length /= 2;
    answer then = plan_one(*smallest.by, m, shorter, smallest.degrees);
    if (!then.refused.empty() || then.takes() > q.memory) continue;
    out.push_back({(trains ? "--seq " : "--prompt ") + std::to_string(length), std::move(then)});
    break;
  }
  return out;
}

}  // namespace weft_plan
