// cuDNN's graph API in a strict reading of its documentation: descriptors, one engine, and plans that run a graph
// operation by operation. Invariant: what it needn't take is refused.
#include <cstring>
#include <cudnn.h>

#include "cudnn_run.hpp"
#include "state.hpp"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace device::dnn {

namespace {

std::string& last_words() {
  thread_local std::string words;
  return words;
}
cudnnStatus_t finalize(descriptor& d) {
  if (d.finalized) return said(CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized already");
  if (const char* const name = lacks(d)) return said(CUDNN_STATUS_BAD_PARAM, std::string(name) + " isn't set");
  for (const auto& [name, a] : d.attributes)
    for (const descriptor_ref& inner : a.of)
      if (!inner->finalized) return said(CUDNN_STATUS_BAD_PARAM, "a descriptor in it isn't finalized");
  switch (d.type) {
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      try {
        d.operations = std::make_shared<const graph>(read_graph(d));
      } catch (const std::string& why) {
        return said(CUDNN_STATUS_BAD_PARAM, why);
      }
      break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      d.operations = d.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)->operations;
      if (const std::string why = refused(*d.operations); !why.empty()) return said(CUDNN_STATUS_NOT_SUPPORTED, why);
      break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      d.operations = d.at(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->operations;
      break;
    default:
      break;
  }
  d.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

/// Gives one value, or one descriptor of the graph, to who asks.
struct answer {
  cudnnBackendAttributeType_t type;
  std::int64_t asked, *count;
  void* out;

  cudnnStatus_t none() const { return give(0), CUDNN_STATUS_SUCCESS; }
  void give(std::int64_t n) const {
    if (count) *count = n;
  }
  cudnnStatus_t number(std::int64_t x) const {
    if (type != CUDNN_TYPE_INT64 || asked < 1) return said(CUDNN_STATUS_BAD_PARAM, "it is one int64");
    give(1);
    return *static_cast<std::int64_t*>(out) = x, CUDNN_STATUS_SUCCESS;
  }
  /// Into one that the caller has made.
  cudnnStatus_t made(cudnnBackendDescriptorType_t as, const std::shared_ptr<const graph>& operations) const {
    if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) return said(CUDNN_STATUS_BAD_PARAM, "it is a descriptor");
    give(1);
    if (asked < 1 || !out) return CUDNN_STATUS_SUCCESS;
    descriptor& to = *dnn::of(static_cast<cudnnBackendDescriptor_t*>(out)[0]);
    if (to.type != as || to.finalized) return said(CUDNN_STATUS_BAD_PARAM, "there is no new descriptor for it");
    to.finalized = true, to.operations = operations;
    return CUDNN_STATUS_SUCCESS;
  }
};

cudnnStatus_t asked(const descriptor& d, cudnnBackendAttributeName_t name, const answer& a) {
  if (!d.finalized) return said(CUDNN_STATUS_BAD_PARAM, "the descriptor isn't finalized");
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      return a.made(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, d.operations);
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      return a.made(CUDNN_BACKEND_ENGINE_DESCRIPTOR, d.operations);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
      return a.number(used_workspace);
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      return a.number(0);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
      return a.none();
    default:
      return said(CUDNN_STATUS_NOT_SUPPORTED, "that attribute isn't known here");
  }
}

}  // namespace

cudnnStatus_t said(cudnnStatus_t status, const std::string& why) {
  last_words() = why;
  return status;
}

}  // namespace device::dnn

extern "C" {

using namespace device::dnn;

std::size_t cudnnGetVersion() { return CUDNN_VERSION; }
const char* cudnnGetErrorString(cudnnStatus_t s) {
  switch (s) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    default:
      return "CUDNN_STATUS_EXECUTION_FAILED";
  }
}
void cudnnGetLastErrorString(char* to, std::size_t bytes) {
  if (bytes == 0) return;
  to[last_words().copy(to, bytes - 1)] = '\0';
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* h) {
  device::state& s = device::the_device();
  const device::held_lock held(s.lock);
  if (s.kept.forbidden() != device::refusal::none) return said(CUDNN_STATUS_EXECUTION_FAILED, "a stream is captured");
  return *h = new cudnnContext, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t h) { return delete h, CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s) { return h->stream = s, CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnGetStream(cudnnHandle_t h, cudaStream_t* s) { return *s = h->stream, CUDNN_STATUS_SUCCESS; }

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* d) {
  *d = new held_descriptor{std::make_shared<descriptor>(descriptor{type})};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
  return delete static_cast<held_descriptor*>(d), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d) { return finalize(*of(d)); }
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  descriptor& d = *of(to);
  if (d.finalized) return said(CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized");
  if (!may_set(d.type, name, type))
    return said(CUDNN_STATUS_NOT_SUPPORTED, "descriptor " + std::to_string(d.type) + " has no attribute " +
                                                std::to_string(name) + " of type " + std::to_string(type));
  if (count < 1 || !values) return said(CUDNN_STATUS_BAD_PARAM, "no values");
  attribute a{type, {}, {}, count};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (std::int64_t i = 0; i < count; ++i)
      a.of.push_back(of(static_cast<const cudnnBackendDescriptor_t*>(values)[i]));
  } else {
    a.bytes.resize(static_cast<std::size_t>(count) * width_of(type));
    std::memcpy(a.bytes.data(), values, a.bytes.size());
  }
  d.attributes[name] = std::move(a);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t wanted, std::int64_t* count,
                                       void* values) {
  return asked(*of(d), name, answer{type, wanted, count, values});
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const descriptor &p = *of(plan), &v = *of(pack);
  if (p.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || v.type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR ||
      !p.finalized || !v.finalized || p.operations->handle != h)
    return said(CUDNN_STATUS_BAD_PARAM, "no plan of this handle, or no pack");
  device::state& s = device::the_device();
  device::held_lock held(s.lock);
  try {
    job j = job_of(p, v);
    static std::uint64_t runs = 0;
    j.drawn = s.seed + ++runs;
    const device::refusal why = s.give(h->stream, "kernel", [j = std::move(j)](device::held_lock&) { j.run(); });
    if (why != device::refusal::none) return said(CUDNN_STATUS_EXECUTION_FAILED, "the stream's capture forbids it");
    return CUDNN_STATUS_SUCCESS;
  } catch (const std::string& why) {
    return said(CUDNN_STATUS_BAD_PARAM, why);
  }
}

}  // extern "C"
