// expect: weft: a
// expect 1: weft: a strategy's communicator lacks request post(const comm_call&)
// expect 2: weft: a strategy's communicator derives from comm_operations<itself>, publicly: class mine : public comm_operations<mine>
// expect 3: weft: a strategy's communicator can't be copied
// expect 4: weft: a communicator's launch(ranks, f) calls f with an lvalue of its own type, not const
// expect 5: weft: a strategy's communicator lacks its own split(int color, int key, const char* name)
#include <weft/weft.hpp>
using namespace weft;

#if defined(WRONG) && WRONG == 2
struct mine {
#else
struct mine : comm_operations<mine> {
#endif
#if defined(WRONG) && WRONG == 3
  mine() = default;
  mine(mine&&) = default;
#endif
  int rank() const;
  int size() const;
#ifdef WRONG
#if WRONG == 1
  void post(const comm_call&);
#else
  request post(const comm_call&);
#endif
#else
  request post(const comm_call&);
#endif
#if defined(WRONG) && WRONG == 5
  comm_operations<mine> split(int, int, const char*);
#else
  mine split(int, int, const char*);
#endif
  template <class F>
  static void launch(int, F&& f) {
#if defined(WRONG) && WRONG == 4
    const mine own;
#else
    mine own;
#endif
    f(own);
  }
};
void program() {
  launch<strategy<mesh<dp>, mine>>({}, [](context&) {});
}
