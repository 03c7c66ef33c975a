// What a run says and leaves behind. Invariant: what went wrong with one file costs no other, and not the report.
#include "report.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

#if __has_include(<unistd.h>)
#include <fcntl.h>
#include <unistd.h>
#endif

#include <weft/io/file.hpp>
#include <weft/train/progress.hpp>
#include <weft/train/run_folder.hpp>

namespace train_llama {

namespace {

// For a terminal: bytes that would steer it become '?'.
std::string harmless(std::string text) {
  for (char& c : text)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F) c = '?';
  return text;
}

std::atomic<bool> stop_asked{false};
std::atomic<int> stopped_by{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

const int signals[] = {SIGINT, SIGTERM,
#ifdef SIGHUP
                       SIGHUP
#endif
};
const char* name_of_signal() { return stopped_by == SIGINT ? "Ctrl-C" : stopped_by == SIGTERM ? "SIGTERM" : "SIGHUP"; }

extern "C" void ask_to_stop(int signal) {
  stopped_by = signal;
  stop_asked = true;
  for (const int each : signals) std::signal(each, SIG_DFL);
}

}  // namespace

std::string sentence_of(const std::exception& e) {
  if (dynamic_cast<const std::bad_alloc*>(&e)) return "there is not enough memory; ask for a smaller model or batch";
  return e.what();
}

int in_run_folder(settings& s, const std::function<int()>& f) {
  const std::string name = name_of(s) + "-dp" + std::to_string(s.degrees.dp) + "-tp" + std::to_string(s.degrees.tp) +
                           (s.degrees.pp > 1 ? "-pp" + std::to_string(s.degrees.pp) : "");
  s.plan.folder = s.out.empty() ? "runs/" + name : s.out;
  if (const started_as own = this_process(); own.rank != 0) {  // a folder and a report are the first process's
    try {
      return f();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s, rank %d: %s\n", own.program, own.rank, sentence_of(e).c_str());
      throw;
    }
  }
  s.plan.folder = weft::new_run_folder(s.plan.folder);
  try {
    return f();
  } catch (const std::exception& e) {
    try {
      weft::write_file(s.plan.folder + "/error.txt", sentence_of(e) + '\n');
    } catch (const weft::file_error&) {  // stderr gets the sentence too
    }
    throw;
  }
}

void begin_run(settings& s, const weft::text_corpus& text) {
  s.plan.stop = s.sample.stop = &stop_asked;
#ifdef SIGPIPE
  std::signal(SIGPIPE, SIG_IGN);  // whoever reads the output may go away
#endif
  for (const int signal : signals)
    if (std::signal(signal, ask_to_stop) == SIG_IGN) std::signal(signal, SIG_IGN);  // as nohup and shells want it
  const started_as own = this_process();
  if (own.rank != 0) return;
  weft::write_file(s.plan.folder + "/config.json", to_json(s));
  std::printf("%s on %d ranks, dp %d x tp %d x pp %d, %d core%s a rank%s\n", name_of(s).c_str(), s.ranks, s.degrees.dp,
              s.degrees.tp, s.degrees.pp, s.threads, s.threads == 1 ? "" : "s",
              std::strcmp(own.backend, "cuda") == 0 ? ", on GPU 0" : "");
  std::printf("Llama with layers %lld, hidden %lld: %.2f M parameters; %lld sequences of %lld tokens a step\n",
              static_cast<long long>(s.model.layers), static_cast<long long>(s.model.hidden),
              static_cast<double>(s.model.parameters()) / 1e6, static_cast<long long>(s.plan.batch),
              static_cast<long long>(s.plan.seq));
  std::printf("%s: %.2f MB of text, unigram entropy %.3f nats a byte\n", text.path.c_str(),
              static_cast<double>(text.bytes.size()) / 1e6, text.entropy);
  std::fflush(stdout);
}

int end_run(const settings& s, const weft::text_corpus& text, const weft::training_result& r,
            const weft::memory_ledger& ledger, const std::string& sample) {
  int lost = r.lost_files;
  if (!r.stopped)
    lost += !weft::detail::written([&] { weft::write_file(s.plan.folder + "/sample.txt", s.prompt + sample + '\n'); });
  std::printf("\n%lld steps in %s: loss %.3f, at first %.3f", static_cast<long long>(r.steps),
              weft::duration_text(r.seconds).c_str(), r.loss, r.first_loss);
  if (r.validation_loss >= 0) std::printf("; on held-out text %.3f", r.validation_loss);
  std::printf(
      " nats a byte\nthe corpus's unigram entropy is %.3f: what knowing how frequent each byte is would reach\n",
      text.entropy);
  std::printf("memory of rank 0 at its peak, MiB: %.1f =", static_cast<double>(ledger.peak_total) / (1 << 20));
  for (std::size_t c = 0; c < ledger.at_peak.size(); ++c)
    std::printf("%s %s %.1f", c ? " +" : "", std::string(weft::memory_names[c]).c_str(),
                static_cast<double>(ledger.at_peak[c]) / (1 << 20));
  if (r.spikes + r.not_finite > 0)
    std::printf("\n%lld loss spikes; %lld steps with NaN or infinity, %lld gradient elements set to zero",
                static_cast<long long>(r.spikes), static_cast<long long>(r.not_finite),
                static_cast<long long>(r.zeroed));
  std::printf("\n%s holds config.json, metrics.jsonl, result.json, %smemory.json, %s%strace.json for ui.perfetto.dev\n",
              s.plan.folder.c_str(), s.plan.watch.every > 0 ? "monitor.jsonl, " : "",
              s.save_every > 0 ? "checkpoints, " : "", r.stopped ? "and " : "sample.txt, and ");
  if (!r.stopped && s.sample.tokens > 0)
    std::printf("\n-- a sample, from the prompt on --\n%s%s\n", s.prompt.c_str(), harmless(sample).c_str());
  std::fflush(stdout);
  if (r.stopped)
    std::fprintf(stderr, "%s: %s ended the run after step %lld of %lld; %s %s\n", this_process().program,
                 name_of_signal(), static_cast<long long>(r.last_step), static_cast<long long>(s.plan.steps),
                 s.save_every > 0 && lost == 0 ? "it goes on with --resume" : "what it wrote is in",
                 s.plan.folder.c_str());
  else if (stop_asked)
    std::fprintf(stderr, "%s: %s came after the last step; %s holds the whole run\n", this_process().program,
                 name_of_signal(), s.plan.folder.c_str());
  if (lost > 0)
    std::fprintf(stderr, "%s: %d of the run's files could not be written whole, as said above\n",
                 this_process().program, lost);
  return lost > 0 ? 1 : stop_asked ? 130 : 0;
}

void hold_output() {
#if __has_include(<unistd.h>)
  if (fcntl(STDOUT_FILENO, F_GETFD) == -1) (void)!open("/dev/null", O_RDONLY);
#endif
}

int said(int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "%s: stdout did not take all that was printed%s%s; the run's files are written\n",
               this_process().program, errno ? ": " : "", errno ? std::strerror(errno) : "");
  return code == 0 ? 1 : code;
}

}  // namespace train_llama
