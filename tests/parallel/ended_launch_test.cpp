// Tensors that were never made, that outlived their launch, or that belong to another rank: a sentence where one is
// used, nothing where one is merely destroyed. Run under AddressSanitizer too.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;
using row = tensor<float, dims<hidden>>;
using matrix = tensor<float, dims<batch, hidden>>;
using ids = tensor<std::int32_t, dims<batch>>;
using four = tensor<float, dims<batch, seq, heads, head_dim>>;
using S = strategy<mesh<dp>>;

// Calls refuse(operator's name, call) for every operator, of x and its kin where these may be anything; `good` are
// fine.
template <class Refuse>
void every_operator(const matrix& x, const row& r, const ids& i, const four& q, const matrix& good, const ids& good_ids,
                    Refuse&& refuse) {
  refuse("silu", [&] { silu(x); });
  refuse("scale", [&] { scale(x, 2); });
  refuse("-", [&] { -x; });
  refuse("+", [&] { x + good; });
  refuse("+ on the right", [&] { good + x; });
  refuse("* a row", [&] { good* r; });
  refuse("/", [&] { x / x; });
  refuse("sum", [&] { sum(x); });
  refuse("mean", [&] { mean(x); });
  refuse("contract", [&] { contract<hidden>(x, good); });
  refuse("contract on the right", [&] { contract<hidden>(good, x); });
  refuse("slice", [&] { slice<hidden>(x, 0, 1); });
  refuse("permute", [&] { permute<hidden, batch>(x); });
  refuse("cast", [&] { cast<double>(x); });
  refuse("rename", [&] { sum(rename<batch, seq>(x)); });
  refuse("detach", [&] { sum(detach(x)); });
  refuse("softmax", [&] { softmax<hidden>(x); });
  refuse("dropout", [&] { dropout(x, 0.5, 1); });
  refuse("swiglu", [&] { swiglu(good, x); });
  refuse("rms_norm", [&] { rms_norm(good, r); });
  refuse("rms_norm of it", [&] { rms_norm(x, r); });
  refuse("layer_norm", [&] { layer_norm(good, r, r); });
  refuse("embedding", [&] { embedding(i, rename<batch, vocab>(good)); });
  refuse("embedding's table", [&] { embedding(good_ids, rename<batch, vocab>(x)); });
  refuse("cross_entropy", [&] { cross_entropy(x, good_ids); });
  refuse("cross_entropy's targets", [&] { cross_entropy(good, i); });
  refuse("attention", [&] { attention(q, q, q); });
  refuse("maximum", [&] { maximum(x, good); });
  refuse("where", [&] { where(good > good, good, x); });
  refuse("split", [&] { split<hidden, dp>(x); });
  refuse("convert", [&] { convert<replicate<dp>>(x); });
  refuse("convert to partial", [&] { convert<partial<dp>>(x); });
  refuse("checkpoint", [&] { checkpoint([](const matrix& h) { return square(h); }, x); });
  refuse("backward", [&] { backward(sum(x)); });
  refuse("on_host", [&] { on_host(x); });
  refuse("local_share", [&] { x.local_share(); });
  refuse("local_share_on_host", [&] { local_share_on_host(x); });
  refuse("print", [&] { print("x", x); });
}

template <class F>
void says(const char* name, const char* part, F&& f) {
  CAPTURE(name);
  CHECK_THROWS_WITH_AS(f(), doctest::Contains(part), failure);
}
}  // namespace

TEST_CASE("a tensor that was moved from is one that was never made") {
  launch<S>({}, [](context& ctx) {
    const matrix good = ones<matrix>(ctx, {2, 3});
    const ids good_ids = zeros<ids>(ctx, {2});
    matrix x = ones<matrix>(ctx, {2, 3}).requires_grad();
    row r = ones<row>(ctx, {3});
    ids i = zeros<ids>(ctx, {2});
    four q = ones<four>(ctx, {1, 2, 1, 2});
    const matrix taken = std::move(x);
    const row taken_row = std::move(r);
    const ids taken_ids = std::move(i);
    four taken_four;
    taken_four = std::move(q);
    every_operator(x, r, i, q, good, good_ids,
                   [](const char* name, auto&& f) { says(name, "std::move leaves such a tensor behind", f); });
    auto y = taken * 2.0;
    const auto moved = std::move(y);
    says("a sum of both", "was never made", [&] { backward(sum(y * 2.0) + sum(moved)); });
    auto loss = sum(moved);
    const auto kept = std::move(loss);
    says("backward", "was never made", [&] { backward(loss); });
    backward(kept);
    CHECK(on_host(taken.grad())[0] == 2);
    matrix itself = ones<matrix>(ctx, {2, 3});
    matrix& same = itself;
    itself = std::move(same);
    CHECK(item(sum(itself)) == 6);
  });
}

TEST_CASE("a tensor that was never made is refused by every operator") {
  launch<S>({.dp = 2}, [](context& ctx) {
    const auto good = ones<matrix>(ctx, {2, 4});
    every_operator({}, {}, {}, {}, good, zeros<ids>(ctx, {2}),
                   [](const char* name, auto&& f) { says(name, "was never made", f); });
    matrix x;
    CHECK(!x.has_grad());
    says("requires_grad", "was never made", [&] { sum(x.requires_grad()); });
    CHECK(item(sum(good)) == 8);
  });
}

TEST_CASE("a tensor that outlived its launch is refused, and destroyed in peace") {
  struct everything {
    matrix x, with_gradient, gradient, activation, waiting;
    row r;
    ids i;
    four q;
    tape recorded;
    adamw_state state;
  };
  auto kept = std::make_unique<everything>();
  std::vector<everything> more(2);
  launch<S>({.dp = 2},
            [&](context& ctx) {
              const auto fill = [&](everything& e) {
                e.x = ones<matrix>(ctx, {2, 4});
                e.r = ones<row>(ctx, {4});
                e.i = zeros<ids>(ctx, {2});
                e.q = ones<four>(ctx, {1, 2, 1, 4});
                e.with_gradient = ones<matrix>(ctx, {2, 4}).requires_grad(&ctx.records);
                e.activation = square(e.with_gradient);
                backward(sum(e.activation));
                e.gradient = detach(square(e.with_gradient.grad()));
                adamw_update(e.with_gradient, e.with_gradient.grad(), e.state, {});
                backward(sum(e.with_gradient));
                const recording on(ctx, &e.recorded);
                e.waiting = checkpoint([w = e.with_gradient](const matrix& h) { return h * exp(w); }, e.with_gradient);
              };
              fill(more[static_cast<std::size_t>(ctx.rank().here())]);
              if (ctx.is_first()) fill(*kept);  // on one rank alone, which check would tell
            },
            {.check = false});
  launch<S>({}, [&](context& ctx) {  // which may lie where the other one lay
    const auto good = ones<matrix>(ctx, {2, 4});
    for (const everything* e : {kept.get(), &more[0], &more[1]})
      every_operator(e->x, e->r, e->i, e->q, good, zeros<ids>(ctx, {2}),
                     [](const char* name, auto&& f) { says(name, "after its launch ended", f); });
    says("an activation", "after its launch ended", [&] { square(kept->activation); });
    says("a gradient", "after its launch ended", [&] { on_host(kept->gradient); });
    says("a leaf's gradient", "after its launch ended", [&] { on_host(kept->with_gradient.grad()); });
    says("what a tape waits with", "after its launch ended", [&] { backward(sum(kept->waiting)); });
    says("an optimizer", "after its launch ended",
         [&] { adamw_update(kept->with_gradient, kept->with_gradient.grad(), kept->state, {}); });
    const matrix copy = kept->x, another = std::move(kept->x);
    kept->x = good;  // what it held before belongs to nobody any more
    CHECK(item(sum(kept->x)) == 8);
  });
  more.pop_back();
  kept.reset();
}

TEST_CASE("a tensor of another rank is refused") {
  std::vector<matrix> of_rank(2);
  launch<S>({.dp = 2}, [&](context& ctx) {
    of_rank[static_cast<std::size_t>(ctx.rank().here())] = ones<matrix>(ctx, {2, 4});
    ctx.world.barrier().wait();
    const matrix& other = of_rank[static_cast<std::size_t>(1 - ctx.rank().here())];
    const auto good = ones<matrix>(ctx, {2, 4});
    says("alone", "of another rank", [&] { square(other); });
    says("with one of its own", "of another rank", [&] { good* other; });
    says("read", "of another rank", [&] { on_host(other); });
    ctx.world.barrier().wait();
  });
}

TEST_CASE("tensors of two launches don't meet, on one thread either") {
  launch<S>({}, [&](context& ctx) {
    const auto outer = ones<matrix>(ctx, {2, 4});
    launch<S>({}, [&](context& within) {
      const auto inner = ones<matrix>(within, {2, 4});
      const auto two = "or within another launch";
      says("+", two, [&] { inner + outer; });
      says("contract", two, [&] { contract<hidden>(outer, inner); });
      says("rms_norm", two, [&] { rms_norm(inner, ones<row>(ctx, {4})); });
      says("cross_entropy", two, [&] { cross_entropy(inner, zeros<ids>(ctx, {2})); });
      says("maximum", two, [&] { maximum(inner, outer); });
      CHECK(item(sum(inner)) == 8);
    });
    CHECK(item(sum(outer)) == 8);
  });
}

namespace {
struct other_backend : cpu_backend {
  struct queue {};
};
}  // namespace

TEST_CASE("a context has the queue of one backend") {
  launch<S>({}, [](context& ctx) {
    CHECK_NOTHROW(ctx.queue<cpu_backend>());
    says("another backend's", "another backend", [&] { ctx.queue<other_backend>(); });
  });
}

TEST_CASE("a model and a store that outlive their launch are destroyed in peace") {
  struct model {
    parameter_registry registry;
    weight<S, dims<hidden>> w;
    matrix y;
  };
  auto kept = std::make_unique<model>();
  launch<S>({}, [&](context& ctx) {
    kept->registry.begin_unit("only");
    kept->registry.add(ctx, kept->w, "gain", {1, {4}}, {0, 1});
    parameter_store<cpu_backend, fp32> store(ctx, kept->registry, config_of<replicated>());
    const auto x = ones<tensor<float, dims<batch, hidden>, shard<batch, dp>>>(ctx, {2, 4});
    const auto y = in_unit(
        ctx, store, 0, [&](const auto& h) { return h * kept->w; }, x);
    CHECK(untyped(y).slot);
  });
  says("a weight", "after its launch ended", [&] { square(kept->w); });
  kept.reset();
}

TEST_CASE("a store's step, a rope table and a no_grad outlive no launch") {
  parameter_registry registry;
  weight<S, dims<hidden>> w;
  std::unique_ptr<parameter_store<cpu_backend, fp32>> store;
  rope_table table;
  std::unique_ptr<no_grad> off;
  const auto turn = [](context& ctx, const rope_table& by) { rope(ones<four>(ctx, {1, 2, 1, 4}), by); };
  launch<S>({}, [&](context& ctx) {
    registry.begin_unit("only");
    registry.add(ctx, w, "gain", {1, {4}}, {0, 1});
    store = std::make_unique<parameter_store<cpu_backend, fp32>>(ctx, registry, config_of<replicated>());
    table = make_rope_table<float>(ctx, frequencies_of(rope_scaling{}.resolved(4), 4, 1e4, 4), 4);
    CHECK_NOTHROW(turn(ctx, table));
    off = std::make_unique<no_grad>(ctx);
  });
  const auto refuses = [&] {
    const char* const ended = "a parameter store is used after its launch ended";
    says("begin_step", ended, [&] { store->begin_step(1); });
    says("load_parameters", ended, [&] { store->load_parameters([](const auto&) { return std::vector<float>(4); }); });
    says("each_stored", ended, [&] { store->each_stored([](const auto&) {}); });
    says("a unit's forward", ended, [&] { store->before_forward(0, false); });  // which has no weights yet
    says("gradient_norm", ended, [&] { store->gradient_norm(); });
  };
  refuses();
  launch<S>({}, [&](context& ctx) {
    refuses();
    says("rope", "rope: the table is of another launch or another rank", [&] { turn(ctx, table); });
    off.reset();
    CHECK(ctx.tape);
  });
  store.reset();
}

TEST_CASE("within a launch of its own a rank's tensors rest") {
  launch<S>({}, [](context&) {
    launch<S>({}, [](context& around) {
      matrix x = ones<matrix>(around, {2, 3}).requires_grad();
      const auto loss = sum(square(x));
      const auto rests = [&] {
        const char* const other = "a tensor of another rank is used";
        says("read", other, [&] { square(x); });
        says("backpropagated", other, [&] { backward(loss); });
        says("written", other, [&] { x.write_local_share([](auto all) { all[0] = 9; }); });
      };
      launch<S>({}, [&](context&) { rests(); });
      CHECK_THROWS_AS(launch<S>({}, [](context&) { throw failure("mine"); }), failure);
      backward(loss);
      CHECK(on_host(x.grad()) == std::vector<float>(6, 2));
    });
  });
}
