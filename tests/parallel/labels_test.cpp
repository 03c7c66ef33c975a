// Ranks whose programs differ where sizes agree: what each collective is for differs, so it ends in one sentence that
// names both, and never adds one tensor to another.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

#include "comm/watch.hpp"

namespace {
using namespace weft;

template <class S, class F>
std::string message_of(const degrees& along, F&& f) {
  const watchdog guard("ranks whose programs differ", 300);
  try {
    launch<S>(along, f, {.check = false});  // whose calls would be the first to differ
  } catch (const failure& e) {
    return e.what();
  }
  return "nothing was thrown";
}
void check_contains(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

using tp_only = strategy<mesh<tp>>;
using addend = tensor<float, dims<batch, hidden>, partial<tp>>;

addend addend_of(context& ctx, const char* name) {
  return convert<partial<tp>>(normal<tensor<float, dims<batch, hidden>>>(ctx, name, {2, 4}));
}

// A model of units of one weight each, which are all of one size: forward and backward of the units that `order(rank)`
// lists.
template <class S, class Order>
std::string train(Order&& order) {
  return message_of<S>({.dp = 2}, [&](context& ctx) {
    using w_type = weight<S, dims<hidden>>;
    using x_type = tensor<float, dims<batch, hidden>, shard<batch, dp>>;
    parameter_registry registry;
    std::vector<w_type> w(3);
    for (std::size_t u = 0; u < w.size(); ++u) {
      registry.begin_unit("layer " + std::to_string(u));
      registry.add(ctx, w[u], "w" + std::to_string(u), {1, {40}}, {0, 1});
    }
    parameter_store<cpu_backend, typename S::precision> store(ctx, registry, config_of<typename S::sharding>());
    store.begin_step(1);
    auto x = ones<x_type>(ctx, {2, 40});
    for (const int u : order(ctx.rank().here()))
      x = in_unit(
          ctx, store, u, [&](const x_type& h) -> x_type { return h * w[static_cast<std::size_t>(u)]; }, x);
    backward(sum(x));
    store.end_micro_batch();
    store.finish_gradients();
  });
}

template <class S>
void check_layers(const char* what) {
  const auto swapped = [](int rank) { return rank == 0 ? std::vector<int>{0, 1, 2} : std::vector<int>{0, 2, 1}; };
  const std::string text = train<S>(swapped);
  check_contains(text, std::string("fp32, sum) for ") + what + " of layer ");
  const auto same = [](int) { return std::vector<int>{0, 2, 1}; };
  CHECK(train<S>(same) == "nothing was thrown");
}

}  // namespace

TEST_CASE("bug: two all-reduces of one type, swapped on one rank, give each the sum of the other") {
  const int line = __LINE__;
  const std::string text = message_of<tp_only>({.tp = 2}, [](context& ctx) {
    const auto a = addend_of(ctx, "a"), b = addend_of(ctx, "b");
    if (ctx.index<tp>() == 0) {
      const auto x = all_reduce<tp>(a);
      const auto y = all_reduce<tp>(b);
    } else {
      const auto y = all_reduce<tp>(b);
      const auto x = all_reduce<tp>(a);
    }
  });
  const auto at = [&](int rank, int offset) {
    return "rank " + std::to_string(rank) +
           " calls all_reduce(8 fp32, sum) for [batch, hidden] (labels_test.cpp:" + std::to_string(line + offset) + ")";
  };
  CHECK(text == "The ranks of group 'tp' disagree on their collective number 0: " + at(0, 4) + "; " + at(1, 7) +
                    ". Every rank of a group has to call the same collectives in the same order.");
}

TEST_CASE("every conversion says what the program calls it, what it moves and where it is asked for") {
  const auto differs = [](auto call) {
    return message_of<tp_only>({.tp = 2}, [&](context& ctx) {
      // the same line on both ranks, so that only the dimensions differ
      if (ctx.index<tp>() == 0) call(ctx, normal<tensor<float, dims<batch, hidden>>>(ctx, "a", {4, 4}));
      if (ctx.index<tp>() == 1)
        call(ctx, rename<hidden, seq>(normal<tensor<float, dims<batch, hidden>>>(ctx, "a", {4, 4})));
    });
  };
  const auto check = [&](const char* operation, const std::string& called, auto call) {
    const std::string text = differs(call);
    check_contains(text, std::string(" calls ") + operation);  // of a send and a recv, either rank may be named first
    const std::string by = called + "(" == operation ? "" : called + " of ";  // not the operation's name twice
    check_contains(text, " for " + by + "[batch, hidden] (labels_test.cpp:");
    check_contains(text, " for " + by + "[batch, seq] (labels_test.cpp:");
  };
  check("all_reduce(", "all_reduce", [](context&, auto x) { all_reduce<tp>(convert<partial<tp>>(x)); });
  check("all_reduce(", "all_reduce", [](context&, auto x) { leave_block<tp_only>(convert<partial<tp>>(x)); });
  check("all_gather(", "all_gather", [](context&, auto x) { all_gather<tp>(split<batch, tp>(x)); });
  check("all_gather(", "convert", [](context&, auto x) { convert<invariant<tp>>(split<batch, tp>(x)); });
  check("reduce_scatter(", "reduce_scatter",
        [](context&, auto x) { reduce_scatter<batch, tp>(convert<partial<tp>>(x)); });
  check("send(", "shift", [](context&, auto x) { shift<tp>(split<batch, tp>(x)); });
}

TEST_CASE("ranks that differ in a backward say whose gradient it is, and of which operator's input") {
  const std::string text = message_of<tp_only>({.tp = 2}, [](context& ctx) {
    auto x = normal<tensor<float, dims<batch, hidden>, shard<batch, dp>>>(ctx, "x", {4, 4}).requires_grad();
    using up_type = linear<tp_only, dims<ffn>, dims<hidden>, ffn>;
    const up_type up{normal<weight<tp_only, dims<ffn, hidden>, shard<ffn, tp>>>(ctx, "w", {4, 4}), {}, {}, {}};
    const auto loss = all_reduce<tp>(sum(up(x)));
    if (ctx.index<tp>() == 0) backward(loss);
    if (ctx.index<tp>() == 1) all_reduce<tp>(convert<partial<tp>>(x));
  });
  check_contains(text,
                 "rank 0 calls all_reduce(16 fp32, sum) for contract's gradient of [batch, hidden] (labels_test.cpp:");
  check_contains(text, "rank 1 calls all_reduce(16 fp32, sum) for [batch, hidden] (labels_test.cpp:");
}

TEST_CASE("bug: ranks that run different layers add one layer's gradients to another's") {
  check_layers<strategy<mesh<dp>, replicated>>("gradients");
  check_layers<strategy<mesh<dp>, zero1>>("gradients");
  check_layers<strategy<mesh<dp>, zero2>>("gradients");
}
TEST_CASE("bug: ranks that run different layers gather one layer's weights for another's") {
  const std::string text = train<strategy<mesh<dp>, zero3>>([](int rank) {
    return rank == 0 ? std::vector<int>{0, 1, 2} : std::vector<int>{2, 1, 0};
  });
  check_contains(text,
                 "rank 0 calls all_gather(128 bytes) for weights of layer 0; rank 1 calls all_gather(128 bytes) "
                 "for weights of layer 2");
}

TEST_CASE("a conversion says in which unit it is, forward and backward") {
  using S = strategy<mesh<dp, tp>>;
  trace_log log(2);
  launch<S>({.tp = 2},
            [&](context& ctx) {
              using w_type = weight<S, dims<hidden, ffn>, shard<ffn, tp>>;
              parameter_registry registry;
              w_type w;
              registry.begin_unit("layer 7");
              registry.add(ctx, w, "w", {2, {8, 8}}, {1});
              parameter_store<cpu_backend, fp32> store(ctx, registry, config_of<replicated>());
              store.begin_step(1);
              auto x = ones<tensor<float, dims<batch, hidden>, shard<batch, dp>>>(ctx, {2, 8}).requires_grad();
              const auto y = in_unit(
                  ctx, store, 0, [&](const auto& h) { return convert<replicate<tp>>(square(contract<hidden>(h, w))); },
                  x);
              backward(sum(split<ffn, tp>(y)));
              store.end_micro_batch();
              store.finish_gradients();
            },
            {.trace = &log, .check = false});
  for (int rank : {0, 1}) {
    std::vector<std::string> said;
    for (const trace_event& e : log.events(rank))
      if (e.axis == "tp") said.push_back(e.operation + (' ' + e.label));
    REQUIRE(said.size() == 3);
    check_contains(said[0], "all_gather convert of [batch, ffn] in layer 7 (labels_test.cpp:");
    check_contains(said[1], "reduce_scatter convert's gradient of [batch, ffn] in layer 7 (labels_test.cpp:");
    check_contains(said[2], "all_reduce contract's gradient of [batch, hidden] in layer 7 (labels_test.cpp:");
  }
}

TEST_CASE("what a store moves says where the program calls it, and nothing where a backward has asked") {
  using S = strategy<mesh<dp, fsdp>, hybrid>;
  trace_log log(4);
  std::vector<std::string> wanted, said;
  launch<S>(degrees{.dp = 2}.with<fsdp>(2),
            [&](context& ctx) {
              const bool first = ctx.is_first();
              const auto next_line = [&](const std::string& what, call_site at = call_site::here()) {
                if (first) wanted.push_back(what + " (labels_test.cpp:" + std::to_string(at.line + 1) + ")");
              };
              parameter_registry registry;
              weight<S, dims<hidden>> w;
              registry.begin_unit("layer 0");
              registry.add(ctx, w, "w", {1, {40}}, {0, 1});
              next_line("axes of the gradient norm");
              parameter_store<cpu_backend, fp32> store(ctx, registry, config_of<zero1, adamw>());
              store.begin_step(1);
              using x_type = tensor<float, dims<batch, hidden>, shard<batch, dp, fsdp>>;
              const auto loss = sum(in_unit(
                  ctx, store, 0, [&](const x_type& h) -> x_type { return h * w; }, ones<x_type>(ctx, {4, 40})));
              backward(loss);
              if (first) wanted.push_back("gradients of layer 0");
              store.end_micro_batch();
              next_line("pending gradients of all units");
              store.finish_gradients();
              next_line("gradient norm");
              store.gradient_norm();
              next_line("loss");
              const loss_sums all = finished<decltype(loss)>(ctx, {loss.local_share()[0], 1});
              if (first) wanted.push_back(wanted.back());  // along both axes
              CHECK(all.count == 4);
              next_line("weights of layer 0");
              store.step(adamw{}.at(1, 0.1, 1.0));
              const auto read = [](const auto&...) {};
              next_line("master weights of layer 0");
              store.each_parameter(read);
            },
            {.trace = &log, .check = false});
  for (const trace_event& e : log.events(0)) said.push_back(e.label);
  said.erase(std::remove_if(said.begin(), said.end(),
                            [](const std::string& s) { return s.starts_with("gradients of layer 0 ("); }),
             said.end());  // of each_parameter
  CHECK(said == wanted);
}

TEST_CASE("what stages hand on says which micro-batch it is of") {
  using S = strategy<mesh<pp>>;
  trace_log log(2);
  launch<S>({.pp = 2},
            [&](context& ctx) {
              llama<S> model(ctx,
                             {.layers = 2, .hidden = 8, .heads = 2, .kv_heads = 2, .ffn = 8, .vocab = 8, .max_seq = 4});
              parameter_store<cpu_backend, fp32> store(ctx, model.registry(), config_of<replicated>());
              model.use(store);
              pipeline<llama<S>> stages(ctx, model);
              store.begin_step(3);
              struct {
                token_ids<S> tokens, targets;
              } data{zeros<token_ids<S>>(ctx, {2, 4}), zeros<token_ids<S>>(ctx, {2, 4})};
              stages.train(
                  3, 1, [&](int) { return data; }, [&](int) { store.end_micro_batch(); });
              store.finish_gradients();
            },
            {.trace = &log, .check = false});
  std::vector<std::string> sent;
  for (const trace_event& e : log.events(0))
    if (e.axis == "pp" && e.operation == std::string("send")) sent.push_back(e.label);
  CHECK(sent == std::vector<std::string>{"shift of [layer, batch, seq, hidden], micro-batch 0",
                                         "shift of [layer, batch, seq, hidden], micro-batch 1",
                                         "shift of [layer, batch, seq, hidden], micro-batch 2"});
}
