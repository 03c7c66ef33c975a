// The installed laws of a communicator tell one that is wrong: each here breaks one promise of threads'.
#include <doctest/doctest.h>

#include <weft/comm/threads.hpp>
#include <weft/testing/communicator.hpp>

namespace {

using namespace weft;
enum class fault {
  none,
  split_ignores_key,
  split_ignores_color,
  early,
  barrier_does_nothing,
  max_is_sum,
  small_pieces
};

template <fault F>
class broken {
  using label = const collective_label&;

 public:
  explicit broken(threads inner) : inner_(std::move(inner)) {}
  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }
  request all_reduce(const void* in, void* out, std::int64_t n, dtype t, reduction r, label l = {}) {
    if (F == fault::max_is_sum && r == reduction::max) r = reduction::sum;
    if (F == fault::small_pieces && n > 1000) n = 1000;
    if (F != fault::early || n * static_cast<std::int64_t>(size_of(t)) < 1000)
      return inner_.all_reduce(in, out, n, t, r, l);
    // What a caller sees of a wait that returns too early: the output isn't there. It goes to memory of its own, so
    // that the test itself breaks nothing.
    auto own = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(n) * size_of(t));
    std::memcpy(own->data(), in, own->size());
    inner_.all_reduce(own->data(), own->data(), n, t, r, l).wait();
    return {};
  }
  request all_gather(const void* in, void* out, std::int64_t bytes, label l = {}) {
    return inner_.all_gather(in, out, bytes, l);
  }
  request reduce_scatter(const void* in, void* out, std::int64_t n, dtype t, reduction r, label l = {}) {
    return inner_.reduce_scatter(in, out, n, t, r, l);
  }
  request all_to_all(const void* in, void* out, std::int64_t bytes, label l = {}) {
    return inner_.all_to_all(in, out, bytes, l);
  }
  request broadcast(void* buffer, std::int64_t bytes, int root, label l = {}) {
    return inner_.broadcast(buffer, bytes, root, l);
  }
  request send(const void* in, std::int64_t bytes, int to, label l = {}) { return inner_.send(in, bytes, to, l); }
  request recv(void* out, std::int64_t bytes, int from, label l = {}) { return inner_.recv(out, bytes, from, l); }
  request barrier(label l = {}) {
    if (F == fault::barrier_does_nothing) return {};
    return inner_.barrier(l);
  }
  broken split(int color, int key, const char* name) {
    if (F == fault::split_ignores_key) key = 0;
    if (F == fault::split_ignores_color) color = 0;
    return broken(inner_.split(color, key, name));
  }
  template <class G>
  static void launch(int ranks, G&& g) {
    threads::launch(ranks, [&](threads& world) {
      broken own(world);
      g(own);
    });
  }

 private:
  threads inner_;
};

template <fault F>
std::string said(int ranks) {
  try {
    testing::check_communicator<broken<F>>(ranks);
  } catch (const failure& e) {
    return e.what();
  }
  return "nothing";
}

TEST_CASE("a right communicator passes, and each wrong one is told") {
  CHECK(said<fault::none>(3) == "nothing");
  const auto tells = [](const std::string& text, const char* part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  tells(said<fault::split_ignores_key>(3), "the ranks of one color, in the order of (key, rank)");
  tells(said<fault::split_ignores_color>(3), "the ranks of one color, in the order of (key, rank)");
  tells(said<fault::early>(2), "all_reduce of 2100 fp64 sum");
  tells(said<fault::barrier_does_nothing>(2), "its wait returns before the last rank has called it");
  tells(said<fault::max_is_sum>(2), "all_reduce of 1 fp64 max");
  tells(said<fault::small_pieces>(2), "all_reduce of 2100 fp64 sum");
}

}  // namespace
