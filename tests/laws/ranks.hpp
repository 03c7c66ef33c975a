// The laws of weft/testing/ as doctest says them. What needs no types is compiled once, in ranks_test.cpp.
#pragma once

#include <weft/testing/problem.hpp>

namespace laws {

using namespace weft::testing;  // NOLINT: test code, read beside the library

/// Runs `body` on every rank of a dp x tp mesh of threads, recording.
void on_ranks(const weft::degrees& mesh, const std::function<void(weft::context&)>& body);

/// Fails the test with each disagreement of the problem; takes the sample of meshes that sample.hpp says.
void differences_agree(problem p);

}  // namespace laws
