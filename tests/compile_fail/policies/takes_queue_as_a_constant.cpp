// expect: weft: a communicator's takes_queue is a function: bool takes_queue(const queue_ref&) const
#include <weft/weft.hpp>
using namespace weft;

struct on_a_device : comm_operations<on_a_device> {
#ifdef WRONG
  static constexpr bool takes_queue = true;
#else
  bool takes_queue(const queue_ref&) const;
#endif
  int rank() const;
  int size() const;
  request post(const comm_call&);
  on_a_device split(int, int, const char*);
};

any_communicator program(const on_a_device& c) { return any_communicator(c); }
