// Functions that are linked: those of the library that are no templates and do more than hand on. They begin with
// WEFT_LINKED in place of `inline`, and are compiled in every program that calls them, or with WEFT_COMPILED once, in
// the library weft::compiled, of which a program then reads their bodies and compiles none.
// Invariant: linked or compiled in place, it is the same function.
#pragma once

#include <weft/core/requirements.hpp>

#if defined(WEFT_COMPILES_LINKED)  // in weft::compiled: there, called or not
#define WEFT_LINKED [[gnu::noinline, gnu::used]] inline
#elif !defined(WEFT_COMPILED) || defined(__CUDACC__)
#define WEFT_LINKED [[gnu::noinline]] inline
#elif defined(__clang__)  // gnu_inline: somebody else compiles it; and nothing is to be known of its body
#pragma clang diagnostic ignored "-Wgnu-inline-cpp-without-extern"
#define WEFT_LINKED [[gnu::gnu_inline, gnu::noinline, clang::optnone]] inline
#else  // g++ takes no noinline beside it
#define WEFT_LINKED [[gnu::gnu_inline, gnu::optimize("O0")]] inline
#endif
