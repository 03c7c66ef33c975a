// The log of a run's numbers: a line a step on stdout with a bar below it on a terminal, and metrics.jsonl. Only the
// first rank has one. Invariant: what a step has to say is written before the next one begins.
#pragma once

#include <unistd.h>

#include <chrono>
#include <optional>

#include <weft/io/json.hpp>
#include <weft/train/json_lines.hpp>
#include <weft/train/progress.hpp>

namespace weft {

class metrics_log {
 public:
  /// `print`: whether stdout gets lines. `folder`: where metrics.jsonl goes, empty for nowhere; throws when it can't.
  metrics_log(bool print, const std::string& folder) : print_(print), bar_(print && isatty(fileno(stdout))) {
    if (!folder.empty()) file_.emplace(folder, "metrics.jsonl");
  }
  ~metrics_log() { line({}); }  // takes the bar away, after an error too
  metrics_log(const metrics_log&) = delete;
  metrics_log& operator=(const metrics_log&) = delete;

  /// Files that were given up, since the disk didn't take them: 0 or 1.
  int lost_files() const { return lost_files_; }

  void step(const step_report& r) {
    json_writer w;
    w.begin_object()
        .member("step", r.step)
        .member("loss", r.loss)
        .member("gradient_norm", r.gradient_norm)
        .member("lr", r.lr);
    if (r.skipped) w.member("skipped", true);
    if (r.spike) w.member("spike", true);
    if (!r.not_finite.empty()) w.member("not_finite", r.not_finite);
    if (r.zeroed.total > 0) {
      w.key("zeroed").begin_object();
      for (const auto& [unit, n] : r.zeroed.units) w.member(unit, n);
      w.end_object();
    }
    w.member("ms", r.milliseconds).member("tokens", r.tokens).member("tokens_per_second", r.tokens_per_second());
    w.member("peak_bytes", r.peak_bytes).end_object();
    record(w);
    if (!r.not_finite.empty()) line(r.not_finite);
    line(step_line(r));
    if (bar_) draw(r.step, r.steps);
  }
  void validation(std::int64_t step, double loss) {
    json_writer w;
    record(w.begin_object().member("step", step).member("validation_loss", loss).end_object());
    char text[64];
    std::snprintf(text, sizeof text, "validation loss %.4f", loss);
    line(text);
  }

 private:
  void record(const json_writer& w) {
    if (!file_ || detail::written([&] { file_->write(w.text()); })) return;
    file_.reset();
    ++lost_files_;
  }
  void line(const std::string& text) {
    if (!print_) return;
    if (bar_) std::fputs("\r\033[K", stdout);
    if (!text.empty()) std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }
  void draw(std::int64_t done, std::int64_t total) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    std::fputs(progress_text(done, total, seconds, 40).c_str(), stdout);
    std::fflush(stdout);
  }

  bool print_, bar_;
  int lost_files_ = 0;
  std::optional<json_lines> file_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace weft
