// Ends and barriers: who has to be there is run.cpp's, and what a barrier with votes answers.
#include <bit>

#include "families.hpp"
#include "machine.hpp"

namespace device {

bool decode_flow(instruction& in, const opcode& w) {
  const auto nothing = [](warp_view&, const instruction&) {};
  if (w[0] == "ret" || w[0] == "exit") return in.goes = flow::end, w.size() == 1;
  if (w[0] == "trap")
    return run_by(in, [](warp_view& v, const instruction&) { v.report(std::countr_zero(v.mask), 40, "trap"); });
  if (w[0] == "membar" || w[0] == "fence" || w[0] == "nanosleep") return run_by(in, nothing);
  if ((w[0] == "bar" || w[0] == "barrier") && only(w, {"sync", "arrive", "cta", "aligned"})) {
    in.goes = flow::barrier;
    in.choice = says(w, "arrive");
    return !in.operands.empty() && (says(w, "sync") || says(w, "arrive")) && run_by(in, nothing);
  }
  if ((w[0] == "bar" || w[0] == "barrier") && says(w, "red")) {
    in.goes = flow::barrier;
    in.second_choice = says(w, "or") ? votes_any : says(w, "and") ? votes_all : says(w, "popc") ? votes_count : 0;
    return in.second_choice && in.operands.size() >= 3 &&
           only(w, {"red", "or", "and", "popc", "pred", "cta", "aligned"}) && run_by(in, nothing);
  }
  return false;
}

}  // namespace device
