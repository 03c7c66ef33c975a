// Data and tensor parallelism with sharded storage.
#include "parallel/equals_serial.hpp"

namespace {
using namespace weft;
template <class P> using plain = strategy<mesh<dp, tp>, P, zero3>;
template <class P> using recomputed = strategy<mesh<dp, tp>, P, zero3, checkpoint_full>;
}  // namespace

TEST_CASE("zero3 equals one rank") { weft_test::check_meshes<plain>(); }
TEST_CASE("zero3 with full recomputation equals one rank") { weft_test::check_meshes<recomputed>(); }
