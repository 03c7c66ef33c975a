// Data and tensor parallelism with replicated storage.
#include "parallel/equals_serial.hpp"

namespace {
using namespace weft;
template <class P> using plain = strategy<mesh<dp, tp>, P, replicated>;
template <class P> using recomputed = strategy<mesh<dp, tp>, P, replicated, checkpoint_full>;
}  // namespace

TEST_CASE("replicated equals one rank") { weft_test::check_meshes<plain>(); }
TEST_CASE("replicated with full recomputation equals one rank") { weft_test::check_meshes<recomputed>(); }
