// expect: weft: this optimizer takes matrices of a layer, and this tensor is a table (it has vocab, seq or batch) or a vector: take adamw for it
#include <weft/weft.hpp>
using namespace weft;

using table = tensor<float, dims<vocab, hidden>>;
using matrix = tensor<float, dims<ffn, hidden>>;

void program(table& t, const table& of_table, matrix& m, const matrix& of_matrix, optimizer_state& state) {
#ifdef WRONG
  optimizer_update(t, of_table, state, muon{});
  (void)m, (void)of_matrix;
#else
  optimizer_update(m, of_matrix, state, muon{});
  optimizer_update(t, of_table, state, adamw{});
#endif
}
