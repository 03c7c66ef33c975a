// How much of a large sample a test runs: all of it, or one in WEFT_TEST_SAMPLE (an environment variable; the
// sanitizer builds set it, being some ten times slower). Invariant: at least one case is always left.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace weft_test {

/// Sanitizers make a program of many instantiations slow to compile, too: such tests leave some out.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__clang__)
inline constexpr bool sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool sanitized = false;
#endif

/// Whether it is AddressSanitizer: what no address can decide, others judge.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool addresses_sanitized = true;
#elif defined(__clang__)
inline constexpr bool addresses_sanitized = __has_feature(address_sanitizer);
#else
inline constexpr bool addresses_sanitized = false;
#endif

/// The divisor: 1 unless WEFT_TEST_SAMPLE says more. As a loop's stride it visits every n-th case.
inline int sample_stride() {
  const char* text = std::getenv("WEFT_TEST_SAMPLE");
  const int value = text ? std::atoi(text) : 1;
  return value > 1 ? value : 1;
}

/// How many of `full` cases to run, rounded up.
inline int sampled(int full) { return (full + sample_stride() - 1) / sample_stride(); }

/// Which of some cases to try: every n-th, counted from the last.
template <class T>
std::vector<T> sampled_cases(std::initializer_list<T> all) {
  std::vector<T> out;
  for (auto i = static_cast<std::ptrdiff_t>(all.size()) - 1; i >= 0; i -= sample_stride())
    out.push_back(all.begin()[i]);
  return out;
}

/// Whether all is asked for (tests/run.sh --all), what is exhaustive too.
inline bool everything() {
  const char* text = std::getenv("WEFT_TEST_ALL");
  return text && std::string_view(text) == "yes";
}

/// The numbers of ranks to try, in rising order: three, where it is among them, and, but under a sanitizer, the most;
/// all where all is asked for.
inline std::vector<int> sampled_ranks(std::initializer_list<int> all) {
  const int most = *(all.end() - 1);
  const bool three = std::find(all.begin(), all.end(), 3) != all.end();
  std::vector<int> out;
  for (const int ranks : all)
    if (everything() || ranks == 3 || (ranks == most && !(sanitized && three))) out.push_back(ranks);
  return out;
}

}  // namespace weft_test
