// expect: weft: a strategy's communicator lacks request all_gather(const void* in, void* out, std::int64_t bytes, const collective_label& = {})
// shows: in_communicator<mine>
#include <weft/weft.hpp>
using namespace weft;

struct mine {
  int rank() const;
  int size() const;
  request all_reduce(const void*, void*, std::int64_t, dtype, reduction, const collective_label& = {});
#ifdef WRONG
  request allgather(const void*, void*, std::int64_t, const collective_label& = {});
#else
  request all_gather(const void*, void*, std::int64_t, const collective_label& = {});
#endif
  request reduce_scatter(const void*, void*, std::int64_t, dtype, reduction, const collective_label& = {});
  request all_to_all(const void*, void*, std::int64_t, const collective_label& = {});
  request broadcast(void*, std::int64_t, int, const collective_label& = {});
  request send(const void*, std::int64_t, int, const collective_label& = {});
  request recv(void*, std::int64_t, int, const collective_label& = {});
  request barrier(const collective_label& = {});
  mine split(int, int, const char*);
  template <class F>
  static void launch(int, F&&) {}
};
static_assert(detail::check_communicator<strategy<mesh<dp>, mine>::communicator>());
