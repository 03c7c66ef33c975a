// Operation graphs read from descriptors. Invariant: as cudnn_graph.hpp's.
#include "cudnn_graph.hpp"

#include <algorithm>
#include <bit>
#include <set>

namespace device::dnn {

std::int64_t tensor::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t e : extents) n *= e;
  return n;
}
std::int64_t tensor::span() const {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < extents.size(); ++d) last += (extents[d] - 1) * strides[d];
  return last + 1;
}
void tensor::each(const std::function<void(std::int64_t)>& f) const {
  std::vector<std::int64_t> at(extents.size());
  for (std::int64_t place = 0;;) {
    f(place);
    std::size_t d = extents.size();
    while (d > 0 && ++at[d - 1] == extents[d - 1]) --d, place -= (extents[d] - 1) * strides[d], at[d] = 0;
    if (d == 0) return;
    place += strides[d - 1];
  }
}

namespace {

tensor read_tensor(const descriptor& d) {
  tensor t{d.get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, 0),
           d.get(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT),
           d.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
           d.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES),
           d.get<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0),
           d.get(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false),
           d.get(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false)};
  const std::string name = "tensor " + std::to_string(t.id);
  if (t.extents.size() != t.strides.size() || t.extents.empty()) throw name + " has other strides than dimensions";
  for (std::size_t i = 0; i < t.extents.size(); ++i)
    if (t.extents[i] < 1 || t.strides[i] < 1) throw name + " has an extent or a stride under 1";
  if (t.alignment < 1 || !std::has_single_bit(static_cast<std::uint64_t>(t.alignment)))
    throw name + "'s alignment isn't a power of 2";
  if (t.is_virtual && t.by_value) throw name + " is virtual and by value";
  if (d.get(CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TENSOR_REORDERING_NONE) != CUDNN_TENSOR_REORDERING_NONE)
    throw name + " is reordered";
  return t;
}

bool same(const tensor& a, const tensor& b) {
  return a.type == b.type && a.extents == b.extents && a.strides == b.strides && a.is_virtual == b.is_virtual &&
         a.by_value == b.by_value;
}

operation read_operation(const descriptor& d, graph& g) {
  operation o{d.type};
  const auto use = [&](cudnnBackendAttributeName_t name) {
    const tensor t = read_tensor(*d.at(name));
    const auto [at, fresh] = g.tensors.emplace(t.id, t);
    if (!fresh && !same(at->second, t)) throw "two tensors have the number " + std::to_string(t.id);
    return t.id;
  };
  switch (d.type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      if (d.at(CUDNN_ATTR_OPERATION_MATMUL_DESC)->get(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_HALF) != CUDNN_DATA_FLOAT)
        throw std::string("a product isn't computed in float");
      o.from = {use(CUDNN_ATTR_OPERATION_MATMUL_ADESC), use(CUDNN_ATTR_OPERATION_MATMUL_BDESC)};
      o.to = use(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
      return o;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
      const descriptor_ref how = d.at(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      o.mode = how->get(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_IDENTITY);
      o.axis = how->get<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS, -1);
      if (d.get(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1.0f) != 1 ||
          d.get(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1.0f) != 1)
        throw std::string("an operand is scaled");
      o.from = {use(CUDNN_ATTR_OPERATION_POINTWISE_XDESC)};
      if (d.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)) o.from.push_back(use(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
      if (d.has(CUDNN_ATTR_OPERATION_POINTWISE_TDESC)) o.from.push_back(use(CUDNN_ATTR_OPERATION_POINTWISE_TDESC));
      o.to = use(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
      return o;
    }
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      o.reduction = d.at(CUDNN_ATTR_OPERATION_REDUCTION_DESC)->get(CUDNN_ATTR_REDUCTION_OPERATOR, o.reduction);
      o.from = {use(CUDNN_ATTR_OPERATION_REDUCTION_XDESC)};
      o.to = use(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
      return o;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      o.from = {use(CUDNN_ATTR_OPERATION_RESHAPE_XDESC)};
      o.to = use(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
      return o;
    default:
      throw std::string("an operation that isn't known here");
  }
}

// Whether each dimension of `part` divides that of `all`, as operands that are repeated, or summed over, have them.
bool divides(const std::vector<std::int64_t>& part, const std::vector<std::int64_t>& all, std::size_t dims) {
  if (part.size() != all.size()) return false;
  for (std::size_t d = 0; d < dims; ++d)
    if (all[d] % part[d] != 0) return false;
  return true;
}
// Whether each dimension of `part` is 1 or that of `all`; or it is one number.
bool broadcasts(const tensor& part, const tensor& all) {
  if (part.elements() == 1) return true;
  if (part.extents.size() != all.extents.size()) return false;
  for (std::size_t d = 0; d < all.extents.size(); ++d)
    if (part.extents[d] != 1 && part.extents[d] != all.extents[d]) return false;
  return true;
}

void require_sizes(const graph& g, const operation& o) {
  const auto t = [&](std::size_t i) -> const tensor& { return g.tensors.at(o.from[i]); };
  const tensor& to = g.tensors.at(o.to);
  const std::string at = "the operation that writes tensor " + std::to_string(o.to) + ": ";
  switch (o.kind) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: {
      const auto &a = t(0).extents, &b = t(1).extents, &c = to.extents;
      const std::size_t n = c.size();
      if (n < 3 || a.size() != n || b.size() != n || a[n - 2] != c[n - 2] || b[n - 1] != c[n - 1] ||
          a[n - 1] != b[n - 2] || !divides(a, c, n - 2) || !divides(b, c, n - 2))
        throw at + "A, B and C don't multiply";
      return;
    }
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      if (o.reduction != CUDNN_REDUCE_TENSOR_ADD && o.reduction != CUDNN_REDUCE_TENSOR_MAX) throw at + "which sum?";
      if (!divides(to.extents, t(0).extents, t(0).extents.size())) throw at + "Y is no sum over X";
      return;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      if (t(0).elements() != to.elements() || t(0).span() != to.span()) throw at + "Y isn't X in another order";
      return;
    default:
      for (std::size_t i = 0; i < o.from.size(); ++i)
        if (!broadcasts(t(i), to)) throw at + "an operand isn't of Y's extents";
      if (o.mode == CUDNN_POINTWISE_GEN_INDEX && (o.axis < 0 || o.axis >= static_cast<std::int64_t>(to.extents.size())))
        throw at + "the index of which dimension?";
  }
}

// Each behind those that it reads.
void put_in_order(graph& g) {
  std::set<std::int64_t> unwritten;
  for (const operation& o : g.operations)
    if (!unwritten.insert(o.to).second) throw "tensor " + std::to_string(o.to) + " is written twice";
  for (const auto& [id, t] : g.tensors) {
    if (t.is_virtual && !unwritten.count(id)) throw "nobody writes the virtual tensor " + std::to_string(id);
    if (t.by_value && unwritten.count(id)) throw "tensor " + std::to_string(id) + " is by value, and written";
  }
  std::vector<operation> left = std::move(g.operations);
  g.operations.clear();
  while (!left.empty()) {
    const auto ready = std::find_if(left.begin(), left.end(), [&](const operation& o) {
      return std::none_of(o.from.begin(), o.from.end(), [&](std::int64_t i) { return unwritten.count(i) > 0; });
    });
    if (ready == left.end()) throw std::string("operations wait for each other");
    unwritten.erase(ready->to);
    g.operations.push_back(*ready);
    left.erase(ready);
  }
}

}  // namespace

graph read_graph(const descriptor& d) {
  graph g;
  g.handle = d.get<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, nullptr);
  for (const descriptor_ref& o : d.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).of)
    g.operations.push_back(read_operation(*o, g));
  put_in_order(g);
  for (const operation& o : g.operations) require_sizes(g, o);
  return g;
}

std::string refused(const graph& g) {
  const auto half = [](const tensor& t) { return t.type == CUDNN_DATA_BFLOAT16 || t.type == CUDNN_DATA_HALF; };
  for (const operation& o : g.operations) {
    if (o.kind != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) continue;
    const tensor &a = g.tensors.at(o.from[0]), &b = g.tensors.at(o.from[1]), &c = g.tensors.at(o.to);
    if ((!half(a) && !a.is_virtual) || (!half(b) && !b.is_virtual))
      return "a product of operands that aren't of 16 bits";
    for (const tensor* t : {&a, &b, &c}) {
      if (t->is_virtual) continue;
      if (t->extents.size() != 4 || std::min(t->strides[2], t->strides[3]) != 1) return "a head that isn't contiguous";
      const std::int64_t width = t->extents[t->strides[3] == 1 ? 3 : 2];
      if (width % 8 || width > 256) return "a head of " + std::to_string(width) + " elements";
      if (t->alignment < 16) return "a tensor that is aligned to fewer than 16 bytes";
    }
  }
  return {};
}

}  // namespace device::dnn
