// expect: weft: a communicator's
// expect 1: weft: a communicator's joins_graphs is a static constant: write static constexpr bool joins_graphs = true;
// expect 2: weft: a communicator's reduces_in_rank_order is a static constant: write static constexpr bool reduces_in_rank_order = false;
#include <weft/weft.hpp>
using namespace weft;

struct mine : comm_operations<mine> {
#ifdef WRONG
#if WRONG == 1
  static constexpr bool joins_graphs() { return false; }
#elif WRONG == 2
  bool reduces_in_rank_order = false;
#endif
#else
  static constexpr bool joins_graphs = false, reduces_in_rank_order = false;
#endif
  int rank() const;
  int size() const;
  request post(const comm_call&);
  mine split(int, int, const char*);
};

bool program() { return joins_graphs<mine> || reduces_in_rank_order<mine>; }
