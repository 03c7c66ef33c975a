// A checkpoint's manifest.json: what of a trainer isn't in its store, of which model it is, and which tensor lies where
// in which file. Invariant: what is read is the state that was written, to the bit; to go on from it takes the same
// optimizer and seed.
#pragma once

#include <charconv>

#include <weft/io/json_fields.hpp>
#include <weft/io/output_file.hpp>
#include <weft/train/checkpoint_files.hpp>
#include <weft/train/trainer_state.hpp>

namespace weft::detail {

struct checkpoint_manifest {
  trainer_state state;
  std::string optimizer;
  std::uint64_t seed = 0;
  std::string model;           // its config.json as of Hugging Face's folders; empty: no family of theirs
  double adapters = 0;         // what adapters' products are multiplied by; 0: there are none
  bool weights_alone = false;  // there are no moments, and no state
  std::string saved = {};      // when and where, which tells it from others, those of other runs too
  nlohmann::json files{};      // what these hold (checkpoint_files.hpp); null: the first version, which doesn't say
};

/// The fewest digits that are read again as x.
inline std::string exact_text(double x) {
  char digits[32];
  char* const end = std::to_chars(digits, digits + sizeof digits, x).ptr;
  return is_finite(x) ? std::string(digits, end) : "null";
}

/// When a run's checkpoint was saved. The mean loss tells runs apart.
inline std::string saved_text(const trainer_state& s, std::uint64_t seed) {
  return text("batch ", s.batches, ", update ", s.updates, ", seed ", seed, ", mean loss ",
              exact_text(s.watched.losses.mean));
}

/// tensors: the file's with the numbers, as it lies there.
inline void write_manifest(const std::string& path, const checkpoint_manifest& m, const safetensors_header& tensors) {
  json_writer w(4);
  const trainer_state& s = m.state;
  const auto real = [&](const char* name, double x) { w.key(name).raw(exact_text(x)); };
  w.begin_object().member("version", 2);
  if (m.weights_alone) {
    w.key("optimizer").raw("null");
  } else {
    w.member("optimizer", m.optimizer);
    w.member("updates", s.updates).member("batches", s.batches).member("passes", s.passes);
    real("loss_scale", s.loss_scale);
    w.member("good_steps", s.good_steps).member("skipped_steps", s.skipped_steps);
    real("losses_mean", s.watched.losses.mean), real("losses_variance", s.watched.losses.variance);
    w.member("losses_seen", s.watched.losses.seen);
    w.member("bad_in_a_row", s.watched.in_a_row).member("overflows_in_a_row", s.watched.overflows);
    w.member("seed", m.seed);
  }
  if (!m.model.empty()) w.key("model").raw(nlohmann::ordered_json::parse(m.model).dump());
  if (m.adapters != 0) real("adapters", m.adapters);
  write_file_index(w.key("files"), tensors);
  write_unfinished(path, w.end_object().text() + '\n');
  finish_output(path);
}

/// The optimizer and the seed of who goes on from a checkpoint.
struct goes_on_with {
  const std::string& optimizer;
  std::uint64_t seed;
};

/// Throws where the file isn't sound, or is of another optimizer or seed than `who` has, if there is one.
inline checkpoint_manifest read_manifest(const std::string& path, const goes_on_with* who = nullptr) {
  const nlohmann::json said = read_json(path);
  json_fields f(said, path);
  checkpoint_manifest m;
  const bool first = f.has("version") && *f.find("version") == 1;
  if (!first) f.only("version", 2);
  if (const nlohmann::json* const model = f.find("model")) m.model = model->dump();
  m.adapters = f.number("adapters", 0);
  if (const nlohmann::json* const files = f.find("files"))
    m.files = *files;
  else if (!first)
    f.fail("files", nullptr, "what the checkpoint's files hold");
  m.weights_alone = !first && f.says_null("optimizer");
  if (m.weights_alone) return f.finish(), m;
  m.optimizer = f.string("optimizer", who ? who->optimizer : "an optimizer");
  if (who && m.optimizer != who->optimizer)
    f.fail("optimizer", m.optimizer,
           "\"" + who->optimizer +
               "\", this trainer's: moments of one optimizer mean nothing to another. Go on with the one that wrote "
               "it, or begin anew from its weights alone, by save_weights and load_weights");
  const auto count = [&](const char* name, std::int64_t most = std::int64_t{1} << 62) {
    const std::int64_t n = f.whole_number(name);
    if (n < 0 || n > most) f.fail(name, n, text("a whole number from 0 to ", most));
    return n;
  };
  const auto small_count = [&](const char* name) { return static_cast<int>(count(name, 1 << 30)); };
  trainer_state& s = m.state;
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
  if (seeded && seeded->is_number_unsigned()) m.seed = seeded->get<std::uint64_t>();
  if (who && (!seeded || *seeded != who->seed))
    f.fail("seed", seeded ? *seeded : nlohmann::json(),
           std::to_string(who->seed) + ", the seed of this launch, for the same masks and batches");
  f.finish();
  return m;
}

}  // namespace weft::detail
