// cuDNN's backend descriptors: what their attributes may be, and are. Invariant: an attribute is of the type that its
// name has in cuDNN's documentation, and no finalized descriptor changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cudnn.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace device::dnn {

struct graph;

struct descriptor;
using descriptor_ref = std::shared_ptr<const descriptor>;

struct attribute {
  cudnnBackendAttributeType_t type;
  std::vector<std::byte> bytes;      // of values
  std::vector<descriptor_ref> of{};  // or descriptors, as they were when they were given
  std::int64_t count = 0;
};

struct descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, attribute> attributes{};
  std::shared_ptr<const graph> operations{};  // of an operation graph and what is made of it

  bool has(cudnnBackendAttributeName_t name) const { return attributes.count(name) > 0; }
  /// Null where it wasn't set.
  descriptor_ref at(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    return found == attributes.end() ? nullptr : found->second.of.at(0);
  }
  template <class T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    std::vector<T> values(found == attributes.end() ? 0 : static_cast<std::size_t>(found->second.count));
    if (!values.empty()) std::memcpy(values.data(), found->second.bytes.data(), values.size() * sizeof(T));
    return values;
  }
  template <class T>
  T get(cudnnBackendAttributeName_t name, T otherwise) const {
    if (has(name)) std::memcpy(&otherwise, attributes.at(name).bytes.data(), sizeof otherwise);
    return otherwise;
  }
};

/// What cudnnBackendDescriptor_t points to.
struct held_descriptor {
  std::shared_ptr<descriptor> is;
};
inline std::shared_ptr<descriptor>& of(cudnnBackendDescriptor_t d) { return static_cast<held_descriptor*>(d)->is; }

/// Bytes of one value; 0 for types that nobody has asked for yet.
std::size_t width_of(cudnnBackendAttributeType_t type);
/// Whether a descriptor has such an attribute, of this type, that a program sets.
bool may_set(cudnnBackendDescriptorType_t in, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type);
/// The first that has to be set and isn't; null: all are.
const char* lacks(const descriptor& d);

/// Remembers why a call fails, for cudnnGetLastErrorString.
cudnnStatus_t said(cudnnStatus_t status, const std::string& why);

}  // namespace device::dnn
