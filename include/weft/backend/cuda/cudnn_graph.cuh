// How cuDNN is told of attention: a graph of the operations that cudnn-frontend lowers it to. Invariant: the host's
// code alone, of cudnn_plan.cuh.
#pragma once

#include <weft/backend/cuda/cudnn_plan.cuh>

#ifndef CUDNN_FRONTEND_SKIP_JSON_LIB
#define CUDNN_FRONTEND_SKIP_JSON_LIB  // it writes graphs down, which nobody asks it for
#endif
#include <cstring>  // which the next doesn't include itself
#include <cudnn_frontend.h>

namespace weft::gpu::detail {

namespace fe = cudnn_frontend;
using fe_tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

[[noreturn]] inline void fail_on(const attention_shape& s, const char* call, const std::string& words) {
  fail("cuDNN's attention of ", s.batch, " x ", s.q_len, " queries and ", s.kv_len, " keys, ", s.heads, " and ",
       s.kv_heads, " heads of width ", s.head_dim, s.causal ? ", causal" : "", ", window ", s.window, ": ", call,
       " failed: ", words, "; cuda_backend has kernels of its own");
}
inline void check(const attention_shape& s, const char* call, const fe::error_t& status) {
  if (!status.is_good()) fail_on(s, call, status.err_msg);
}
/// Whether this, of a step before plans are built, says that cuDNN has no such attention; and not that it lacks a
/// library that it needs for all.
inline bool refuses(const fe::error_t& status) {
  using enum fe::error_code_t;
  const auto says = [&](const char* words) { return status.err_msg.find(words) != std::string::npos; };
  if (says("RUNTIME_PREREQUISITE_MISSING")) return false;
  return status.code == GRAPH_NOT_SUPPORTED || status.code == HEURISTIC_QUERY_FAILED ||
         status.code == GRAPH_EXECUTION_PLAN_CREATION_FAILED || says("CUDNN_STATUS_NOT_SUPPORTED");
}

/// cuDNN's order of dimensions is batch, head, position, element; the numbers lie as [batch, len, heads, head_dim].
struct cudnn_layout {
  std::vector<std::int64_t> extents, strides;
};
inline cudnn_layout rows_of_heads(std::int64_t batch, std::int64_t len, std::int64_t heads, std::int64_t width) {
  return {{batch, heads, len, width}, {len * heads * width, width, heads * width, 1}};
}
inline cudnn_layout layout_of(const attention_shape& s, cudnn_tensor which) {
  if (which == of_sums) return {{s.batch, s.heads, s.q_len, 1}, {s.heads * s.q_len, s.q_len, 1, 1}};
  const bool keys = which == of_keys || which == of_values || which == of_dk || which == of_dv;
  return keys ? rows_of_heads(s.batch, s.kv_len, s.kv_heads, s.head_dim)
              : rows_of_heads(s.batch, s.q_len, s.heads, s.head_dim);
}

/// A graph in the making.
class cudnn_graph {
 public:
  cudnn_graph(const attention_shape& s, dtype type)
      : shape_(s), io_(type == dtype::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF) {
    graph_->set_io_data_type(io_).set_intermediate_data_type(fe::DataType_t::FLOAT);
    graph_->set_compute_data_type(fe::DataType_t::FLOAT);
  }
  fe_tensor input(cudnn_tensor which) {
    const cudnn_layout l = layout_of(shape_, which);
    return graph_->tensor(
        fe::graph::Tensor_attributes().set_uid(which).set_dim(l.extents).set_stride(l.strides).set_data_type(
            which == of_sums ? fe::DataType_t::FLOAT : io_));
  }
  void output(cudnn_tensor which, const fe_tensor& x) {
    const cudnn_layout l = layout_of(shape_, which);
    x->set_output(true).set_uid(which).set_dim(l.extents).set_stride(l.strides);
    x->set_data_type(which == of_sums ? fe::DataType_t::FLOAT : io_);
  }
  /// The scale, and which keys a query sees: for fe's attributes of a forward, or of a backward.
  template <class Attributes>
  Attributes attributes(const char* name) const {
    Attributes a;
    a.set_name(name).set_attn_scale(static_cast<float>(shape_.scale));
    if (!shape_.causal) return a;
    const bool at_end = shape_.kv_len != shape_.q_len;  // the last query is at the last key
    a.set_diagonal_alignment(at_end ? fe::DiagonalAlignment_t::BOTTOM_RIGHT : fe::DiagonalAlignment_t::TOP_LEFT);
    a.set_diagonal_band_right_bound(0);
    if (shape_.window > 0 && shape_.window < shape_.kv_len)
      a.set_diagonal_band_left_bound(static_cast<int>(shape_.window));
    return a;
  }
  fe::graph::Graph* operator->() { return graph_.get(); }

  cudnn_plan planned(cudnnHandle_t handle) && {
    bool taken = true;
    const auto step = [&](const char* call, auto f) {
      if (!taken) return;
      const fe::error_t status = f();
      taken = !refuses(status);
      if (taken) check(shape_, call, status);
    };
    step("validate", [&] { return graph_->validate(); });
    step("build_operation_graph", [&] { return graph_->build_operation_graph(handle); });
    step("create_execution_plans", [&] { return graph_->create_execution_plans({fe::HeurMode_t::A}); });
    if (taken) graph_->deselect_workspace_greater_than(most_cudnn_workspace);
    step("check_support", [&] { return graph_->check_support(); });
    if (!taken) return {};
    std::int64_t bytes = 0;
    check(shape_, "build_plans", graph_->build_plans());
    check(shape_, "get_workspace_size", graph_->get_workspace_size(bytes));
    return {std::move(graph_), static_cast<std::size_t>(bytes)};
  }

 private:
  attention_shape shape_;
  fe::DataType_t io_;
  std::shared_ptr<fe::graph::Graph> graph_ = std::make_shared<fe::graph::Graph>();
};

inline cudnn_graph attention_graph(const attention_shape& s, dtype type) {
  cudnn_graph g(s, type);
  auto how = g.attributes<fe::graph::SDPA_attributes>("attention");
  how.set_generate_stats(true).set_implementation(fe::AttentionImplementation_t::COMPOSITE);
  const auto [out, sums] = g->sdpa(g.input(of_queries), g.input(of_keys), g.input(of_values), how);
  g.output(of_out, out), g.output(of_sums, sums);
  return g;
}
inline cudnn_graph attention_backward_graph(const attention_shape& s, dtype type) {
  cudnn_graph g(s, type);
  auto how = g.attributes<fe::graph::SDPA_backward_attributes>("attention_backward");
  how.set_deterministic_algorithm(true);  // same bits twice
  const auto [dq, dk, dv] = g->sdpa_backward(g.input(of_queries), g.input(of_keys), g.input(of_values), g.input(of_out),
                                             g.input(of_dout), g.input(of_sums), how);
  g.output(of_dq, dq), g.output(of_dk, dk), g.output(of_dv, dv);
  return g;
}

inline cudnn_plan plan_attention(cudnnHandle_t handle, const attention_shape& s, dtype type) {
  return attention_graph(s, type).planned(handle);
}
inline cudnn_plan plan_attention_backward(cudnnHandle_t handle, const attention_shape& s, dtype type) {
  return attention_backward_graph(s, type).planned(handle);
}
inline void run(const cudnn_plan& plan, cudnnHandle_t handle, const attention_shape& s, const cudnn_arrays& arrays,
                void* workspace) {
  std::unordered_map<std::int64_t, void*> pack;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    if (arrays[i]) pack[static_cast<std::int64_t>(i)] = const_cast<void*>(arrays[i]);  // those that it reads, too
  check(s, "execute", plan.graph->execute(handle, pack, workspace));
}

}  // namespace weft::gpu::detail
