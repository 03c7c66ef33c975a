// What a terminal is shown: the line of a step, the bar, and times for people. Pure functions from numbers to text.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>

#include <weft/train/training.hpp>

namespace weft {

/// "4 s", "1:23", "2:03:05".
WEFT_LINKED std::string duration_text(double seconds) {
  const auto s = static_cast<long long>(std::max(seconds, 0.0) + 0.5);
  char text[48];
  if (s < 60)
    std::snprintf(text, sizeof text, "%lld s", s);
  else if (s < 3600)
    std::snprintf(text, sizeof text, "%lld:%02lld", s / 60, s % 60);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  return text;
}

/// "[=====>    ]  52 %, 1:23 left". `width`: columns between the brackets.
WEFT_LINKED std::string progress_text(std::int64_t done, std::int64_t total, double seconds, int width) {
  const double share = total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 1.0;
  const int filled = static_cast<int>(share * width);
  std::string bar(static_cast<std::size_t>(filled), '=');
  if (filled < width) bar += filled > 0 ? '>' : ' ';
  bar.resize(static_cast<std::size_t>(width), ' ');
  char text[96];
  std::snprintf(text, sizeof text, "] %3d %%", static_cast<int>(share * 100));
  std::string out = '[' + bar + text;
  if (done > 0 && done < total)
    out += ", " + duration_text(seconds / static_cast<double>(done) * static_cast<double>(total - done)) + " left";
  return out;
}

/// The same, with up to 40 columns between the brackets, for a terminal of so many columns: it never reaches the last
/// one, where terminals wrap.
WEFT_LINKED std::string progress_line(std::int64_t done, std::int64_t total, double seconds, int columns) {
  constexpr int widest = 40;
  std::string line = progress_text(done, total, seconds, widest);
  const int over = static_cast<int>(line.size()) - (columns - 1);
  if (over > 0) line = progress_text(done, total, seconds, std::max(widest - over, 0));
  if (static_cast<int>(line.size()) >= columns) line.resize(static_cast<std::size_t>(std::max(columns - 1, 0)));
  return line;
}

/// One line for one step.
WEFT_LINKED std::string step_line(const step_report& r) {
  char text[240];
  const int digits = static_cast<int>(std::to_string(r.steps).size());
  std::snprintf(text, sizeof text, "step %*lld/%lld  loss %.4f  norm %7.3f  lr %.2e  %6.0f ms  %7.0f tok/s  %.1f MiB%s",
                digits, static_cast<long long>(r.step), static_cast<long long>(r.steps), r.loss, r.gradient_norm, r.lr,
                r.milliseconds, r.tokens_per_second(), static_cast<double>(r.peak_bytes) / (1 << 20),
                r.skipped ? "  skipped" : "");
  std::string out = text;
  if (r.zeroed.total > 0) out += "  zeroed " + std::to_string(r.zeroed.total);
  return r.spike ? out + "  spike" : out;
}

}  // namespace weft
