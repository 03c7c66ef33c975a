// Runs of cuDNN's plans. Invariant: as cudnn_run.hpp's.
#include "cudnn_run.hpp"

#include <algorithm>

#include "../numbers.hpp"
#include "state.hpp"

namespace device::dnn {

namespace {

std::int64_t bytes_of(cudnnDataType_t t) { return t == CUDNN_DATA_FLOAT || t == CUDNN_DATA_INT32 ? 4 : 2; }
float get(const std::uint8_t* at, cudnnDataType_t t) {
  const auto as = [&]<class T>(T x) { return std::memcpy(&x, at, sizeof x), x; };
  if (t == CUDNN_DATA_FLOAT) return as(float());
  if (t == CUDNN_DATA_INT32) return static_cast<float>(as(std::int32_t()));
  return t == CUDNN_DATA_BFLOAT16 ? float_of_bf16(as(std::uint16_t())) : float_of_f16(as(std::uint16_t()));
}
void put(std::uint8_t* at, cudnnDataType_t t, float x) {
  const auto as = [&](auto y) { std::memcpy(at, &y, sizeof y); };
  if (t == CUDNN_DATA_FLOAT) return as(x);
  if (t == CUDNN_DATA_INT32) return as(static_cast<std::int32_t>(x));
  as(t == CUDNN_DATA_BFLOAT16 ? bf16_of(x) : f16_of(x));
}

}  // namespace

bool job::is_written(const tensor& t) const {
  const auto& all = of->operations;
  return std::any_of(all.begin(), all.end(), [&](const operation& o) { return o.to == t.id; });
}
bool job::fault(const tensor& t, const char* sentence) const {
  the_device().gpu.find_fault("cudnnBackendExecute: tensor " + std::to_string(t.id) + sentence);
  return false;
}
bool job::there(const tensor& t, const std::uint8_t* from) const {
  machine& gpu = the_device().gpu;
  const std::int64_t width = bytes_of(t.type), span = t.span() * width;
  if (!gpu.inside(from, static_cast<std::size_t>(span))) return fault(t, " isn't within one allocation of the device");
  if (from < workspace + used_workspace && workspace < from + span) return fault(t, " lies in the workspace");
  for (const auto& [other, place] : at) {
    const tensor& o = of->tensors.at(other);
    if (other != t.id && is_written(o) && from < place + o.span() * bytes_of(o.type) && place < from + span)
      return fault(t, " lies over one that is written");
  }
  bool known = true;
  if (!is_written(t) && !gpu.has_padding())
    t.each(
        [&](std::int64_t i) { known = known && gpu.all_written(from + i * width, static_cast<std::size_t>(width)); });
  return known || fault(t, " is read before it was written");
}
void job::run() const {
  for (const auto& [id, from] : at)
    if (!there(of->tensors.at(id), from)) return;
  std::map<std::int64_t, numbers> all = values;
  for (const auto& [id, from] : at) {
    const tensor& t = of->tensors.at(id);
    if (is_written(t)) continue;
    t.each([&, from = from](std::int64_t i) { all[t.id].push_back(get(from + i * bytes_of(t.type), t.type)); });
  }
  for (const operation& o : of->operations) all[o.to] = computed(*of, o, all, drawn);
  for (const auto& [id, to] : at) {
    const tensor& t = of->tensors.at(id);
    if (!is_written(t)) continue;
    std::size_t n = 0;
    t.each([&, to = to](std::int64_t i) {
      put(to + i * bytes_of(t.type), t.type, all[t.id][n++]);
      the_device().gpu.mark_written(to + i * bytes_of(t.type), static_cast<std::size_t>(bytes_of(t.type)));
    });
  }
  std::memset(workspace, 0xff, used_workspace);  // whatever lies there is gone
}

job job_of(const descriptor& plan, const descriptor& pack) {
  job j{plan.operations};
  const auto ids = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.all<std::uint8_t*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  j.workspace = pack.all<std::uint8_t*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE).at(0);
  if (ids.size() != pointers.size()) throw std::string("a pack of other numbers than pointers");
  if (!the_device().gpu.inside(j.workspace, used_workspace)) throw std::string("too small a workspace");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto found = j.of->tensors.find(ids[i]);
    if (found == j.of->tensors.end() || found->second.is_virtual)
      throw "the graph has no tensor " + std::to_string(ids[i]) + " in memory";
    const tensor& t = found->second;
    if (t.by_value) {
      j.values[t.id] = {get(pointers[i], t.type)};
    } else {
      if (reinterpret_cast<std::uintptr_t>(pointers[i]) % static_cast<std::uintptr_t>(t.alignment))
        throw "tensor " + std::to_string(t.id) + " isn't aligned as it says";
      j.at[t.id] = pointers[i];
    }
  }
  for (const auto& [id, t] : j.of->tensors)
    if (!t.is_virtual && !j.at.count(id) && !j.values.count(id)) throw "where is tensor " + std::to_string(id) + "?";
  return j;
}

}  // namespace device::dnn
