// What the kernels of a formula of elements do, as text for the host and for a device, WEFT_DETAIL_SIDE being how their
// functions are marked. Invariant: they have all that they read and write by value.

/// y = f(x...), of one element.
template <class F, class Out>
struct formula_value {
  F f;
  Out* y;

  template <class... Ts>
  WEFT_DETAIL_SIDE void operator()(std::int64_t i, const Ts&... x) const {
    y[i] = static_cast<Out>(f.forward(number_from(x)...));
  }
};
/// The gradients of those operands whose `to` isn't null.
template <vjp_form Form, class F, class Floating, class Out, std::size_t Inputs>
struct formula_gradient {
  F f;
  const Floating* dy;
  const Out* y;
  std::array<Floating*, Inputs> to;

  template <class... Ts>
  WEFT_DETAIL_SIDE void operator()(std::int64_t i, const Ts&... x) const {
    if constexpr (Form == vjp_form::of_all)
      put(i, as_gradients(f.vjp(number_from(dy[i]), number_from(x)..., number_from(y[i]))));
    else
      put(i, as_gradients(f.vjp(number_from(dy[i]), number_from(x)...)));
  }

 private:
  template <class N>
  WEFT_DETAIL_SIDE void put(std::int64_t i, const std::array<N, Inputs>& gradients) const {
    for (std::size_t k = 0; k < Inputs; ++k)
      if (to[k]) to[k][i] = static_cast<Floating>(gradients[k]);
  }
};
/// body(index in the output, elements of the operands) over a run of elements; the output's offsets come last.
/// Pointers: a std::tuple of the operands'.
template <class Body, class Pointers>
struct formula_run {
  static constexpr std::size_t count = std::tuple_size_v<Pointers>;
  using offsets = std::array<std::int64_t, count + 1>;
  Body body;
  Pointers from;

  WEFT_DETAIL_SIDE void operator()(std::int64_t n, const offsets& begin, const offsets& stride) const {
    bool dense = true;
    for (const std::int64_t s : stride) dense = dense && s == 1;
    if (dense)
      go(n, begin, dense_stride(), std::make_index_sequence<count>{});
    else
      go(n, begin, stride, std::make_index_sequence<count>{});
  }

 private:
  struct dense_stride {
    constexpr std::int64_t operator[](std::size_t) const { return 1; }
  };
  template <class Stride, std::size_t... K>
  WEFT_DETAIL_SIDE void go(std::int64_t n, const offsets& begin, const Stride& stride,
                           std::index_sequence<K...>) const {
    for (std::int64_t i = 0; i < n; ++i)
      body(begin[count] + i * stride[count], std::get<K>(from)[begin[K] + i * stride[K]]...);
  }
};
