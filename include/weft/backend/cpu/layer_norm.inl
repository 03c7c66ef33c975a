// LayerNorm of one target. Included once per target by layer_norm.hpp.

/// Of a row: (x - mean) * r. The mean is what it is rounded to, and the rest, which is taken away as rest * r: x - mean
/// loses nothing that way.
template <class A>
struct centre {
  A mean, shift, r;
  centre(A rounded, A rest, A rstd) : mean(rounded), shift(-rest * rstd), r(rstd) {}
  template <class V>
  WEFT_INLINE V operator()(V x) const {
    return fma(x - mean, splat(r), splat(shift));
  }
};

/// Sum and squares of x - about.
template <class T>
WEFT_INLINE two<accumulate_t<T>> distances(std::int64_t n, const T* x, accumulate_t<T> about) {
  return sums_of<T>(n, [=](auto sum, std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    const auto d = keep(get(x + i, count) - about, count, accumulate_t<T>(0));
    sum.first += d;
    sum.second = fma(d, d, sum.second);
    return sum;
  });
}

template <class T>
inline void layer_norm_rows(std::int64_t rows, std::int64_t n, double eps, const T* x, const T* weight, const T* bias,
                            T* y, double* mean, accumulate_t<T>* rstd) {
  typedef accumulate_t<T> A;
  const double share = 1 / static_cast<double>(n);
  const std::int64_t few = n < 64 ? n : 64;
  for (std::int64_t row = 0; row < rows; ++row, x += n, y += n) {
    A about = sum_of<T>(few, [=](auto sum, std::int64_t i, auto count)
                                 WEFT_INLINE_LAMBDA { return sum + get(x + i, count); }) /
              static_cast<A>(few);  // which is near the mean of all, mostly
    auto sums = distances(n, x, about);
    double off = static_cast<double>(sums.first) * share;  // of the mean, from `about`
    if (!(2 * off * off <=
          static_cast<double>(sums.second) * share)) {  // what is taken away would leave too few digits
      about = static_cast<A>(static_cast<double>(about) + off);
      sums = distances(n, x, about);
      off = static_cast<double>(sums.first) * share;
    }
    const double m = static_cast<double>(about) + off, variance = static_cast<double>(sums.second) * share - off * off;
    const A r = static_cast<A>(1 / std::sqrt((variance < 0 ? 0 : variance) + eps));
    const A rounded_mean = static_cast<A>(m);
    const centre<A> u{rounded_mean, static_cast<A>(m - static_cast<double>(rounded_mean)), r};
    sweep<T>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
      set(y + i, fma(u(get(x + i, count)), get(weight + i, count), get(bias + i, count)), count);
    });
    if (mean) mean[row] = m;
    if (rstd) rstd[row] = r;
  }
}

/// weight_part += dy * u, bias_part += dy, and, unless dx is null, as weight then may be, dx (+)= r * (g - mean(g) - u
/// * mean(g * u)), where u = (x - mean) * r and g = w*dy, rounded: g of one column is its own mean, and dx then 0.
template <class T>
inline void layer_norm_row_backward(std::int64_t n, const T* x, const T* weight, const T* dy, accumulate_t<T> mean,
                                    accumulate_t<T> rest, accumulate_t<T> r, accumulate_t<T>* weight_part,
                                    accumulate_t<T>* bias_part, T* dx, bool add) {
  typedef accumulate_t<T> A;
  const centre<A> centred{mean, rest, r};
  if (!dx) {
    sweep<T>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
      const auto d = get(dy + i, count);
      put(weight_part + i, d * centred(get(x + i, count)), true, count);
      put(bias_part + i, d, true, count);
    });
    return;
  }
  const auto sums = sums_of<T>(n, [=](auto so_far, std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    const auto d = get(dy + i, count), u = centred(get(x + i, count)), g = rounded(get(weight + i, count) * d);
    put(weight_part + i, d * u, true, count);
    put(bias_part + i, d, true, count);
    so_far.first += g;
    so_far.second = fma(g, u, so_far.second);
    return so_far;
  });
  const A mean_g = sums.first / static_cast<A>(n), mean_gu = sums.second / static_cast<A>(n);
  sweep<T>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    const auto g = rounded(get(weight + i, count) * get(dy + i, count));
    put(dx + i, r * (g - mean_g - centred(get(x + i, count)) * mean_gu), add, count);
  });
}
