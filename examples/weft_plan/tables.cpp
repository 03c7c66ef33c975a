// Answers as tables.
#include <algorithm>
#include <cstdio>

#include "report.hpp"

namespace weft_plan {
namespace {

std::string digits(const char* form, auto... values) {
  char text[240];
  std::snprintf(text, sizeof text, form, values...);
  return text;
}
std::string number(std::int64_t n) { return std::to_string(n); }

/// "21.3 GiB".
std::string bytes_text(std::size_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto n = static_cast<double>(bytes);
  int unit = 0;
  for (; n >= 1000 && unit < 5; ++unit) n /= 1024;
  return digits(unit > 0 ? "%.1f %s" : "%.0f %s", n, units[unit]);
}

/// "8.03 billion".
std::string count_text(std::int64_t n) {
  const auto x = static_cast<double>(n);
  return n >= 1000000000 ? digits("%.2f billion", x / 1e9) : n >= 1000000 ? digits("%.2f million", x / 1e6) : number(n);
}

/// The unit of a table, by its largest number.
struct unit {
  const char* name = "KiB";
  double bytes = 1024;

  explicit unit(std::size_t most) {
    if (most >= 1 << 20) name = "MiB", bytes *= 1024;
    if (most >= 1 << 30) name = "GiB", bytes *= 1024;
  }
  std::string operator()(auto n) const { return digits("%.1f", static_cast<double>(n) / bytes); }
};

struct column {
  const char* name;
  weft::memory of;
  bool of_training;
};
const column columns[] = {{"weights", weft::memory::parameters, false},
                          {"gradients", weft::memory::gradients, true},
                          {"optimizer", weft::memory::optimizer, true},
                          {"activ.", weft::memory::activations, false},
                          {"buffers", weft::memory::buffers, false}};

bool shows_loss(const task& t, const question& q) { return t.trains && q.loss != std::vector<std::string>{"whole"}; }

std::string head(const task& t, const question& q, const unit& in) {
  std::string out = digits("  %-10s", "sharding") + (t.trains ? "  recompute" : "");
  out += std::string(shows_loss(t, q) ? "  loss   " : "") + "   dp  tp  pp";
  out += digits(" %9s %9s", (std::string("takes ") + in.name).c_str(), "holds");
  for (const column& c : columns)
    if (t.trains || !c.of_training) out += digits(" %9s", c.name);
  return out + "  receives\n";
}

std::string row(const answer& a, const question& q, const unit& in) {
  const weft::rank_plan& p = a.largest();
  const auto& d = a.degrees;
  std::string out = digits("  %-10s", a.by->sharding.c_str());
  if (a.by->does->trains) out += digits("  %-9s", a.by->checkpointing.c_str());
  if (shows_loss(*a.by->does, q)) out += digits("  %-7s", a.by->loss.c_str());
  out += digits(" %4d %3d %3d %9s %9s", d.dp, d.tp, d.pp, in(a.takes()).c_str(), in(p.memory.peak_total).c_str());
  for (const column& c : columns)
    if (a.by->does->trains || !c.of_training)
      out += digits(" %9s", in(p.memory.at_peak[static_cast<std::size_t>(c.of)]).c_str());
  return out + digits(" %9s\n", in(a.receives()).c_str());
}

/// The rows to show, the best first.
std::vector<const answer*> rows_of(const answers& of, const question& q) {
  std::vector<const answer*> rows;
  const bool some = q.rows > 0;
  const std::size_t last = of.fit == 0 && some ? std::min<std::size_t>(of.planned.size(), 1) : of.planned.size();
  for (std::size_t i = 0; i < (some && of.fit > 0 ? of.fit : last); ++i)
    if (!some || (rows.size() < static_cast<std::size_t>(q.rows) && !is_worse_than_one_of(of.planned[i], rows)))
      rows.push_back(&of.planned[i]);
  return rows;
}

std::string title_of(const answers& of, const question& q) {
  const std::string says = std::string(of.of->says) + ": ";
  const std::size_t n = of.planned.size();
  if (n == 0)
    return says + (of.refused.empty() ? "no strategy of it is among those asked for\n" : "left out, as said below\n");
  if (q.memory == 0) return says + digits("%zu planned", n) + (n > 1 ? ", the smallest first\n" : "\n");
  if (of.fit == 0) return says + (n > 1 ? digits("none of %zu fits, the smallest is\n", n) : "it doesn't fit\n");
  return says + (n > 1 ? digits("%zu of %zu planned fit\n", of.fit, n) : "it fits\n");
}

std::string program_of(const answer& a, const question& q) {
  const auto& d = a.degrees;
  std::string out = "  first: " + a.by->type(d) + "\n         degrees{.dp = " + number(d.dp) +
                    ", .tp = " + number(d.tp) + ", .pp = " + number(d.pp) + '}';
  if (a.by->does->trains)
    out += ", training{.batch = " + number(q.batch) + ", .micro_batches = " + number(micro_batches_of(q, d.dp)) +
           ", .seq = " + number(q.seq) + '}';
  return out + '\n';
}

std::string help_of(const answers& of) {
  std::string out;
  for (const advice& one : of.helps) {
    const auto& d = one.then.degrees;
    out += "  would fit: " + one.change + ", at " + bytes_text(one.then.takes()) + " under " + one.then.by->sharding;
    if (of.of->trains) out += " with recomputation " + one.then.by->checkpointing;
    if (one.then.chunked()) out += " and the loss in chunks";
    out += digits(", dp %d, tp %d, pp %d\n", d.dp, d.tp, d.pp);
  }
  return out.empty() ? "  neither up to 16 times the ranks nor shorter sequences make it fit\n" : out;
}

std::string asked(const std::vector<answers>& all, const asked_model& m, const question& q) {
  std::string out = digits("%s: %s parameters, %lld layers of width %lld; %d rank%s", m.family.c_str(),
                           count_text(m.parameters).c_str(), static_cast<long long>(m.layers),
                           static_cast<long long>(m.hidden), q.ranks, q.ranks == 1 ? "" : "s");
  out += (q.memory > 0 ? " of " + bytes_text(q.memory) : "") + '\n';
  const auto any = [&](bool trains) {
    return std::any_of(all.begin(), all.end(), [&](const answers& a) { return a.of->trains == trains; });
  };
  if (any(true))
    out += "a step: " + number(q.batch) + (q.batch == 1 ? " sequence of " : " sequences of ") + number(q.seq) +
           " tokens, " +
           (q.micro_batches > 0 ? "in " + number(q.micro_batches) + " micro-batches"
                                : std::string("one at a time on a data-parallel rank")) +
           '\n';
  if (any(false)) out += "a text: " + number(q.prompt) + " tokens, and " + number(q.tokens) + " that are added\n";
  return out;
}

}  // namespace

std::string tables_of(const std::vector<answers>& all, const asked_model& m, const question& q, bool whole) {
  std::string out = asked(all, m, q);
  std::size_t planned = 0;
  bool shares = false;
  std::vector<std::string> refused;
  for (const answers& of : all) {
    planned += of.planned.size();
    for (const answer& a : of.planned) shares |= a.by->shares_kv;
    for (const answer& a : of.refused)
      if (std::find(refused.begin(), refused.end(), a.refused) == refused.end()) refused.push_back(a.refused);
  }
  for (const answers& of : all) {
    const std::vector<const answer*> rows = rows_of(of, q);
    out += '\n' + title_of(of, q);
    if (rows.empty()) continue;
    std::size_t most = 0;
    for (const answer* a : rows) most = std::max({most, a->takes(), static_cast<std::size_t>(a->receives())});
    const unit in(most);
    out += head(*of.of, q, in);
    for (const answer* a : rows) out += row(*a, q, in);
    out += program_of(*rows[0], q);
    if (of.fit == 0) out += help_of(of);
    if (whole || planned == 1)
      for (const weft::rank_plan& p : rows[0]->stages) out += weft::table_of(p);
  }
  if (shares) out += "\nwhere tp doesn't divide the key and value heads, its ranks share them: shared_kv<>\n";
  if (!refused.empty()) out += "\nleft out:\n";
  for (const std::string& why : refused) out += "  " + why + '\n';
  return out +
         "\ntakes: of the device, gaps between tensors among it, on the stage that takes most; holds: that stage at "
         "most at once, and as what\nreceives: from other ranks, in a step or a text, on the stage that receives "
         "most\nnot counted: what a "
         "GPU's driver and a communicator take, and scratch of kernels\n";
}

}  // namespace weft_plan
