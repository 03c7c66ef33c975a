// What the library asks of the compiler, its options and its target: one sentence each, which says what to do instead.
// Headers that include no other of the library's include this one, so it is read before any of them. Invariant: what is
// refused would not compile, or would silently compute something else; what docs/using.md lists is accepted.
#pragma once

#if defined(_MSC_VER)
#error "weft: MSVC's dialect is not supported: on Windows use g++ 12 or later from MinGW-w64"
#elif defined(__clang__) && __clang_major__ < 14
#error "weft: this clang is older than 14: use clang 14 or later, or g++ 12 or later"
#elif !defined(__clang__) && (!defined(__GNUC__) || __GNUC__ < 12)
#error "weft: this compiler is neither g++ 12 or later nor clang 14 or later: choose one, for example CXX=g++-12"
#elif __cplusplus < 202002L
#error "weft: this is not C++20: compile with -std=c++20"
#elif !defined(__cpp_exceptions)
#error "weft: errors are thrown: compile without -fno-exceptions"

#elif !defined(__SIZEOF_POINTER__) || __SIZEOF_POINTER__ != 8
#error "weft: this target has no 64-bit addresses: compile for x86-64 or aarch64, without -m32 and -mx32"
#elif !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "weft: this target is big-endian: compile for x86-64 or aarch64"
#elif !defined(__linux__) && !defined(__MINGW32__) && !defined(WEFT_UNTESTED_PLATFORM)
#error "weft: tested on Linux and Windows, not on this system (macOS: compiled only): -DWEFT_UNTESTED_PLATFORM tries it"
#elif !defined(__x86_64__) && !defined(__aarch64__) && !defined(WEFT_UNTESTED_PLATFORM)
#error "weft: tested on x86-64 and aarch64, not on this processor: -DWEFT_UNTESTED_PLATFORM tries it"

// Kernels rely on the order of additions, on NaN and on the width of float. Clang says nothing of -fassociative-math
// and its like: each_target.inl makes kernels immune.
#elif defined(__FAST_MATH__)
#error "weft: -ffast-math and -Ofast silently change what kernels compute: compile with -O2 or -O3 alone"
#elif defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "weft: -ffinite-math-only hides NaN from all that looks for it: compile without"
#elif defined(__ASSOCIATIVE_MATH__)
#error "weft: -fassociative-math and -funsafe-math-optimizations silently change what kernels compute: compile without"
#elif defined(__FLT_EVAL_METHOD__) && (__FLT_EVAL_METHOD__ == 1 || __FLT_EVAL_METHOD__ == 2)
#error "weft: a float is computed in a wider type here (x87): compile without -mfpmath=387"
#else
#include <version>  // says which standard library this is
#if defined(_GLIBCXX_RELEASE) && _GLIBCXX_RELEASE < 12
#error "weft: this libstdc++ is older than g++ 12's: install libstdc++-12-dev or later, or compile with -stdlib=libc++"
#elif defined(_GLIBCXX_RELEASE) && !defined(_GLIBCXX_HAS_GTHREADS)
#error "weft: this libstdc++ has no threads: use MinGW-w64 with posix threads, x86_64-w64-mingw32-g++-posix on Debian"
#elif defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 14000
#error "weft: this libc++ is older than 14: install libc++-14-dev or later, or compile with -stdlib=libstdc++"
#else
#define WEFT_DETAIL_SUPPORTED
#endif
#endif

#if !defined(WEFT_DETAIL_SUPPORTED)
#include <see the sentence above>  // isn't there, which ends the compilation: nothing else is said
#endif
