// The support matrix: for every operator and every placement of its operands on one mesh axis, what comes out.
// Invariant: nobody writes an answer here. Each cell is a call of the operator on types of its own;
// docs/tools/support.sh compiles this file three times: with WEFT_ASK, which instantiates all cells and lets the
// compiler refuse what it refuses; with WEFT_ASK_DEVICE, which does the same for one cell of every operator over the
// kernels of the CUDA backend; and last, with both answers in "refused.inc" and "missing.inc", to print the outputs'
// types of all the other cells.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <weft/backend/cuda/backend.hpp>
#include <weft/weft.hpp>

using namespace weft;

// ---- placements on the axis of a cell ----

struct whole {
  template <class A>
  using on = place<>;
};  // invariant
struct copies {
  template <class A>
  using on = place<replicate<A>>;
};
struct addends {
  template <class A>
  using on = place<partial<A>>;
};
template <class D>
struct cut {
  template <class A>
  using on = place<shard<D, A>>;
};

std::string name_of(whole) { return "invariant"; }
std::string name_of(copies) { return "replicate"; }
std::string name_of(addends) { return "partial"; }
template <class D>
std::string name_of(cut<D>) {
  return "shard " + std::string(D::name);
}

template <class... Ps>
struct placements {
  static constexpr int count = sizeof...(Ps);
};
template <class List, int I>
struct at;
template <class P, class... Ps>
struct at<placements<P, Ps...>, 0> {
  using type = P;
};
template <class P, class... Ps, int I>
struct at<placements<P, Ps...>, I> : at<placements<Ps...>, I - 1> {};

template <class... Ds>
using any = placements<whole, copies, addends, cut<Ds>...>;
template <class Dims, class P, class A, class Backend, class T = float>
using placed = basic_tensor<T, Dims, typename P::template on<A>, Backend>;

// ---- operators ----
// `rows` and `columns`: the placements of the first and of the second operand (none: `placements<void>`). call<A>(...)
// is the operator. `table`: operators with the same operands, whose rows stand in one table.

namespace ops {

// Formulas of a user's own.
struct of_element {
  static constexpr std::string_view name = "of_element";
  float forward(float x) const { return x * x; }
  float vjp(float dy, float x) const { return 2 * dy * x; }
};
struct linear_of_element {
  static constexpr std::string_view name = "linear_of_element";
  static constexpr linearity linear = linearity::joint;
  float forward(float x) const { return 3 * x; }
  float vjp(float dy) const { return 3 * dy; }
};
struct of_two {
  static constexpr std::string_view name = "of_two";
  float forward(float x, float y) const { return (x - y) * (x - y); }
  std::array<float, 2> vjp(float dy, float x, float y) const { return {2 * dy * (x - y), 2 * dy * (y - x)}; }
};
struct of_row {
  static constexpr std::string_view name = "of_row";
  template <class T>
  void forward(std::span<const T> x, std::span<T> y) const {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] / x[0];
  }
  template <class T>
  void vjp(std::span<const T>, std::span<const T>, std::span<const T>, std::span<T>) const {}
};

using two = dims<batch, hidden>;
struct one_operand {
  static constexpr const char* table = "x [batch, hidden]";
  using columns = any<hidden, batch>;
  template <class P, class A, class B>
  using operand = placed<two, P, A, B>;
};
#define ONE(op, text, ...)                                \
  struct op : one_operand {                               \
    static constexpr const char *tag = #op, *name = text; \
    template <class A, class X>                           \
    static auto call(const X& x) {                        \
      return __VA_ARGS__;                                 \
    }                                                     \
  };
ONE(exp_, "exp(x)", exp(x))
ONE(log_, "log(x)", log(x))
ONE(sqrt_, "sqrt(x)", sqrt(x))
ONE(rsqrt_, "rsqrt(x)", rsqrt(x))
ONE(reciprocal_, "reciprocal(x)", reciprocal(x))
ONE(square_, "square(x)", square(x))
ONE(abs_, "abs(x)", abs(x))
ONE(tanh_, "tanh(x)", tanh(x))
ONE(sigmoid_, "sigmoid(x)", sigmoid(x))
ONE(relu_, "relu(x)", relu(x))
ONE(silu_, "silu(x)", silu(x))
ONE(gelu_, "gelu(x)", gelu(x))
ONE(gelu_exact_, "gelu_exact(x)", gelu_exact(x))
ONE(formula_, "elementwise(formula, x)", elementwise(of_element{}, x))
ONE(linear_formula_, "elementwise(linear formula, x)", elementwise(linear_of_element{}, x))
ONE(greater_, "x > c", x > 0.5)
ONE(plus_number_, "x + c", x + 2.0)
ONE(minus_number_, "c - x", 2.0 - x)
ONE(over_number_, "x / c", x / 2.0)
ONE(number_over_, "c / x", 2.0 / x)
ONE(rowwise_, "rowwise<hidden>(formula, x)", rowwise<hidden>(of_row{}, x))
ONE(max_, "max<hidden>(x)", max<hidden>(x))
ONE(argmax_, "argmax<hidden>(x)", argmax<hidden>(x))
ONE(detach_, "detach(x)", detach(x))
ONE(softmax_, "softmax<hidden>(x)", softmax<hidden>(x))
ONE(scale_, "scale(x, c)", scale(x, 2.0))
ONE(sum_, "sum<hidden>(x)", sum<hidden>(x))
ONE(mean_, "mean<hidden>(x)", mean<hidden>(x))
ONE(slice_, "slice<hidden>(x, ...)", slice<hidden>(x, 0, 1))
ONE(repeat_, "repeat<hidden>(x, ...)", repeat<hidden>(x, 2))
ONE(permute_, "permute<hidden, batch>(x)", permute<hidden, batch>(x))
ONE(rename_, "rename<hidden, ffn>(x)", rename<hidden, ffn>(x))
ONE(cast_, "cast<double>(x)", cast<double>(x))
ONE(dropout_, "dropout(x, ...)", dropout(x, 0.1, 1))
ONE(all_reduce_, "all_reduce<a>(x)", all_reduce<A>(x))
ONE(all_gather_, "all_gather<a>(x)", all_gather<A>(x))
ONE(reduce_scatter_, "reduce_scatter<hidden, a>(x)", reduce_scatter<hidden, A>(x))
ONE(split_, "split<hidden, a>(x)", split<hidden, A>(x))
ONE(all_to_all_, "all_to_all<hidden, a>(x)", all_to_all<hidden, A>(x))
ONE(shift_, "shift<a>(x)", shift<A>(x))
#undef ONE

struct merge_ {
  static constexpr const char *table = "x [batch, heads, head_dim]", *tag = "merge_",
                              *name = "merge<hidden, heads, head_dim>(x)";
  using columns = any<batch, heads, head_dim>;
  template <class P, class A, class B>
  using operand = placed<dims<batch, heads, head_dim>, P, A, B>;
  template <class A, class X>
  static auto call(const X& x) {
    return merge<hidden, heads, head_dim>(x);
  }
};
struct rope_ {
  static constexpr const char *table = "x [batch, seq, heads, head_dim]", *tag = "rope_", *name = "rope(x, table)";
  using columns = any<batch, seq, heads, head_dim>;
  template <class P, class A, class B>
  using operand = placed<dims<batch, seq, heads, head_dim>, P, A, B>;
  template <class A, class X>
  static auto call(const X& x) {
    return rope(x, rope_table{});
  }
};

#define TWO(op, text, row_dims, row_placements, column_dims, column_placements, column_type, ...) \
  struct op {                                                                                     \
    static constexpr const char *tag = #op, *name = text;                                         \
    using rows = row_placements;                                                                  \
    using columns = column_placements;                                                            \
    template <class P, class A, class B>                                                          \
    using first = placed<row_dims, P, A, B>;                                                      \
    template <class P, class A, class B>                                                          \
    using operand = placed<column_dims, P, A, B, column_type>;                                    \
    template <class A, class X, class Y>                                                          \
    static auto call(const X& x, const Y& y) {                                                    \
      return __VA_ARGS__;                                                                         \
    }                                                                                             \
  };
#define LIST(...) __VA_ARGS__
TWO(contract_, "contract<hidden>(x, y): x [batch, seq, hidden], y [batch, hidden, ffn]", LIST(dims<batch, seq, hidden>),
    LIST(any<hidden, batch, seq>), LIST(dims<batch, hidden, ffn>), LIST(any<hidden, batch, ffn>), float,
    contract<hidden>(x, y))
TWO(contract_float8_, "contract_float8<hidden>(x, y): x [batch, seq, hidden], y [batch, hidden, ffn]",
    LIST(dims<batch, seq, hidden>), LIST(any<hidden, batch, seq>), LIST(dims<batch, hidden, ffn>),
    LIST(any<hidden, batch, ffn>), float, contract_float8<hidden>(x, y))
TWO(contract_gelu_,
    "contract_gelu<hidden>(x, y, sum<hidden>(y)): x [batch, seq, hidden], y [ffn, hidden]; the bias is a sum of y's",
    LIST(dims<batch, seq, hidden>), LIST(any<hidden, batch, seq>), LIST(dims<ffn, hidden>), LIST(any<ffn, hidden>),
    float, contract_gelu<hidden>(x, y, sum<hidden>(y)))
TWO(plus_, "x + y: x [batch, seq], y [seq, hidden]", LIST(dims<batch, seq>), LIST(any<seq, batch>),
    LIST(dims<seq, hidden>), LIST(any<seq, hidden>), float, x + y)
TWO(minus_, "x - y: x [batch, seq], y [seq, hidden]", LIST(dims<batch, seq>), LIST(any<seq, batch>),
    LIST(dims<seq, hidden>), LIST(any<seq, hidden>), float, x - y)
TWO(times_, "x * y: x [batch, seq], y [seq, hidden]", LIST(dims<batch, seq>), LIST(any<seq, batch>),
    LIST(dims<seq, hidden>), LIST(any<seq, hidden>), float, x* y)
TWO(divide_, "x / y: x [batch, seq], y [seq, hidden]", LIST(dims<batch, seq>), LIST(any<seq, batch>),
    LIST(dims<seq, hidden>), LIST(any<seq, hidden>), float, x / y)
TWO(formula_of_two_, "elementwise(formula, x, y): x [batch, seq], y [seq, hidden]", LIST(dims<batch, seq>),
    LIST(any<seq, batch>), LIST(dims<seq, hidden>), LIST(any<seq, hidden>), float, elementwise(of_two{}, x, y))
TWO(maximum_, "maximum(x, y): x [batch, seq], y [seq, hidden]", LIST(dims<batch, seq>), LIST(any<seq, batch>),
    LIST(dims<seq, hidden>), LIST(any<seq, hidden>), float, maximum(x, y))
TWO(minimum_, "minimum(x, y): x [batch, seq], y [seq, hidden]", LIST(dims<batch, seq>), LIST(any<seq, batch>),
    LIST(dims<seq, hidden>), LIST(any<seq, hidden>), float, minimum(x, y))
TWO(where_, "where(y, x, x): x [batch, seq], mask y [seq, hidden]", LIST(dims<batch, seq>), LIST(any<seq, batch>),
    LIST(dims<seq, hidden>), LIST(any<seq, hidden>), std::uint8_t, where(y, x, x))
TWO(concat_, "concat<hidden>(x, y): x, y [batch, hidden]", LIST(dims<batch, hidden>), LIST(any<hidden, batch>),
    LIST(dims<batch, hidden>), LIST(any<hidden, batch>), float, concat<hidden>(x, y))
TWO(take_, "take<hidden>(x, y): x [batch, hidden], ids y [batch, seq]", LIST(dims<batch, hidden>),
    LIST(any<hidden, batch>), LIST(dims<batch, seq>), LIST(any<batch, seq>), std::int32_t, take<hidden>(x, y))
TWO(swiglu_, "swiglu(x, y): x, y [batch, ffn]", LIST(dims<batch, ffn>), LIST(any<batch, ffn>), LIST(dims<batch, ffn>),
    LIST(any<batch, ffn>), float, swiglu(x, y))
TWO(rms_norm_, "rms_norm(x, y): x [batch, hidden], weight y [hidden]", LIST(dims<batch, hidden>),
    LIST(any<batch, hidden>), LIST(dims<hidden>), LIST(any<hidden>), float, rms_norm(x, y))
TWO(layer_norm_, "layer_norm(x, y, y): x [batch, hidden], weight and bias y [hidden]", LIST(dims<batch, hidden>),
    LIST(any<batch, hidden>), LIST(dims<hidden>), LIST(any<hidden>), float, layer_norm(x, y, y))
TWO(add_rms_norm_, "add_rms_norm(x, x, y): stream and block's output x [batch, hidden], weight y [hidden]; the norm",
    LIST(dims<batch, hidden>), LIST(any<batch, hidden>), LIST(dims<hidden>), LIST(any<hidden>), float,
    add_rms_norm(x, x, y))
TWO(add_layer_norm_,
    "add_layer_norm(x, x, y, y): stream and block's output x [batch, hidden], weight and bias y [hidden]; the norm",
    LIST(dims<batch, hidden>), LIST(any<batch, hidden>), LIST(dims<hidden>), LIST(any<hidden>), float,
    add_layer_norm(x, x, y, y))
TWO(attention_,
    "attention(x, y, y): queries x [batch, seq, heads, head_dim], keys and values y [batch, seq, kv_heads, head_dim]",
    LIST(dims<batch, seq, heads, head_dim>), LIST(any<batch, seq, heads, head_dim>),
    LIST(dims<batch, seq, kv_heads, head_dim>), LIST(any<batch, seq, kv_heads, head_dim>), float, attention(x, y, y))
TWO(embedding_, "embedding(y, x): ids y [batch, seq], table x [vocab, hidden]", LIST(dims<vocab, hidden>),
    LIST(any<vocab, hidden>), LIST(dims<batch, seq>), LIST(any<batch>), std::int32_t, embedding(y, x))
TWO(cross_entropy_, "cross_entropy(x, y): logits x [batch, seq, vocab], targets y [batch, seq]",
    LIST(dims<batch, seq, vocab>), LIST(any<vocab, batch>), LIST(dims<batch, seq>), LIST(any<batch>), std::int32_t,
    cross_entropy(x, y))
#undef TWO
#undef LIST

}  // namespace ops

// ---- cells ----

// Every cell has an axis of its own, so that a refusal is said for each: the compiler says it once for each type.
template <class Op, int I, int J>
struct axis_of : axis_tag {
  static constexpr std::string_view name = "a";
};

template <class T>
struct outcome_of {
  using type = T;
};
template <class Sum, class Count>
struct outcome_of<loss<Sum, Count>> {
  using type = Sum;
};
template <class H, class Y>
struct outcome_of<std::tuple<H, Y>> {
  using type = Y;
};

template <class Op, int I, int J, class Backend = cpu_backend>
struct cell {
  using a = axis_of<Op, I, J>;
  static auto ask() {
    if constexpr (requires { typename Op::rows; })
      return Op::template call<a>(
          typename Op::template first<typename at<typename Op::rows, I>::type, a, Backend>{},
          typename Op::template operand<typename at<typename Op::columns, J>::type, a, Backend>{});
    else
      return Op::template call<a>(
          typename Op::template operand<typename at<typename Op::columns, J>::type, a, Backend>{});
  }
  using output = typename outcome_of<decltype(ask())>::type;
};

template <class Op>
constexpr int rows_of = [] {
  if constexpr (requires { typename Op::rows; })
    return Op::rows::count;
  else
    return 1;
}();

template <class... Ops>
struct operators {};
using one_operand =
    operators<ops::exp_, ops::log_, ops::sqrt_, ops::rsqrt_, ops::reciprocal_, ops::square_, ops::abs_, ops::tanh_,
              ops::sigmoid_, ops::relu_, ops::silu_, ops::gelu_, ops::gelu_exact_, ops::formula_, ops::linear_formula_,
              ops::greater_, ops::plus_number_, ops::minus_number_, ops::over_number_, ops::number_over_, ops::rowwise_,
              ops::max_, ops::argmax_, ops::detach_, ops::softmax_, ops::scale_, ops::sum_, ops::mean_, ops::slice_,
              ops::repeat_, ops::permute_, ops::rename_, ops::cast_, ops::dropout_>;
using rotary = operators<ops::rope_>;
using merging = operators<ops::merge_>;
using conversions =
    operators<ops::all_reduce_, ops::all_gather_, ops::reduce_scatter_, ops::split_, ops::all_to_all_, ops::shift_>;
using two_operands =
    operators<ops::contract_, ops::contract_float8_, ops::contract_gelu_, ops::plus_, ops::minus_, ops::times_,
              ops::divide_, ops::formula_of_two_, ops::maximum_, ops::minimum_, ops::where_, ops::concat_, ops::take_,
              ops::swiglu_, ops::rms_norm_, ops::layer_norm_, ops::add_rms_norm_, ops::add_layer_norm_, ops::attention_,
              ops::embedding_, ops::cross_entropy_>;

#if defined(WEFT_ASK)

template <class Op, int... Is>
int ask_row(std::integer_sequence<int, Is...>) {
  constexpr int columns = Op::columns::count;
  return (0 + ... + int(std::is_void_v<typename cell<Op, Is / columns, Is % columns>::output>));
}
template <class... Ops>
int ask(operators<Ops...>) {
  return (0 + ... + ask_row<Ops>(std::make_integer_sequence<int, rows_of<Ops> * Ops::columns::count>{}));
}

int main() { return ask(one_operand{}) + ask(rotary{}) + ask(merging{}) + ask(conversions{}) + ask(two_operands{}); }

#else

// "refused.inc" has a specialisation for every cell that the compiler refused: its sentence.
template <class Op, int I, int J>
constexpr const char* why = nullptr;
#include "refused.inc"

#endif
#if defined(WEFT_ASK_DEVICE)

// The kernels of the CUDA backend over a queue that is only declared; one for each operator, for the same reason as the
// axes. "stubs.inc": what stands in for the kernels that it lacks, and says so.
struct declared_queue {
  static constexpr int block_threads = 256;
  static constexpr bool runs_behind = true;
  std::int64_t resident_blocks();
  std::size_t block_memory();
  template <class Kernel>
  void start(std::int64_t, std::size_t, const Kernel&);
  void* scratch(std::size_t);
  template <class Key>
  static std::size_t sort_bytes(std::int64_t, gpu::key_bits);
  template <class Key>
  void sort(const Key*, Key*, std::int64_t, gpu::key_bits, void*, std::size_t);
  std::size_t row_least_bytes(std::int64_t, std::int64_t);
  void row_least(std::int64_t, std::int64_t, const std::uint64_t*, std::uint64_t*, void*, std::size_t);
  template <class Value>
  std::size_t running_sum_bytes(std::int64_t);
  template <class Value>
  void running_sum(std::int64_t, const Value&, std::int64_t*, void*, std::size_t);
  void copy(const void*, void*, std::size_t);
  void upload(const void*, void*, std::size_t);
  void download(const void*, void*, std::size_t);
  void zero(void*, std::size_t);
  void enqueue(void (*)());
  void synchronize();
  bool multiply(const matmul_shape&, dtype, dtype, const gpu::blas_product&, const void*, const void*, void*, bool,
                const matmul_epilogue&);
};
template <class Op>
struct device_for : gpu::device_kernels<declared_queue> {
  static constexpr bool host_memory = false;
#include "stubs.inc"
};

// The first cell that isn't refused.
template <class Op, int I = 0>
constexpr int legal = [] {
  constexpr int columns = Op::columns::count;
  static_assert(I < rows_of<Op> * columns, "an operator that refuses everything");
  if constexpr (why<Op, I / columns, I % columns> == nullptr)
    return I;
  else
    return legal<Op, I + 1>;
}();
template <class Op>
int ask_one() {
  return std::is_void_v<
      typename cell<Op, legal<Op> / Op::columns::count, legal<Op> % Op::columns::count, device_for<Op>>::output>;
}
template <class... Ops>
int ask(operators<Ops...>) {
  return (0 + ... + ask_one<Ops>());
}

int main() { return ask(one_operand{}) + ask(rotary{}) + ask(merging{}) + ask(conversions{}) + ask(two_operands{}); }

#elif !defined(WEFT_ASK)

// "missing.inc" has an entry for every operator and every kernel that the CUDA backend lacks for it.
struct lack {
  const char *op, *kernel;
};
constexpr lack missing[] = {
#include "missing.inc"
};

std::vector<std::string> sentences;  // of the table that is being printed
std::string note(const std::string& sentence) {
  for (std::size_t i = 0; i < sentences.size(); ++i)
    if (sentences[i] == sentence) return "(" + std::to_string(i + 1) + ")";
  sentences.push_back(sentence);
  return "(" + std::to_string(sentences.size()) + ")";
}
void notes() {
  if (!sentences.empty()) std::printf("\n");
  for (std::size_t i = 0; i < sentences.size(); ++i)
    std::printf("(%zu) %s%s\n", i + 1, sentences[i].c_str(), i + 1 < sentences.size() ? "  " : "");
  sentences.clear();
}

template <class Op, int I, int J>
std::string answer() {
  if constexpr (why<Op, I, J> != nullptr) {
    return note(why<Op, I, J>);
  } else {
    constexpr on_axis out = state_on<layout_of<typename cell<Op, I, J>::output>, axis_of<Op, I, J>>;
    return std::string(weft::name_of(out.kind)) + (out.kind == holds::shard ? " " + std::string(out.dim->name) : "");
  }
}

template <class... Ps>
void head(const char* corner, placements<Ps...>) {
  std::printf("| %s |", corner);
  (std::printf(" %s |", name_of(Ps{}).c_str()), ...);
  std::printf("\n|---|");
  for (std::size_t i = 0; i < sizeof...(Ps); ++i) std::printf("---|");
  std::printf("\n");
}
template <class Op, int I, int... Js>
std::string row(std::integer_sequence<int, Js...>) {
  std::string out;
  ((out += " " + answer<Op, I, Js>() + " |"), ...);
  return out;
}
// Operators of one operand: a row each, those with the same answers joined.
template <class Op, class... Ops>
void table(operators<Op, Ops...>) {
  head(Op::table, typename Op::columns{});
  std::vector<std::pair<std::string, std::string>> rows;  // answers, names
  const auto add = [&](const char* name, const std::string& answers) {
    for (auto& r : rows)
      if (r.first == answers) return void(r.second += std::string(", `") + name + "`");
    rows.emplace_back(answers, std::string("`") + name + "`");
  };
  add(Op::name, row<Op, 0>(std::make_integer_sequence<int, Op::columns::count>{}));
  (add(Ops::name, row<Ops, 0>(std::make_integer_sequence<int, Ops::columns::count>{})), ...);
  for (const auto& r : rows) std::printf("| %s |%s\n", r.second.c_str(), r.first.c_str());
  notes();
}
// Operators of two: a table each, a row for each placement of x; neighbours with the same table share it.
template <class Op, int... Is>
std::string rows(std::integer_sequence<int, Is...>) {
  std::string out;
  ((out += "| **" + name_of(typename at<typename Op::rows, Is>::type{}) + "** |" +
           row<Op, Is>(std::make_integer_sequence<int, Op::columns::count>{}) + "\n"),
   ...);
  return out;
}
template <class Op, class... Ops>
void tables(operators<Op, Ops...>, std::string names = "") {
  names += std::string("\n### `") + Op::name + "`\n";
  const std::string mine = rows<Op>(std::make_integer_sequence<int, Op::rows::count>{});
  const auto kept = std::exchange(sentences, {});
  if constexpr (sizeof...(Ops) > 0) {
    const bool same =
        []<class Next, class... Rest>(operators<Next, Rest...>, const std::string& own) {
          return rows<Next>(std::make_integer_sequence<int, Next::rows::count>{}) == own;
        }(operators<Ops...>{}, mine) &&
        sentences == kept;
    sentences.clear();
    if (same) return tables(operators<Ops...>{}, names);
  }
  std::printf("%s\n", names.c_str());
  head("x \\ y", typename Op::columns{});
  std::printf("%s", mine.c_str());
  sentences = kept;
  notes();
  if constexpr (sizeof...(Ops) > 0) tables(operators<Ops...>{});
}

// Backends: what is asked above is compiled for the CPU, or this program would not be here.
struct backend_row {
  std::string lacks, names;
};
template <class... Ops>
void add_backend_rows(std::vector<backend_row>& rows, operators<Ops...>) {
  const auto add = [&](const char* tag, const std::string& name) {
    std::string lacks;
    for (const lack& l : missing)
      if (l.op && std::strcmp(tag, l.op) == 0) lacks += std::string(lacks.empty() ? "" : ", ") + "`" + l.kernel + "`";
    for (backend_row& r : rows)
      if (r.lacks == lacks) return void(r.names += ", `" + name + "`");
    rows.push_back({lacks, "`" + name + "`"});
  };
  (add(Ops::tag, std::string(Ops::name).substr(0, std::string(Ops::name).find(": "))), ...);
}
void backend_table() {
  std::vector<backend_row> rows;
  add_backend_rows(rows, one_operand{}), add_backend_rows(rows, rotary{}), add_backend_rows(rows, merging{}),
      add_backend_rows(rows, conversions{}), add_backend_rows(rows, two_operands{});
  std::printf("| operators | `cpu_backend` | `cuda_backend` |\n|---|---|---|\n");
  for (const backend_row& r : rows)
    std::printf("| %s | yes | %s |\n", r.names.c_str(), r.lacks.empty() ? "compiles" : ("lacks " + r.lacks).c_str());
}

// Conversions: from every placement to every other, forward and backward; refused pairs by the same table that
// convert<> asks.
void conversion_table() {
  struct kind {
    const char* name;
    holds at;
  };
  const kind kinds[] = {{"invariant", holds::invariant},
                        {"replicate", holds::replicate},
                        {"partial", holds::partial},
                        {"shard d", holds::shard}};
  std::printf(
      "| from \\ to | invariant | replicate | partial | shard d | shard of another dimension "
      "|\n|---|---|---|---|---|---|\n");
  for (const kind& from : kinds) {
    std::printf("| **%s** |", from.name);
    const auto say = [&](holds to, bool same) {
      const movement there = forward_of(from.at, to, same), back = backward_of(from.at, to, same);
      if (there == movement::refused)
        std::printf(" refused |");
      else if (from.at == to && same)
        std::printf(" - |");
      else
        std::printf(" %s; %s |", std::string(weft::name_of(there)).c_str(), std::string(weft::name_of(back)).c_str());
    };
    for (const kind& to : kinds) say(to.at, true);
    say(holds::shard, false);
    std::printf("\n");
  }
}

int main() {
  std::printf("== backends\n");
  backend_table();
  std::printf("== one operand\n");
  table(one_operand{});
  std::printf("\n");
  table(rotary{});
  std::printf("\n");
  table(merging{});
  std::printf("== conversions\n");
  conversion_table();
  std::printf("\n");
  table(conversions{});
  std::printf("== two operands\n");
  tables(two_operands{});
}

#endif
