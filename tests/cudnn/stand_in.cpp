// That the stand-in for cuDNN refuses what its documentation doesn't promise, and finds what is wrong: one wrong graph
// or call for each, a step away from one that is right; and what single operations compute.
#include <cudnn.h>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../device/runtime/state.hpp"

namespace {

using numbers = std::vector<std::int64_t>;
constexpr auto right = CUDNN_STATUS_SUCCESS, wrong = CUDNN_STATUS_BAD_PARAM, unsupported = CUDNN_STATUS_NOT_SUPPORTED;

struct made {
  cudnnBackendDescriptor_t d = nullptr;
  cudnnStatus_t said = right;
  explicit made(cudnnBackendDescriptorType_t type) { cudnnBackendCreateDescriptor(type, &d); }
  ~made() { cudnnBackendDestroyDescriptor(d); }
  made(const made&) = delete;
  made& operator=(const made&) = delete;
  template <class T>
  made& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const std::vector<T>& values) {
    const auto s = cudnnBackendSetAttribute(d, name, type, static_cast<std::int64_t>(values.size()), values.data());
    if (said == right) said = s;
    return *this;
  }
  made& set(cudnnBackendAttributeName_t name, const made& other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{other.d});
  }
  cudnnStatus_t finish() { return said != right ? said : said = cudnnBackendFinalize(d); }
};

struct tensor {
  std::int64_t id;
  numbers extents, strides;
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
  bool is_virtual = false;
  std::int64_t alignment = 16;
};
void describe(made& d, const tensor& t) {
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, numbers{t.id});
  d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, t.extents);
  d.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, t.strides);
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{t.type});
  d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, numbers{t.alignment});
  const bool is_virtual = t.is_virtual;
  if (is_virtual) cudnnBackendSetAttribute(d.d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  d.finish();
}

// C [1, 1, 4, 8] of floats = (A [1, 1, 4, 8] B [1, 1, 8, 8])^2, of bf16, the square by a virtual tensor.
struct call {
  tensor a{1, {1, 1, 4, 8}, {32, 32, 8, 1}}, b{2, {1, 1, 8, 8}, {64, 64, 8, 1}},
      between{3, {1, 1, 4, 8}, {32, 32, 8, 1}, CUDNN_DATA_FLOAT, true},
      c{4, {1, 1, 4, 8}, {32, 32, 8, 1}, CUDNN_DATA_FLOAT};
  tensor factor = between;
  cudnnDataType_t computes = CUDNN_DATA_FLOAT;
  numbers ids{1, 2, 4};
  std::size_t a_offset = 0, workspace_bytes = 1 << 16;
  bool unwritten = false, same_memory = false, other_handle = false;
  std::vector<float> out{};
  std::vector<std::string> found{};

  cudnnStatus_t run();
};

cudnnStatus_t call::run() {
  cudnnHandle_t handle = nullptr, other = nullptr;
  cudnnCreate(&handle), cudnnCreate(&other);
  made ta(CUDNN_BACKEND_TENSOR_DESCRIPTOR), tb(CUDNN_BACKEND_TENSOR_DESCRIPTOR), tm(CUDNN_BACKEND_TENSOR_DESCRIPTOR),
      tf(CUDNN_BACKEND_TENSOR_DESCRIPTOR), tc(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  describe(ta, a), describe(tb, b), describe(tm, between), describe(tf, factor), describe(tc, c);
  made how(CUDNN_BACKEND_MATMUL_DESCRIPTOR), product(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR),
      mode(CUDNN_BACKEND_POINTWISE_DESCRIPTOR), square(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR),
      graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR), ways(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR),
      config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR), plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR),
      pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{computes}).finish();
  product.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, ta).set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, tb);
  product.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, tm).set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how).finish();
  mode.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{CUDNN_POINTWISE_MUL});
  mode.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT}).finish();
  square.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tm);
  square.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tf).set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tc).finish();
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle});
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{square.d, product.d});
  if (const auto s = graph.finish(); s != right) return s;
  ways.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  ways.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{CUDNN_HEUR_MODE_A});
  if (const auto s = ways.finish(); s != right) return s;
  std::int64_t count = 0, wants = 0;
  cudnnBackendGetAttribute(ways.d, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &config.d);
  CHECK(count == 1);
  CHECK(plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config).finish() == right);
  cudnnBackendGetAttribute(plan.d, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &wants);
  CHECK(wants == 1 << 16);

  std::vector<void*> memory(4), at;
  for (void*& m : memory) cudaMalloc(&m, 256);
  cudaMalloc(&memory[3], workspace_bytes);
  const std::vector<std::uint16_t> ones(128, 0x3f80);
  for (int i = 0; i < 2 && !unwritten; ++i) cudaMemcpy(memory[i], ones.data(), 256, cudaMemcpyHostToDevice);
  for (std::size_t i = 0; i < ids.size(); ++i) at.push_back(memory[i]);
  at[0] = static_cast<std::uint8_t*>(at[0]) + a_offset;
  if (same_memory) at[2] = at[0];
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, at);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector{memory[3]}).finish();
  const cudnnStatus_t s = cudnnBackendExecute(other_handle ? other : handle, plan.d, pack.d);
  if (s == right) {
    cudaDeviceSynchronize();
    device::held_lock held(device::the_device().lock);
    found = device::the_device().gpu.take_findings();
  }
  if (s == right && found.empty()) {
    out.resize(32);
    cudaMemcpy(out.data(), memory[2], 128, cudaMemcpyDeviceToHost);
  }
  for (void* const m : memory) cudaFree(m);
  cudnnDestroy(handle), cudnnDestroy(other);
  return s;
}

void is(cudnnStatus_t wanted, const std::function<void(call&)>& change) {
  call c;
  change(c);
  CHECK(c.run() == wanted);
}
void finds(const char* part, const std::function<void(call&)>& change) {
  call c;
  change(c);
  CHECK(c.run() == right);
  REQUIRE(c.found.size() == 1);
  INFO(c.found[0]);
  CHECK(c.found[0].find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("the stand-in for cuDNN: a graph that is right, whose operations come in another order") {
  call c;
  CHECK(c.run() == right);
  CHECK(c.out == std::vector<float>(32, 64.0f));
}

TEST_CASE("the stand-in for cuDNN: descriptors that are refused") {
  is(wrong, [](call& c) { c.a.extents = {1, 1, 4}; });                  // other strides
  is(wrong, [](call& c) { c.a.strides[3] = 0; });                       // a stride of 0
  is(wrong, [](call& c) { c.a.alignment = 12; });                       // no power of 2
  is(wrong, [](call& c) { c.b.extents = {1, 1, 16, 8}; });              // A and B don't multiply
  is(wrong, [](call& c) { c.a.extents[1] = 3, c.a.strides[0] = 96; });  // 3 heads for one
  is(wrong, [](call& c) { c.computes = CUDNN_DATA_HALF; });             // sums in 16 bits
  is(wrong, [](call& c) { c.factor.extents = {1, 1, 4, 4}; });          // two tensors of one number
  is(wrong, [](call& c) { c.factor.id = 5; });                          // virtual, and nobody writes it
  is(wrong, [](call& c) { c.c.id = 3, c.c.is_virtual = true; });        // written twice
  is(wrong, [](call& c) { c.factor = c.c; });                           // of itself
  is(unsupported, [](call& c) { c.a.type = CUDNN_DATA_FLOAT; });        // a product of floats
  is(unsupported, [](call& c) { c.b.alignment = 8; });                  // too few bytes
  is(unsupported, [](call& c) { c.b.strides = {128, 128, 16, 2}; });    // no rows
}

TEST_CASE("the stand-in for cuDNN: calls that are refused, and what is found as they run") {
  is(wrong, [](call& c) { c.ids = {1, 2, 5}; });  // no such tensor
  is(wrong, [](call& c) { c.ids = {1, 2, 3}; });  // a virtual one
  is(wrong, [](call& c) { c.ids = {1, 2, 2}; });  // one is lacking
  is(wrong, [](call& c) { c.a_offset = 2; });     // not aligned
  is(wrong, [](call& c) { c.workspace_bytes = 1024; });
  is(wrong, [](call& c) { c.other_handle = true; });
  finds("tensor 1 isn't within one allocation", [](call& c) { c.a_offset = 240; });
  finds("is read before it was written", [](call& c) { c.unwritten = true; });
  finds("lies over one that is written", [](call& c) { c.same_memory = true; });
}
