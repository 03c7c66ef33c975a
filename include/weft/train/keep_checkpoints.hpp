// The checkpoints of a run: one every so many steps and one when it ends, written while it goes on; old ones are
// removed. Invariant: once there has been a whole checkpoint, there is one at any time.
#pragma once

#include <map>

#include <weft/train/checkpoint.hpp>

namespace weft {

/// Which checkpoints a run has.
struct checkpoint_rule {
  std::string folder;           // theirs: step-00000100 and so on, by the batches of all runs; it is made
  std::int64_t every = 100;     // steps from one to the next; the run's end has one as well
  std::int64_t keep = 2;        // the newest so many are kept
  std::int64_t keep_every = 0;  // and those of each step that this divides; 0: no others
};

/// Throws weft::failure when a setting has no meaning.
inline void check(const checkpoint_rule& r) {
  require(!r.folder.empty(), "checkpoints need a folder");
  require(r.every >= 1, "a checkpoint every ", r.every, " steps; ask for one every 1 or more");
  require(r.keep >= 1, "the newest ", r.keep, " checkpoints are kept; keep 1 or more");
  require(r.keep_every >= 0, "a checkpoint of every ", r.keep_every, "th step is kept; it is 1 or more, or 0 (none)");
}

namespace detail {

inline std::string checkpoint_name(std::int64_t step) {
  const std::string digits = std::to_string(step);
  return "step-" + std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits;
}

/// A folder's whole checkpoints by step; none where it isn't there.
inline std::map<std::int64_t, std::string> checkpoints_in(const std::string& folder) {
  std::map<std::int64_t, std::string> found;
  std::error_code none;
  if (!std::filesystem::exists(folder, none)) return found;
  for (const std::filesystem::path& entry : entries_of(folder)) {
    const std::string name = entry.filename().string();
    if (!name.starts_with("step-") || name.size() > 5 + 18) continue;
    if (name.find_first_not_of("0123456789", 5) != name.npos || name.size() == 5) continue;
    if (!std::filesystem::exists(entry / "manifest.json", none)) continue;  // somebody's, or half removed
    found[std::stoll(name.substr(5))] = entry.string();
  }
  return found;
}

/// It has no name any more when its first file goes.
inline void remove_checkpoint(const std::string& path) {
  std::error_code gone;
  std::filesystem::rename(path, unfinished(path), gone);
  if (!gone) std::filesystem::remove_all(unfinished(path), gone);
}

/// Removes a run's checkpoints but those that the rule keeps; on stderr what is in the way. By one rank, when it has
/// written a new one.
inline void remove_old_checkpoints(const checkpoint_rule& rule) {
  try {
    auto all = checkpoints_in(rule.folder);
    for (std::int64_t i = 0; i < rule.keep && !all.empty(); ++i) all.erase(std::prev(all.end()));
    for (const auto& [step, path] : all)
      if (rule.keep_every == 0 || step % rule.keep_every != 0) remove_checkpoint(path);
  } catch (const std::exception& e) {  // the new one is whole
    std::fprintf(stderr, "weft: checkpoints of before stay until the next one: %s\n", e.what());
  }
}

/// Makes the folder of a run that has come to `step`, and takes away what a killed run left half written. Throws where
/// another one is writing.
inline void make_checkpoint_folder(const std::string& folder, std::int64_t step) {
  namespace fs = std::filesystem;
  make_folder(folder);
  const auto found = checkpoints_in(folder);
  require(found.empty() || found.rbegin()->first <= step, "the folder ", folder, " holds ",
          checkpoint_name(found.empty() ? 0 : found.rbegin()->first), ", and this run has only come to step ", step,
          "; load that checkpoint, remove it, or write this run's to another folder");
  std::error_code why;
  for (const fs::path& entry : entries_of(folder)) {
    const std::string name = entry.filename().string();
    if (!name.starts_with("step-") || !name.ends_with(".unfinished")) continue;
    require(!is_being_written(entry.string() + '/' + numbers_file), "the folder ", folder,
            " is where another run writes its checkpoints, ", name, " now; write this run's to another folder");
    fs::remove_all(entry, why);
  }
}

}  // namespace detail

/// The newest whole checkpoint in a folder of keep_checkpoints. Throws weft::failure where there is none.
inline std::string newest_checkpoint(const std::string& folder) {
  const auto found = detail::checkpoints_in(folder);
  require(!found.empty(), "the folder ", folder,
          " holds no whole checkpoint, step-00000100 say; give the folder that a run's checkpoints were written to");
  return found.rbegin()->second;
}

/// `keep_checkpoints saves(ctx, trainer, {.folder = "run/checkpoints"}); trainer.run(data, {.callbacks = {&saves}});`
/// A save that fails is told on stderr and the run goes on, with the checkpoints that there are, to the next one; where
/// the last one fails the run throws weft::failure. All ranks make one, and see the folder.
template <class Trainer>
class keep_checkpoints final : public training_callback {
 public:
  keep_checkpoints(context& ctx, Trainer& t, const checkpoint_rule& rule) : ctx_(ctx), trainer_(t), rule_(rule) {
    check(rule);
    detail::on_all_or_none(ctx, [&] {
      if (ctx.is_first()) detail::make_checkpoint_folder(rule.folder, t.state().batches);
    });
  }

  std::string after_step(const step_report&) override {
    if (under_way_ && all_synced()) tell_failure([&] { finish(); });
    if (now() % rule_.every != 0) return {};
    tell_failure([&] { finish(); });
    tell_failure([&] { begin(); });
    return {};
  }
  bool may_come_late(std::int64_t) override { return !under_way_ && (now() + 1) % rule_.every != 0; }
  void after_run(const training_result&) override {
    if (begun_ != now()) tell_failure([&] { finish(); });
    if (!under_way_ && saved_ != now()) begin();
    finish();
  }

 private:
  std::int64_t now() const { return trainer_.state().batches; }
  bool all_synced() {
    std::int64_t waits = under_way_->is_synced() ? 0 : 1;
    ctx_.world.host().all_reduce(&waits, &waits, 1, dtype::i64, reduction::max, {"whether a save waits"}).wait();
    return waits == 0;
  }
  void begin() {
    begun_ = now();
    std::string path;
    detail::on_all_or_none(ctx_, [&] { path = rule_.folder + '/' + detail::checkpoint_name(begun_); });
    under_way_.emplace(begin_checkpoint(ctx_, trainer_, path));
  }
  void finish() {
    if (!under_way_) return;
    checkpoint_under_way done = std::move(*under_way_);
    under_way_.reset();
    done.finish();
    saved_ = begun_;
    if (ctx_.is_first()) detail::remove_old_checkpoints(rule_);
  }
  /// What fails on all ranks alike, as all of a save does, is told once; what this one alone throws ends the run.
  template <class F>
  void tell_failure(F&& save) {
    try {
      save();
    } catch (const detail::failure_of_all& e) {
      tell(e.what());
    } catch (...) {
      if (ctx_.size() > 1) throw;
      tell(detail::said_by_what_is_caught().c_str());
    }
  }
  void tell(const char* why) const {
    if (ctx_.is_first())
      std::fprintf(stderr, "weft: after step %lld no checkpoint: %s\n", static_cast<long long>(now()), why);
  }

  context& ctx_;
  Trainer& trainer_;
  checkpoint_rule rule_;
  std::optional<checkpoint_under_way> under_way_;
  std::int64_t begun_ = -1, saved_ = -1;  // steps: of the newest save, and of the newest that is whole
};

}  // namespace weft
