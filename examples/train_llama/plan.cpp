// --plan: what each rank would hold and send, without computing or sending anything.
// Invariant: it is the run's own program that is asked, by the same settings.
#include <weft/plan/training.hpp>
#include <weft/weft.hpp>

#include "settings.hpp"
#include "strategies.hpp"

namespace train_llama {
std::vector<weft::rank_plan> plan_of(const settings& s) {
  std::vector<weft::rank_plan> out;
  const auto find = [&]<class S>() {
    if (strategy_name<S>() == name_of(s))
      out = weft::plan_stages<weft::llama, S>(s.model, s.degrees, s.plan, s.optimizer, {.threads_per_rank = s.threads});
  };
  each_strategy<weft::fp32>(find);
  each_strategy<weft::bf16_mixed>(find);
  if (std::string_view(this_process().backend) != "cpu")  // whose kernels alone are known
    for (weft::rank_plan& p : out) p.memory.scratch.reset();
  return out;
}

std::string text_of(const std::vector<weft::rank_plan>& plans, bool json) {
  std::string text;
  for (const weft::rank_plan& p : plans)
    text += json ? (text.empty() ? "[" : ",\n") + weft::json_of(p) : weft::table_of(p);
  return text + (json ? "]\n" : "");
}

}  // namespace train_llama
