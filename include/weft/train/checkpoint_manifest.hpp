// What of a trainer isn't in its store, as a checkpoint's manifest.json. Invariant: what is read is the state that was
// written, to the bit, of the same optimizer and seed.
#pragma once

#include <charconv>

#include <weft/io/json.hpp>
#include <weft/io/json_fields.hpp>
#include <weft/io/output_file.hpp>
#include <weft/train/trainer_state.hpp>

namespace weft::detail {

inline void write_manifest(const std::string& path, const trainer_state& s, const std::string& optimizer,
                           std::uint64_t seed) {
  json_writer w(1);
  const auto real = [&](const char* name, double x) {  // the same when it is read again
    char digits[32];
    const char* const end = std::to_chars(digits, digits + sizeof digits, x).ptr;
    w.key(name).raw(is_finite(x) ? std::string_view(digits, end) : "null");
  };
  w.begin_object().member("version", 1).member("optimizer", optimizer);
  w.member("updates", s.updates).member("batches", s.batches).member("passes", s.passes);
  real("loss_scale", s.loss_scale);
  w.member("good_steps", s.good_steps).member("skipped_steps", s.skipped_steps);
  real("losses_mean", s.watched.losses.mean), real("losses_variance", s.watched.losses.variance);
  w.member("losses_seen", s.watched.losses.seen);
  w.member("bad_in_a_row", s.watched.in_a_row).member("overflows_in_a_row", s.watched.overflows);
  const std::string content = w.member("seed", seed).end_object().text() + '\n';
  write_unfinished(path, content);
  finish_output(path);
}
inline trainer_state read_manifest(const std::string& path, const std::string& optimizer, std::uint64_t seed) {
  const nlohmann::json said = read_json(path);
  json_fields f(said, path);
  f.only("version", 1);
  if (const std::string wrote = f.string("optimizer", optimizer); wrote != optimizer)
    f.fail("optimizer", wrote,
           "\"" + optimizer +
               "\", this trainer's: moments of one optimizer mean nothing to another. Go on with the one that wrote "
               "it, or "
               "begin anew from its weights alone, by save_weights and load_weights");
  const auto count = [&](const char* name, std::int64_t most = std::int64_t{1} << 62) {
    const std::int64_t n = f.whole_number(name);
    if (n < 0 || n > most) f.fail(name, n, text("a whole number from 0 to ", most));
    return n;
  };
  const auto small_count = [&](const char* name) { return static_cast<int>(count(name, 1 << 30)); };
  trainer_state s;
  s.updates = count("updates"), s.batches = count("batches");
  s.passes = static_cast<std::uint64_t>(count("passes"));
  s.loss_scale = f.number("loss_scale");
  if (!(s.loss_scale >= loss_scale::lowest && s.loss_scale <= loss_scale::highest))
    f.fail("loss_scale", s.loss_scale, "a number from 2^-24 to 2^24");
  s.good_steps = small_count("good_steps");
  s.skipped_steps = small_count("skipped_steps");
  s.watched.losses = {f.number("losses_mean"), f.number("losses_variance"), count("losses_seen")};
  s.watched.in_a_row = small_count("bad_in_a_row");
  s.watched.overflows = small_count("overflows_in_a_row");
  const nlohmann::json* const seeded = f.find("seed");
  if (!seeded || *seeded != seed)
    f.fail("seed", seeded ? *seeded : nlohmann::json(),
           std::to_string(seed) + ", the seed of this launch, for the same masks and batches");
  f.finish();
  return s;
}

}  // namespace weft::detail
