// Checking settings, and filling in what follows from them.
#include "settings.hpp"

#include <algorithm>
#include <cmath>
#include <thread>

#include <weft/train/step_guard.hpp>

namespace train_llama {

std::string name_of(const settings& s) {
  return s.sharding + '-' + s.precision + (s.checkpointing == "none" ? "" : '-' + s.checkpointing) +
         (s.sequence_parallel ? "-sp" : "");
}

const std::vector<choice>& choices() {
  static const std::vector<choice> all = [] {
    std::vector<choice> joined = bf16_strategies();
    for (const choice& c : fp32_strategies()) joined.push_back(c);
    return joined;
  }();
  return all;
}

void set_strategy(settings& s, const given_strategy& given, const std::string& prefix) {
  using weft::require;
  if (!given.name.empty()) {
    std::vector<std::string> valid;
    for (const choice& c : choices()) valid.push_back(c.name);
    check_name("strategy", given.name, valid);
    const auto has = [&](const std::string& part) {
      return ('-' + given.name + '-').find('-' + part + '-') != std::string::npos;
    };
    s.sharding = given.name.substr(0, given.name.find('-'));
    s.precision = has("bf16") ? "bf16" : "fp32";
    s.checkpointing = has("full") ? "full" : has("selective") ? "selective" : "none";
    s.sequence_parallel = has("sp");
  }
  const std::string named = prefix + "strategy " + given.name;
  const auto set_part = [&](const char* name, std::string& part, const std::string& value) {
    require(given.name.empty() || value.empty() || value == part, named, " is ", name, ' ', part, ", and ",
            prefix == "--" ? "--" : "", name, " is ", value, "; leave one of them out");
    if (!value.empty()) part = value;
  };
  set_part("sharding", s.sharding, given.sharding);
  set_part("precision", s.precision, given.precision);
  set_part("checkpointing", s.checkpointing, given.checkpointing);
  if (!given.sequence_parallel) return;
  const bool wanted = *given.sequence_parallel;
  const char* const word = prefix == "--" ? "--sequence-parallel" : "sequence_parallel";
  require(given.name.empty() || s.sequence_parallel || !wanted, named, " leaves the sequence whole, and ", word,
          " is given; write ", given.name, "-sp");
  require(given.name.empty() || !s.sequence_parallel || wanted, named, " shards the sequence, and ", word,
          " is false; leave one of them out");
  s.sequence_parallel = wanted;
}

void resolve(settings& s) {
  using weft::require;
  check_name("sharding policy", s.sharding, {"replicated", "zero1", "zero2", "zero3"});
  check_name("precision policy", s.precision, {"fp32", "bf16"});
  check_name("checkpointing policy", s.checkpointing, {"none", "selective", "full"});
  const weft::degrees& d = s.degrees;
  require(d.dp >= 1 && d.tp >= 1 && d.pp >= 1, "the degrees are dp ", d.dp, ", tp ", d.tp, " and pp ", d.pp,
          "; each is at least 1");
  const auto ranks = static_cast<int>(s.degrees.product());
  require(s.ranks == 0 || s.ranks == ranks, "dp ", d.dp, " x tp ", d.tp, " x pp ", d.pp, " takes ", ranks,
          " ranks, not ", s.ranks, "; change --dp, --tp, --pp or --ranks so that they agree");
  s.ranks = ranks;
  if (s.threads == 0) s.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks);
  require(s.threads >= 1 && s.threads <= 1024, "a rank works on ", s.threads,
          " cores, --threads; it is from 1 to 1024");

  const auto size = [](const char* option, std::int64_t n, std::int64_t least, std::int64_t most) {
    require(n >= least && n <= most, option, ", is ", n, "; it is from ", least, " to ", most);
  };
  size("the number of layers, --layers", s.model.layers, 1, 65536);
  size("the width, --hidden", s.model.hidden, 1, 1 << 20);
  size("the number of heads, --heads", s.model.heads, 1, 65536);
  size("the number of key and value heads, --kv-heads", s.model.kv_heads, 0, 65536);
  size("the width of a head, --head-dim", s.model.head_dim, 0, 1 << 20);
  size("the inner width, --ffn", s.model.ffn, 0, 1 << 22);
  size("the length of a sequence, --seq", s.model.max_seq, 1, 1 << 24);
  const auto number = [](const char* option, double x, double least) {
    require(std::isfinite(x) && x >= least, option, ", is ", x, "; it is a finite number, at least ", least);
  };
  require(std::isfinite(s.optimizer.lr) && s.optimizer.lr > 0, "the learning rate, --lr, is ", s.optimizer.lr,
          "; it is a finite number above 0");
  number("the weight decay, --weight-decay", s.optimizer.weight_decay, 0);
  number("the highest gradient norm, --clip", s.plan.clip_norm, 0);
  number("the deviations of a spike, --spike", s.plan.watch.spike_deviations, 0);
  number("the temperature, --temperature", s.sample.temperature, 0);
  number("the penalty, --repetition-penalty", s.sample.repetition_penalty, 0);

  require(s.plan.print_every >= 1, "a line every ", s.plan.print_every,
          " steps, --log-every, can't be printed; it is at least 1");
  require(s.plan.steps >= 1, "a run has at least 1 step, not ", s.plan.steps);
  require(s.save_every >= 0, "a checkpoint every ", s.save_every, " steps, --save-every; it is 0 (none) or more");
  require(s.keep >= 1, "the newest ", s.keep, " checkpoints are kept, --keep; it is at least 1");
  require(s.keep_every >= 0, "a checkpoint of every ", s.keep_every, "th step, --keep-every; it is 0 (none) or more");
  if (s.plan.seq == 0) s.plan.seq = s.model.max_seq;
  s.model.max_seq = s.plan.seq;
  s.model = s.model.resolved(s.degrees.tp);
  require(s.model.layers >= d.pp, s.model.layers, " layers don't fill pp = ", d.pp,
          " pipeline stages; choose pp of at most the number of layers");
  require(s.plan.micro_batches >= 1, "a step has at least 1 micro-batch, not ", s.plan.micro_batches);
  const std::int64_t parts = static_cast<std::int64_t>(s.plan.micro_batches) * s.degrees.dp;
  require(s.plan.batch >= 1, "a step has at least 1 sequence, --batch, not ", s.plan.batch);
  require(s.plan.batch % parts == 0, "a batch of ", s.plan.batch, " sequences doesn't divide into ",
          s.plan.micro_batches, " micro-batches on dp = ", s.degrees.dp, " ranks; choose a multiple of ", parts);
  require(s.plan.schedule.warmup >= 0, "the warm-up takes 0 steps or more, not ", s.plan.schedule.warmup);
  require(s.held_out >= 0 && s.held_out < 1, "the held-out share is from 0 to below 1, not ", s.held_out);
  weft::check(s.sample);

  const auto& actions = weft::non_finite_names;
  check_name("answer to NaN", s.on_non_finite, {std::begin(actions), std::end(actions)});
  const auto* const action = std::find(std::begin(actions), std::end(actions), s.on_non_finite);
  s.plan.watch.on_non_finite = static_cast<weft::non_finite>(action - std::begin(actions));
  weft::check(s.plan.watch);
}

}  // namespace train_llama
