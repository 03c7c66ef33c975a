// Answers as JSON, in bytes.
#include <weft/io/json.hpp>

#include "report.hpp"

namespace weft_plan {
namespace {

void write_way(weft::json_writer& w, const answer& a) {
  w.member("sharding", a.by->sharding);
  if (a.by->does->trains) w.member("checkpointing", a.by->checkpointing).member("loss", a.by->loss);
  w.member("strategy", a.by->type(a.degrees));
  w.member("dp", a.degrees.dp).member("tp", a.degrees.tp).member("pp", a.degrees.pp);
}

}  // namespace

std::string json_of(const std::vector<answers>& all, const asked_model& m, const question& q) {
  weft::json_writer w(2);
  w.begin_object().key("model").begin_object().member("file", m.file).member("family", m.family);
  w.member("parameters", m.parameters).end_object();
  w.member("ranks", q.ranks).key("memory");
  if (q.memory > 0)
    w.value(q.memory);
  else
    w.raw("null");
  w.member("batch", q.batch).member("seq", q.seq).member("prompt", q.prompt).member("tokens", q.tokens);
  w.key("answers").begin_array();
  for (const answers& of : all)
    for (const answer& a : of.planned) {
      w.begin_object().member("task", of.of->trains ? "train" : "text").member("what", of.of->name);
      write_way(w, a);
      if (of.of->trains) w.member("micro_batches", micro_batches_of(q, a.degrees.dp));
      if (q.memory > 0) w.member("fits", a.takes() <= q.memory);
      w.member("takes", a.takes()).member("holds", a.largest().memory.peak_total).member("receives", a.receives());
      w.key("stages").begin_array();
      for (const weft::rank_plan& p : a.stages) w.raw(weft::json_of(p));
      w.end_array().end_object();
    }
  w.end_array().key("would_fit").begin_array();
  for (const answers& of : all)
    for (const advice& one : of.helps) {
      w.begin_object().member("task", of.of->trains ? "train" : "text").member("what", of.of->name);
      w.member("change", one.change);
      write_way(w, one.then);
      w.member("takes", one.then.takes()).end_object();
    }
  w.end_array().key("left_out").begin_array();
  for (const answers& of : all)
    for (const answer& a : of.refused) {
      w.begin_object().member("task", of.of->trains ? "train" : "text").member("what", of.of->name);
      write_way(w, a);
      w.member("why", a.refused).end_object();
    }
  return w.end_array().end_object().text() + '\n';
}

}  // namespace weft_plan
