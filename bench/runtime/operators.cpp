// Operators, forward and backward, through the tape as a program uses them. Names read operator<type>/threads; bytes
// are those of every tensor that a pass has to read or write, once; FLOP are those of the products. memcpy is what the
// memory gives.
#include <cstring>

#include <benchmark/benchmark.h>

#include <weft/weft.hpp>

namespace {

using namespace weft;

constexpr std::int64_t sequences = 8, length = 512, width = 768, words = 32768;
constexpr double elements = static_cast<double>(sequences * length * width);

template <class T>
using stream = tensor<T, dims<batch, seq, hidden>>;
template <class T>
using split = tensor<T, dims<batch, seq, heads, head_dim>>;
template <class T>
using row = tensor<T, dims<hidden>>;
using ids = tensor<std::int32_t, dims<batch, seq>>;

/// What one pass costs: tensors of `elements` numbers that it reads or writes, or operations.
struct cost {
  double tensors = 0, flop = 0;
};

/// Times f = make(ctx), or its backward alone, from a gradient of ones and onto gradients that are there, as from a
/// second micro-batch.
template <class T, class Make>
void pass(benchmark::State& state, bool backward, cost of, Make&& make) {
  launch<strategy<mesh<>>>({},
                           [&](context& ctx) {
                             const auto f = make(ctx);
                             if (!backward) {
                               const recording off(ctx, nullptr);
                               benchmark::DoNotOptimize(f());
                               for (auto _ : state) benchmark::DoNotOptimize(f());
                             } else {
                               const auto ones = [&](const auto& y) {
                                 untyped(y).slot->gradient = ctx.make(untyped(y).held().type, untyped(y).held().shape);
                                 untyped(y).slot->has_gradient = true;
                                 cpu_backend::fill(ctx.queue<cpu_backend>(), untyped(y).slot->gradient, 1);
                               };
                               for (auto _ : state) {
                                 state.PauseTiming();
                                 ones(f());
                                 state.ResumeTiming();
                                 ctx.tape->backward(ctx);
                               }
                             }
                           },
                           {.threads_per_rank = static_cast<int>(state.range(0))});
  if (of.tensors > 0)
    state.SetBytesProcessed(
        static_cast<std::int64_t>(static_cast<double>(state.iterations()) * of.tensors * elements * sizeof(T)));
  if (of.flop > 0)
    state.counters["FLOP/s"] = benchmark::Counter(of.flop, benchmark::Counter::kIsIterationInvariantRate);
}

/// Registers both passes of an operator in fp32 and bf16, on one thread and two; `make<T>(ctx)` gives it with its
/// operands.
template <class Make>
void add(const std::string& name, cost forward, cost backward, Make make) {
  const auto one = [&]<class T>(const std::string& type) {
    for (const bool back : {false, true})
      benchmark::RegisterBenchmark((name + (back ? "_backward<" : "<") + type + ">").c_str(),
                                   [=](benchmark::State& s) {
                                     pass<T>(s, back, back ? backward : forward,
                                             [&](context& ctx) { return make.template operator()<T>(ctx); });
                                   })
          ->Arg(1)
          ->Arg(2)
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
  };
  one.template operator()<float>("float");
  one.template operator()<bf16>("bf16");
}

template <class X>
X numbers(context& ctx, const char* name, std::initializer_list<std::int64_t> sizes) {
  return normal<X>(ctx, name, sizes).requires_grad();
}
template <class T>
stream<T> tokens(context& ctx, const char* name) {
  return numbers<stream<T>>(ctx, name, {sequences, length, width});
}
template <class T>
split<T> in_heads(context& ctx, const char* name) {
  return numbers<split<T>>(ctx, name, {sequences, length, width / 64, 64});
}

void memory(benchmark::State& state) {
  std::vector<float> from(static_cast<std::size_t>(elements), 1.0F), to(from);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(2 * elements * sizeof(float)));
}
BENCHMARK(memory)->Name("memcpy")->Unit(benchmark::kMillisecond);

void add_all() {
  add("add", cost{3}, cost{5},
      []<class T>(context& ctx) { return [x = tokens<T>(ctx, "x"), y = tokens<T>(ctx, "y")] { return x + y; }; });
  add("multiply", cost{3}, cost{7},
      []<class T>(context& ctx) { return [x = tokens<T>(ctx, "x"), y = tokens<T>(ctx, "y")] { return x * y; }; });
  add("gelu", cost{2}, cost{4}, []<class T>(context& ctx) { return [x = tokens<T>(ctx, "x")] { return gelu(x); }; });
  add("swiglu", cost{3}, cost{7}, []<class T>(context& ctx) {
    return [x = tokens<T>(ctx, "x"), y = tokens<T>(ctx, "y")] { return swiglu(x, y); };
  });
  add("rms_norm", cost{2}, cost{4}, []<class T>(context& ctx) {
    return [x = tokens<T>(ctx, "x"), w = numbers<row<T>>(ctx, "w", {width})] { return rms_norm(x, w); };
  });
  add("layer_norm", cost{2}, cost{4}, []<class T>(context& ctx) {
    return [x = tokens<T>(ctx, "x"), w = numbers<row<T>>(ctx, "w", {width}), b = numbers<row<T>>(ctx, "b", {width})] {
      return layer_norm(x, w, b);
    };
  });
  add("softmax", cost{2}, cost{4},
      []<class T>(context& ctx) { return [x = tokens<T>(ctx, "x")] { return softmax<hidden>(x); }; });
  add("sum_over_hidden", cost{1}, cost{2},
      []<class T>(context& ctx) { return [x = tokens<T>(ctx, "x")] { return sum<hidden>(x); }; });
  add("sum_over_tokens", cost{1}, cost{2},
      []<class T>(context& ctx) { return [x = tokens<T>(ctx, "x")] { return sum<batch, seq>(x); }; });
  add("permute", cost{2}, cost{3}, []<class T>(context& ctx) {
    return [x = in_heads<T>(ctx, "x")] { return permute<batch, heads, seq, head_dim>(x); };
  });
  add("transpose", cost{2}, cost{3},
      []<class T>(context& ctx) { return [x = tokens<T>(ctx, "x")] { return permute<batch, hidden, seq>(x); }; });
  add("dropout", cost{2}, cost{3},
      []<class T>(context& ctx) { return [x = tokens<T>(ctx, "x")] { return dropout(x, 0.1, 1); }; });
  add("rope", cost{2}, cost{3}, []<class T>(context& ctx) {
    using A = accumulate_t<T>;
    rope_table turns{ctx.make(dtype_of<A>, {2, {length, 32}}), ctx.make(dtype_of<A>, {2, {length, 32}})};
    cpu_backend::fill(ctx.queue<cpu_backend>(), turns.cos, 0.5);
    cpu_backend::fill(ctx.queue<cpu_backend>(), turns.sin, 0.5);
    return [x = in_heads<T>(ctx, "x"), turns] { return rope(x, turns); };
  });
  const double scores = 4 * elements * length;  // the two products of attention, all keys
  add("attention", cost{0, scores}, cost{0, 2.5 * scores}, []<class T>(context& ctx) {
    return [q = in_heads<T>(ctx, "q"), k = in_heads<T>(ctx, "k"), v = in_heads<T>(ctx, "v")] {
      return attention(q, k, v, {.causal = false});
    };
  });
  add("attention_causal", cost{0, scores / 2}, cost{0, 1.25 * scores}, []<class T>(context& ctx) {
    return [q = in_heads<T>(ctx, "q"), k = in_heads<T>(ctx, "k"), v = in_heads<T>(ctx, "v")] {
      return attention(q, k, v, {.causal = true});
    };
  });
  const double product = 2 * elements * width;
  add("contract", cost{0, product}, cost{0, 2 * product}, []<class T>(context& ctx) {
    using weight = tensor<T, dims<hidden, ffn>>;
    return [x = tokens<T>(ctx, "x"), w = numbers<weight>(ctx, "w", {width, width})] { return contract<hidden>(x, w); };
  });
  add("embedding", cost{2}, cost{1}, []<class T>(context& ctx) {
    using table = tensor<T, dims<vocab, hidden>>;
    return [i = generate<ids>(ctx, {sequences, length}, [](std::int64_t n) { return n * 7919 % 1024; }),
            w = numbers<table>(ctx, "w", {1024, width})] { return embedding(i, w); };
  });
  // 12 x 8 tokens of 32768 words have as many elements as the others.
  add("cross_entropy", cost{2}, cost{3}, []<class T>(context& ctx) {
    using logits = tensor<T, dims<batch, seq, vocab>>;
    constexpr std::int64_t each = sequences * length * width / words / sequences;
    return [x = numbers<logits>(ctx, "x", {sequences, each, words}),
            y = generate<ids>(ctx, {sequences, each}, [](std::int64_t n) { return n * 7919 % words; })] {
      return cross_entropy(x, y).sum;
    };
  });
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  add_all();
  benchmark::RunSpecifiedBenchmarks();
}
