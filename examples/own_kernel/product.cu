// Runs the products of product.cuh on GPU 0, or on the device on the host (docs/cuda.md), beside one in double.
#include <cmath>
#include <cstdio>
#include <vector>

#include <weft/backend/cuda/stream.cuh>

#include "product.cuh"

namespace {

using weft::bf16;
constexpr int m = 128, n = 192, k = 256;

std::vector<bf16> numbers(int count, unsigned seed) {
  std::vector<bf16> out;
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    out.emplace_back(static_cast<float>(seed >> 24) / 128 - 1);
  }
  return out;
}
template <class T>
weft::gpu::device_pointer on_device(weft::gpu::stream& q, const std::vector<T>& x) {
  weft::gpu::device_pointer memory(weft::gpu::allocate(x.size() * sizeof(T)));
  q.upload(x.data(), memory.get(), x.size() * sizeof(T));
  return memory;
}

}  // namespace

int main() {
  weft::gpu::stream q;
  const auto a = numbers(m * k, 1), b = numbers(n * k, 2);
  std::vector<float> out(static_cast<std::size_t>(m) * n);
  const auto on_a = on_device(q, a), on_b = on_device(q, b), on_out = on_device(q, out);
  bool all_right = true;
  const auto run = [&]<class Kernel>(const char* name, Kernel kernel) {
    static_cast<own::product&>(kernel) = {m,
                                          n,
                                          k,
                                          static_cast<const bf16*>(on_a.get()),
                                          static_cast<const bf16*>(on_b.get()),
                                          static_cast<float*>(on_out.get())};
    q.zero(on_out.get(), out.size() * sizeof(float));
    q.start(kernel.blocks(), Kernel::shared_bytes, kernel);
    q.download(on_out.get(), out.data(), out.size() * sizeof(float));
    bool right = true;
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        double want = 0;
        for (int x = 0; x < k; ++x)
          want += static_cast<double>(static_cast<float>(a[static_cast<std::size_t>(i * k + x)])) *
                  static_cast<double>(static_cast<float>(b[static_cast<std::size_t>(j * k + x)]));
        right = right && std::fabs(out[static_cast<std::size_t>(i * n + j)] - want) < 1e-4;
      }
    std::printf("%s: %s\n", name, right ? "right" : "wrong");
    all_right = all_right && right;
  };
  run("naive", own::naive_product{});
  run("tiled", own::tiled_product{});
  run("on tensor cores", own::tensor_product<0>{});
  run("with gaps", own::tensor_product<8>{});
  return all_right ? 0 : 1;
}
