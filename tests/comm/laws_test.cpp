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
  ignores_tags,
  equal_parts,
  max_is_sum,
  small_pieces,
  ignores_nan,
  rounds_each_addition,
  saturates,
  from_last_rank,
  from_own_rank,
  runs_nothing,
  runs_fewer,
  runs_more,
  runs_twice,
  swallows_and_lies,
  swallows
};
fault has = fault::none;  // what the communicator of the test that runs has; set before its ranks are

// The fold of all ranks' `in`, as the fault has it.
template <class T>
void fold(const T* in, T* out, std::int64_t n, int ranks, int own, reduction how) {
  using A = std::conditional_t<sizeof(T) == 2, float, std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>>;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto of = [&](int k) {
      return in[(has == fault::from_last_rank  ? ranks - 1 - k
                 : has == fault::from_own_rank ? (own + k) % ranks
                                               : k) *
                    n +
                i];
    };
    T most = of(0);
    A sum = A(most);
    long double wide = static_cast<long double>(sum);
    if constexpr (std::is_integral_v<T>) wide = static_cast<long double>(most);
    for (int k = 1; k < ranks; ++k) {
      const T x = of(k);
      sum = sum + A(x);
      if (has == fault::rounds_each_addition) sum = A(T(sum));
      if constexpr (std::is_integral_v<T>) {
        wide += static_cast<long double>(x);
        most = (how == reduction::max) == (x > most) ? x : most;
      } else {
        const double a = double(most), b = double(x);
        const bool takes = has != fault::ignores_nan && (a != a || b != b) ? b != b
                           : a != a                                        ? true
                           : how == reduction::max                         ? b > a
                                                                           : b < a;
        if (takes) most = x;
      }
    }
    out[i] = how == reduction::sum ? T(sum) : most;
    if constexpr (std::is_integral_v<T>) {
      using limits = std::numeric_limits<T>;
      if (has == fault::saturates && how == reduction::sum)
        out[i] = wide > static_cast<long double>(limits::max())   ? limits::max()
                 : wide < static_cast<long double>(limits::min()) ? limits::min()
                                                                  : out[i];
    }
  }
}

// InOrder: whether it promises to add in the order of ranks.
template <bool InOrder>
class broken : public comm_operations<broken<InOrder>> {
 public:
  static constexpr bool reduces_in_rank_order = InOrder;
  explicit broken(threads inner) : inner_(std::move(inner)) {}
  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }
  request post(comm_call call) {
    if (call.is(comm_operation::barrier) && has == fault::barrier_does_nothing) return {};
    if (call.pairs() && has == fault::ignores_tags) call.tag = 0;
    if (call.is(comm_operation::all_to_allv) && has == fault::equal_parts) return in_equal_parts(call);
    return call.is(comm_operation::all_reduce) ? all_reduce_wrongly(call) : inner_.post(call);
  }
  broken split(int color, int key, const char* name) {
    if (has == fault::split_ignores_key) key = 0;
    if (has == fault::split_ignores_color) color = 0;
    return broken(inner_.split(color, key, name));
  }
  template <class G>
  static void launch(int ranks, G&& g) {
    if (has == fault::runs_nothing) return;
    if (has == fault::runs_fewer && ranks > 1) --ranks;
    if (has == fault::runs_more) ++ranks;
    const auto run = [&] {
      threads::launch(ranks, [&](threads& world) {
        broken own(world);
        g(own);
      });
    };
    if (has == fault::runs_twice) run();
    try {
      run();
    } catch (...) {
      if (has != fault::swallows && has != fault::swallows_and_lies) throw;
    }
  }

 private:
  request all_reduce_wrongly(comm_call call) {
    if (has == fault::max_is_sum && call.how == reduction::max) call.how = reduction::sum;
    if (has == fault::swallows_and_lies) call.how = reduction::sum;
    if (has == fault::small_pieces && call.count > 1000) call.count = 1000;
    if (has >= fault::ignores_nan && has <= fault::from_own_rank) {
      std::vector<std::byte> all(std::size_t(call.bytes() * size()) + 1);
      inner_.all_gather(call.in, all.data(), call.bytes(), call.label).wait();
      visit_dtype(call.type, [&]<class T>() {
        fold(reinterpret_cast<const T*>(all.data()), static_cast<T*>(call.out), call.count, size(), rank(), call.how);
      });
      return {};
    }
    if (has != fault::early || call.bytes() < 1000) return inner_.post(call);
    // What a caller sees of a wait that returns too early: the output isn't there. It goes to memory of its own, so
    // that the test itself breaks nothing.
    const auto* in = static_cast<const std::byte*>(call.in);
    std::vector<std::byte> own(in, in + call.bytes());
    call.in = call.out = own.data();
    inner_.post(call).wait();
    return {};
  }
  /// Every part arrives where it would if all were as long as the first.
  request in_equal_parts(const comm_call& call) {
    std::vector<std::byte> own(std::size_t(call.output_bytes(size())) + 1);
    comm_call to_own = call;
    to_own.out = own.data();
    inner_.post(to_own).wait();
    std::int64_t from = 0;
    for (int r = 0; r < size(); ++r) {
      const std::int64_t to = std::min(r * call.recv_bytes[0], call.output_bytes(size()) - call.recv_bytes[r]);
      std::copy_n(own.data() + from, call.recv_bytes[r], static_cast<std::byte*>(call.out) + to);
      from += call.recv_bytes[r];
    }
    return {};
  }

  threads inner_;
};

template <bool InOrder = true>
std::string said(fault of, int ranks) {
  has = of;
  try {
    testing::check_communicator<broken<InOrder>>(ranks);
  } catch (const failure& e) {
    return e.what();
  }
  return "nothing";
}

void tells(const std::string& text, const char* part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

TEST_CASE("a right communicator passes, and each wrong one is told") {
  CHECK(said(fault::none, 3) == "nothing");
  tells(said(fault::split_ignores_key, 3), "the ranks of one color, in the order of (key, rank)");
  tells(said(fault::split_ignores_color, 3), "the ranks of one color, in the order of (key, rank)");
  tells(said(fault::early, 2), "all_reduce of 2100 fp64 sum");
  tells(said(fault::barrier_does_nothing, 2), "its wait returns before the last rank has called it");
  tells(said(fault::max_is_sum, 2), "all_reduce of 1 fp64 max");
  tells(said(fault::ignores_tags, 2), "arrived out of turn");
  tells(said(fault::equal_parts, 3), "all_to_allv of ");
  tells(said(fault::small_pieces, 2), "all_reduce of 2100 fp64 sum");
}

TEST_CASE("what reductions make of NaN, of integers that are too large and of sums that aren't exact") {
  tells(said(fault::ignores_nan, 2), "a NaN on any rank makes it NaN");
  tells(said(fault::saturates, 2), "integers wrap");
  tells(said(fault::rounds_each_addition, 3), "added in the order of ranks, in float, and rounded once");
  tells(said(fault::from_last_rank, 3), "added in the order of ranks");
  tells(said(fault::from_own_rank, 3), "ranks get different bits");
}

TEST_CASE("a communicator that doesn't promise the order of ranks may take another, but one for all ranks") {
  CHECK(said<false>(fault::from_last_rank, 3) == "nothing");
  CHECK(said<false>(fault::rounds_each_addition, 3) == "nothing");
  tells(said<false>(fault::from_own_rank, 3), "ranks get different bits");
  tells(said<false>(fault::ignores_nan, 2), "a NaN on any rank makes it NaN");
  tells(said<false>(fault::saturates, 2), "integers wrap");
}

TEST_CASE("a launch that doesn't run every rank once, or keeps an error to itself") {
  tells(said(fault::runs_nothing, 2), "launch(2, f) ran f on no rank");
  tells(said(fault::runs_fewer, 3), "launch(3, f) ran rank ");
  tells(said(fault::runs_more, 2), "launch(2, f) ran rank ");
  tells(said(fault::runs_twice, 2), "launch(2, f) ran f twice on rank ");
  tells(said(fault::swallows, 2), "and no error came out");
  tells(said(fault::swallows_and_lies, 2), "all_reduce of 1 fp64 max");
}

}  // namespace
