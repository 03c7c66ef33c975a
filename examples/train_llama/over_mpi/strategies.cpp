// The strategies of train_llama_mpi, whose ranks are processes: every sharding and precision, without recomputation.
#include <weft/comm/mpi.hpp>

#include "../run_with.hpp"

namespace train_llama {
namespace {

template <class Precision, class... Sharding>
std::vector<choice> over_mpi() {
  using namespace weft;
  const auto one = []<class S>() { return choice{strategy_name<S>(), run_with<S>}; };
  return {one.template operator()<strategy<mesh<dp, pp, tp>, Sharding, Precision, mpi>>()...};
}
template <class Precision>
std::vector<choice> all_shardings() {
  return over_mpi<Precision, weft::zero3, weft::zero2, weft::zero1, weft::replicated>();
}

}  // namespace

std::vector<choice> bf16_strategies() { return all_shardings<weft::bf16_mixed>(); }
std::vector<choice> fp32_strategies() { return all_shardings<weft::fp32>(); }

started_as this_process() {
  return {"train_llama_mpi", "processes that mpirun starts", "cpu", weft::mpi::process_rank()};
}

}  // namespace train_llama
