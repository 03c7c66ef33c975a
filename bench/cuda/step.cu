// The training step of bench/compare on a GPU: that program's source, whose tensors live on cuda_backend where nvcc
// compiles it. bench/compare/compare.py --device cuda times it beside PyTorch.
//   nvcc -O2 -std=c++20 --expt-relaxed-constexpr --extended-lambda -diag-suppress=3001 -arch=sm_90a -Iinclude
//     bench/cuda/step.cu -o bench_cuda_step -lcublasLt
#include "../compare/step.cpp"
