// A Hugging Face folder of about 1 GB in bf16, loaded and saved, beside a read of its file into memory and a write of
// the same bytes, synced. Everything lies in the page cache, so it is the memory that is measured, not a disk; saving
// syncs to one. Names end with the number of ranks, whose weights are stored under zero3.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include <weft/io/pretrained.hpp>
#include <weft/weft.hpp>

namespace {

using namespace weft;

using S = strategy<mesh<dp>, zero3, bf16_mixed>;

constexpr llama_config billion_bytes{
    .layers = 8, .hidden = 2048, .heads = 16, .kv_heads = 16, .ffn = 5632, .vocab = 32000, .max_seq = 128};

/// The folder, made once; it goes with the program.
const std::string& folder() {
  struct made {
    std::string path = (std::filesystem::temp_directory_path() / "bench_folders.XXXXXX").string();
    made() {
      if (!mkdtemp(path.data())) throw failure("no folder can be made in the folder for temporary files");
      launch<strategy<mesh<>, bf16_mixed>>({}, [&](context& ctx) {
        llama<strategy<mesh<>, bf16_mixed>> model(ctx, billion_bytes);
        model.registry().freeze([](const parameter_record&) { return true; });
        parameter_store<cpu_backend, bf16_mixed> store(ctx, model.registry(), config_of<replicated>());
        save_pretrained(ctx, model, store, path, dtype::bf16);
      });
    }
    ~made() { std::filesystem::remove_all(path); }
  };
  static const made one;
  return one.path;
}
std::string file() { return folder() + "/model.safetensors"; }

// Into memory that nobody has touched yet, as a model's is.
std::unique_ptr<char[]> bytes_of(const std::string& path, std::size_t size) {
  std::unique_ptr<char[]> to(new char[size]);
  const int from = open(path.c_str(), O_RDONLY);
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = read(from, to.get() + done, size - done);
    if (n <= 0) throw failure("the file can't be read");
    done += static_cast<std::size_t>(n);
  }
  close(from);
  return to;
}
void count(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<std::int64_t>(std::filesystem::file_size(file())) * state.iterations());
}

void read_bytes(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(std::filesystem::file_size(file()));
  for (auto _ : state) benchmark::DoNotOptimize(bytes_of(file(), size));
  count(state);
}
void load(benchmark::State& state) {
  folder();
  for (auto _ : state)
    launch<S>({.dp = int(state.range(0))},
              [](context& ctx) { benchmark::DoNotOptimize(llama_from_pretrained<S>(ctx, folder()).store.types()); });
  count(state);
}
void write_bytes(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(std::filesystem::file_size(file()));
  const auto bytes = bytes_of(file(), size);
  const std::string path = folder() + "/again";
  for (auto _ : state) {
    std::filesystem::remove(path);
    const int to = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
    for (std::size_t done = 0; done < size;) {
      const ssize_t n = write(to, bytes.get() + done, size - done);
      if (n <= 0) throw failure("the file can't be written");
      done += static_cast<std::size_t>(n);
    }
    fsync(to), close(to);
  }
  std::filesystem::remove(path);
  count(state);
}
void save(benchmark::State& state) {
  const std::string path = folder() + "/saved";
  launch<S>({.dp = int(state.range(0))}, [&](context& ctx) {
    auto p = llama_from_pretrained<S>(ctx, folder());
    const auto one = [&] { save_pretrained(ctx, p.model, p.store, path, dtype::bf16); };
    if (ctx.is_first())
      for (auto _ : state) one();
    else
      for (std::int64_t i = 0; i < std::int64_t(state.max_iterations); ++i) one();
  });
  std::filesystem::remove_all(path);
  count(state);
}

BENCHMARK(read_bytes)->UseRealTime()->Iterations(5)->Unit(benchmark::kMillisecond);
BENCHMARK(load)->UseRealTime()->Iterations(5)->Unit(benchmark::kMillisecond)->Arg(1)->Arg(2);
BENCHMARK(write_bytes)->UseRealTime()->Iterations(5)->Unit(benchmark::kMillisecond);
BENCHMARK(save)->UseRealTime()->Iterations(5)->Unit(benchmark::kMillisecond)->Arg(1)->Arg(2);

}  // namespace
