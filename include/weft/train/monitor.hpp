// The monitor: a line a step on stdout with a bar below it on a terminal, and metrics.jsonl. Only the first rank has one.
// Invariant: each line of the file is complete JSON and on the disk's side before the next step begins.
#pragma once

#include <chrono>
#include <unistd.h>

#include <weft/io/file.hpp>
#include <weft/io/json.hpp>
#include <weft/train/progress.hpp>

namespace weft {

class monitor {
 public:
  /// `print`: whether stdout gets lines. `metrics`: path of the file, empty for none. Throws when it can't be written.
  monitor(bool print, const std::string& metrics)
      : print_(print), bar_(print && isatty(fileno(stdout))), file_(metrics.empty() ? file_handle(nullptr, &std::fclose) : open_file(metrics, "wb")) {}
  ~monitor() { line({}); }  // takes the bar away, after an error too
  monitor(const monitor&) = delete;
  monitor& operator=(const monitor&) = delete;

  void step(const step_report& r) {
    json_writer w;
    w.begin_object().member("step", r.step).member("loss", r.loss).member("gradient_norm", r.gradient_norm).member("lr", r.lr);
    if (r.skipped) w.member("skipped", true);
    w.member("ms", r.milliseconds).member("tokens", r.tokens).member("tokens_per_second", r.tokens_per_second());
    w.member("peak_bytes", r.peak_bytes).end_object();
    record(w);
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
    if (!file_) return;
    const std::string text = w.text() + '\n';
    require(std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() && std::fflush(file_.get()) == 0,
            "metrics.jsonl can't be written: ", std::strerror(errno), "; check the space left on the disk");
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
  file_handle file_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace weft
