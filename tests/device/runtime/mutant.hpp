// One wait of one kernel left out, to see whether the checks notice (mutants_test.sh). WEFT_DEVICE_LEAVE_OUT=KERNEL:N
// takes the Nth, from 0; with WEFT_DEVICE_WAITS set a program ends with how many each kernel that it launched has.
// Invariant: without these variables no kernel is changed.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "../machine.hpp"

namespace device {

class mutant {
 public:
  mutant() {
    if (const char* const asked = std::getenv("WEFT_DEVICE_LEAVE_OUT")) {
      const std::string text = asked;
      const std::size_t colon = text.rfind(':');
      kernel_ = text.substr(0, colon), number_ = std::atoi(text.c_str() + colon + 1);
    }
  }
  void look(kernel& k) {
    int count = 0;
    for (instruction& in : k.code) {
      if (!in.text.starts_with("bar.") && !in.text.starts_with("barrier.") && !in.text.starts_with("cp.async.wait"))
        continue;
      if (k.name == kernel_ && count == number_) {
        in.goes = flow::plain;
        in.run = [](warp_view&, const instruction&) {};
      }
      ++count;
    }
    waits_[k.name] = count;
  }
  /// A changed kernel was noticed: nothing more is asked.
  void end_if(bool noticed) const {
    if (noticed && number_ >= 0) std::_Exit(97);
  }
  void tell() const {
    if (std::getenv("WEFT_DEVICE_WAITS"))
      for (const auto& [name, count] : waits_) std::fprintf(stderr, "waits: %d %s\n", count, name.c_str());
  }

 private:
  std::string kernel_;
  int number_ = -1;
  std::map<std::string, int> waits_;
};

}  // namespace device
