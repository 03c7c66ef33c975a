// The log of a run's numbers: lines of steps on stdout with a bar below them on a terminal, and metrics.jsonl with
// every step. Only the first rank has one. Invariant: what a step has to say is written before the next one begins.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include <weft/io/json.hpp>
#include <weft/train/json_lines.hpp>
#include <weft/train/progress.hpp>
#include <weft/train/terminal.hpp>

namespace weft {

class metrics_log {
 public:
  /// `every`: steps from line to line on stdout; 0: none. `folder`: where metrics.jsonl goes, empty for nowhere; throws
  /// when it can't.
  metrics_log(std::int64_t every, const std::string& folder)
      : every_(every), bar_(every > 0 && detail::stdout_can_redraw()) {
    if (!folder.empty()) file_.emplace(folder, "metrics.jsonl");
  }
  ~metrics_log() { line({}); }  // takes the bar away, after an error too
  metrics_log(const metrics_log&) = delete;
  metrics_log& operator=(const metrics_log&) = delete;

  /// Files that were given up, since the disk didn't take them: 0 or 1.
  int lost_files() const { return lost_files_; }

  WEFT_LINKED void step(const step_report& r) {
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
    const bool unusual = !r.not_finite.empty() || r.skipped || r.spike || r.zeroed.total > 0;
    left_out_ = every_ > 0 && r.step % every_ != 0 && r.step != 1 && r.step != r.steps && !unusual;
    if (every_ > 0 && !left_out_) line(step_line(r));
    if (bar_) draw(r.step, r.steps);
  }
  /// The run ends with r, the newest step, before its last one: prints its line, if that was left out.
  void last_line(const step_report& r) {
    if (std::exchange(left_out_, false)) line(step_line(r));
  }
  WEFT_LINKED void validation(std::int64_t step, double loss, const std::vector<metric_value>& metrics) {
    json_writer w;
    w.begin_object().member("step", step).member("validation_loss", loss);
    char number[32];
    std::snprintf(number, sizeof number, "%.4f", loss);
    std::string text = std::string("validation loss ") + number;
    if (!metrics.empty()) w.key("metrics").begin_object();
    for (const metric_value& m : metrics) {
      w.member(m.name, m.value);
      std::snprintf(number, sizeof number, " %.4f", m.value);
      text += ", " + m.name + number;
    }
    if (!metrics.empty()) w.end_object();
    record(w.end_object());
    line(text);
  }
  /// Sequences of so many tokens were asked for, and there are none.
  WEFT_LINKED void no_validation(std::int64_t seq) {
    line("no validation loss: what is held out has no sequence of " + std::to_string(seq) + " tokens with a target");
  }

 private:
  WEFT_LINKED void record(const json_writer& w) {
    if (!file_ || detail::written([&] { file_->write(w.text()); })) return;
    file_.reset();
    ++lost_files_;
  }
  WEFT_LINKED void line(const std::string& text) {
    if (every_ == 0) return;
    if (bar_) std::fputs("\r\033[K", stdout);
    if (!text.empty()) std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }
  WEFT_LINKED void draw(std::int64_t done, std::int64_t total) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    std::fprintf(stdout, "\r%s\033[K", progress_line(done, total, seconds, detail::stdout_columns()).c_str());
    std::fflush(stdout);
  }

  std::int64_t every_;
  bool bar_, left_out_ = false;  // left_out: the newest step's line wasn't printed
  int lost_files_ = 0;
  std::optional<json_lines> file_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace weft
