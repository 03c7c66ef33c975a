// One small thing wrong in one kernel, to see whether the checks notice (mutants_test.sh). Two kinds: `wait`, a
// barrier, a fence of the asynchronous proxy or a wait for copies or products is left out; `guard`, what stands behind
// a comparison of two whole numbers runs whatever that says: a branch over it is never taken. WEFT_DEVICE_MUTANT="KIND
// KERNEL:N" makes the Nth, from 0; with WEFT_DEVICE_MUTANTS set a program ends with all that there are in the kernels
// that it launched. Invariant: without these variables no kernel is changed.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "../lanes.hpp"

namespace device {

class mutant {
 public:
  void look(kernel& k, const ptx_unit& unit) {
    int waits = 0, guards = 0;
    std::map<std::uint32_t, bool> compares;  // which predicates the last comparison of two registers was for
    for (std::size_t i = 0; i < k.code.size(); ++i) {
      instruction& in = k.code[i];
      if (in.text.starts_with("setp.")) compares[in.operands[0].at] = orders_registers(in);
      const auto begins = [&](const auto&... with) { return (in.text.starts_with(with) || ...); };
      const bool is_wait = begins("bar.", "barrier.", "cp.async.wait", "mbarrier.arrive", "mbarrier.try_wait",
                                  "wgmma.wait", "wgmma.fence", "fence.mbarrier_init", "fence.proxy");
      const bool is_guard = in.goes == flow::branch && in.predicate >= 0 && in.target > static_cast<int>(i) + 1 &&
                            compares[static_cast<std::uint32_t>(in.predicate)];
      if (!(is_wait && meant("wait", waits++, k, unit, in)) && !(is_guard && meant("guard", guards++, k, unit, in)))
        continue;
      in.goes = flow::plain;
      if (begins("mbarrier.try_wait")) {  // which says that it is complete
        in.run = [](warp_view& v, const instruction& at) {
          mattered_ = true;
          set_predicate(v, at.operands[0], all_lanes);
        };
        continue;
      }
      in.run = [](warp_view&, const instruction&) { mattered_ = true; };
    }
  }
  /// A kernel was changed, and that was found: nothing more is asked.
  void end_if_found(const machine& gpu) const {
    if (asked_.empty() || gpu.findings().empty()) return;
    std::fprintf(stderr, "%s: %s\n", gpu.never_ends() ? "never ends" : "found", gpu.findings().front().c_str());
    std::_Exit(97);
  }
  void tell() const {
    if (!asked_.empty() && !mattered_) std::fprintf(stderr, "idle: nobody would have gone there\n");
    if (lists_)
      for (const std::string& one : all_) std::fprintf(stderr, "mutant: %s\n", one.c_str());
  }

 private:
  // Notes it; whether it is the one to make.
  bool meant(const char* is, int number, const kernel& k, const ptx_unit& unit, const instruction& in) {
    const std::string name = std::string(is) + " " + k.name + ":" + std::to_string(number);
    if (lists_) {
      std::string line = in.text;
      for (int p = in.place; p >= 0; p = k.places[static_cast<std::size_t>(p)].called_from) {
        const place& at = k.places[static_cast<std::size_t>(p)];
        const std::string& file = unit.file(at.file);
        line += " " + file.substr(file.rfind('/') + 1) + ":" + std::to_string(at.line);
      }
      all_.push_back(name + " " + line);
    }
    return name == asked_;
  }
  // Whether it is < or a relation like it, of two registers.
  static bool orders_registers(const instruction& in) {
    const auto is_register = [](const operand& o) { return o.is == operand::form::in_register; };
    return in.of.is != kind::floating && !in.text.starts_with("setp.eq") && !in.text.starts_with("setp.ne") &&
           is_register(in.operands[0]) && is_register(in.operands[1]) && is_register(in.operands[2]);
  }

  static std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    return value ? value : "";
  }
  const std::string asked_ = variable("WEFT_DEVICE_MUTANT");
  const bool lists_ = !variable("WEFT_DEVICE_MUTANTS").empty();
  std::vector<std::string> all_;
  inline static bool mattered_ = false;  // a lane came to what was left out, and would have waited or branched
};

}  // namespace device
