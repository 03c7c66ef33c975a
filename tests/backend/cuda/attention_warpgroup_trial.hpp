// What the tests of attention by warpgroups share: attention and its backward beside the CPU's, and beside the kernels
// that other GPUs have, with documents or without.
#pragma once

#include <algorithm>
#include <backend/kernel_testing.hpp>

#include <weft/backend/cpu/attention.hpp>
#include <weft/backend/cpu/attention_backward.hpp>
#include <weft/backend/cuda.cuh>

namespace weft_test {

using weft::attention_shape;

// Two blocks, so that each has several tiles to go through.
struct two_blocks : weft::gpu::stream {
  template <class Kernel>
  void start(std::int64_t blocks, std::size_t shared_bytes, const Kernel& kernel) {
    stream::start(std::min<std::int64_t>(blocks, 2), shared_bytes, kernel);
  }
};

// Where documents begin, each given by its first token: a row of `length` for each list.
inline std::vector<std::int32_t> starts_of(int64 length, const std::vector<std::vector<std::int32_t>>& begins) {
  std::vector<std::int32_t> out;
  for (const auto& of : begins)
    for (int64 i = 0; i < length; ++i)
      out.push_back(*(std::upper_bound(of.begin(), of.end(), static_cast<std::int32_t>(i)) - 1));
  return out;
}
// s with these documents, on the GPU.
struct with_documents {
  attention_shape s;
  weft::gpu::device_pointer held;
  with_documents(two_blocks& q, attention_shape of, const std::vector<std::int32_t>& starts) : s(of) {
    if (starts.empty()) return;
    held = weft::gpu::device_pointer(weft::gpu::allocate(starts.size() * sizeof starts[0]));
    q.upload(starts.data(), held.get(), starts.size() * sizeof starts[0]);
    s.documents = static_cast<const std::int32_t*>(held.get());
  }
};

template <class T>
struct result {
  std::vector<T> out;
  std::vector<float> sums;
};

template <class T, class Run>
result<T> on_gpu(two_blocks& q, const attention_shape& s, Run run) {
  const int64 of_q = s.batch * s.q_len * s.heads * s.head_dim, of_kv = s.batch * s.kv_len * s.kv_heads * s.head_dim;
  std::vector<weft::gpu::device_pointer> held;
  const auto uploaded = [&](const std::vector<T>& x) {
    held.emplace_back(weft::gpu::allocate(x.size() * sizeof(T)));
    q.upload(x.data(), held.back().get(), x.size() * sizeof(T));
    return static_cast<T*>(held.back().get());
  };
  result<T> r{std::vector<T>(static_cast<std::size_t>(of_q)),
              std::vector<float>(static_cast<std::size_t>(2 * s.batch * s.heads * s.q_len))};
  const T *const queries = uploaded(numbers<T>(of_q, 1)), *const k = uploaded(numbers<T>(of_kv, 2)),
                 *const v = uploaded(numbers<T>(of_kv, 3));
  held.emplace_back(weft::gpu::allocate(r.out.size() * sizeof(T)));
  T* const out = static_cast<T*>(held.back().get());
  held.emplace_back(weft::gpu::allocate(r.sums.size() * sizeof(float)));
  auto* const sums = static_cast<float*>(held.back().get());
  run(queries, k, v, out, sums);
  q.download(out, r.out.data(), r.out.size() * sizeof(T));
  q.download(sums, r.sums.data(), r.sums.size() * sizeof(float));
  return r;
}

template <class T>
void alike(const result<T>& got, const result<T>& want, int64 d) {
  const double of_sums = 64 * static_cast<double>(d) * sum_rounding<T>, u = rounding<T>;
  for (std::size_t i = 0; i < want.sums.size(); ++i)
    CHECK((got.sums[i] == want.sums[i] ||
           std::fabs(got.sums[i] - want.sums[i]) <= of_sums * (1 + std::fabs(want.sums[i]))));
  check_close(got.out, widened(want.out), 2 * u, 3 * u);  // weights are rounded, as attention_test.cpp reckons
}

template <class T, int D, bool Documents = false>
void is_the_cpus(two_blocks& q, attention_shape of, const std::vector<std::int32_t>& starts = {}) {
  const with_documents held(q, of, starts);
  const attention_shape& s = held.s;
  CAPTURE(s.q_len);
  CAPTURE(s.kv_len);
  CAPTURE(s.head_dim);
  const auto got = on_gpu<T>(q, s, [&](const T* queries, const T* k, const T* v, T* out, float* sums) {
    CHECK(weft::gpu::attend_by_warpgroups(q, s, queries, k, v, out, sums));
  });
  const auto others = on_gpu<T>(q, s, [&](const T* queries, const T* k, const T* v, T* out, float* sums) {
    using kernel = weft::gpu::attention_tensor_kernel<T, D, Documents>;
    q.start(kernel::tiles(s, kernel::threads), kernel::shared_bytes(kernel::threads),
            kernel{weft::gpu::tensor_shape<D, Documents>(s), queries, k, v, out, sums});
  });
  result<T> want = got;
  team one(1);
  if (Documents) of.documents = starts.data();
  weft::cpu::attention(one, of, numbers<T>(static_cast<int64>(got.out.size()), 1).data(),
                       numbers<T>(s.batch * s.kv_len * s.kv_heads * D, 2).data(),
                       numbers<T>(s.batch * s.kv_len * s.kv_heads * D, 3).data(), want.out.data(), want.sums.data());
  alike(got, want, D);
  alike(got, others, D);
}

template <class T>
struct gradients {
  std::vector<T> dq, dk, dv;
};
// As far as rounded weights and gradients of scores allow, by attention_test.cpp's reckoning of a dout of twice the
// size.
template <class T>
void alike(const gradients<T>& got, const gradients<T>& want, const attention_shape& s) {
  const double u = rounding<T>;
  check_close(got.dv, widened(want.dv), 2 * u, 6 * u);
  check_close(got.dq, widened(want.dq), 2 * u, 25 * s.scale * u);
  check_close(got.dk, widened(want.dk), 2 * u, 50 * s.scale * u);
}

// dq is added to what is there.
template <class T, int D, bool Documents = false>
void backward_is_the_cpus(two_blocks& q, attention_shape of_cpu, const std::vector<std::int32_t>& starts = {}) {
  const with_documents on_gpu(q, of_cpu, starts);
  const attention_shape& s = on_gpu.s;
  if (Documents) of_cpu.documents = starts.data();
  CAPTURE(s.q_len);
  CAPTURE(s.kv_len);
  CAPTURE(s.head_dim);
  const int64 of_q = s.batch * s.q_len * s.heads * D, of_kv = s.batch * s.kv_len * s.kv_heads * D;
  const auto queries = numbers<T>(of_q, 1), k = numbers<T>(of_kv, 2), v = numbers<T>(of_kv, 3),
             dout = numbers<T>(of_q, 4, -1, 1), old = numbers<T>(of_q, 5, -1, 1);
  team one(1);
  result<T> of{std::vector<T>(queries.size()),
               std::vector<float>(static_cast<std::size_t>(2 * s.batch * s.heads * s.q_len))};
  weft::cpu::attention(one, of_cpu, queries.data(), k.data(), v.data(), of.out.data(), of.sums.data());
  gradients<T> want{old, std::vector<T>(k.size()), std::vector<T>(k.size())};
  weft::cpu::attention_backward(one, of_cpu, queries.data(), k.data(), v.data(), of.out.data(), of.sums.data(),
                                dout.data(), want.dq.data(), true, want.dk.data(), false, want.dv.data(), false);
  std::vector<weft::gpu::device_pointer> held;
  const auto uploaded = [&](const auto& x) {
    held.emplace_back(weft::gpu::allocate(x.size() * sizeof x[0]));
    q.upload(x.data(), held.back().get(), x.size() * sizeof x[0]);
    return static_cast<std::remove_cvref_t<decltype(x[0])>*>(held.back().get());
  };
  const T *const on_q = uploaded(queries), *const on_k = uploaded(k), *const on_v = uploaded(v),
                 *const on_out = uploaded(of.out), *const on_dout = uploaded(dout);
  const float* const sums = uploaded(of.sums);
  held.emplace_back(weft::gpu::allocate(of.sums.size() / 2 * sizeof(float)));
  float* const delta = static_cast<float*>(held.back().get());
  q.start(2, 0, weft::gpu::attention_delta_kernel<T>{s.batch, s.q_len, s.heads, D, on_out, on_dout, delta, true});
  const auto run = [&](auto start) {
    T* const dq = uploaded(old);
    held.emplace_back(weft::gpu::allocate(2 * k.size() * sizeof(T)));
    T *const dk = static_cast<T*>(held.back().get()), *const dv = dk + k.size();
    start(dq, dk, dv);
    gradients<T> r = want;
    q.download(dq, r.dq.data(), r.dq.size() * sizeof(T));
    q.download(dk, r.dk.data(), r.dk.size() * sizeof(T));
    q.download(dv, r.dv.data(), r.dv.size() * sizeof(T));
    return r;
  };
  const auto got = run([&](T* dq, T* dk, T* dv) {
    CHECK(weft::gpu::attend_backward_by_warpgroups(q, s, on_q, on_k, on_v, sums, static_cast<const float*>(delta),
                                                   on_dout, dq, true, dk, false, dv, false));
  });
  const auto others = run([&](T* dq, T* dk, T* dv) {
    const weft::gpu::attention_tensor_gradient<T, D, Documents> from{
        weft::gpu::tensor_shape<D, Documents>(s), on_q, on_k, on_v, on_dout, sums, delta};
    const auto start = [&](const auto& kernel) {
      using type = std::remove_cvref_t<decltype(kernel)>;
      q.start(type::tiles(s, type::threads), type::shared_bytes(type::threads), kernel);
    };
    start(weft::gpu::attention_tensor_keys_backward_kernel<T, D, Documents>{from, dk, false, dv, false});
    start(weft::gpu::attention_tensor_queries_backward_kernel<T, D, Documents>{from, dq, true});
  });
  alike(got, want, s);
  alike(got, others, s);
}

}  // namespace weft_test
