// What shares ownership lets go when it is assigned to, whoever compiled it: `x = {}` in a template too, where clang 14
// doesn't destroy an argument that is taken by value, if x's type doesn't depend on the template's.
#include <doctest/doctest.h>

#include <weft/memory/arena.hpp>
#include <weft/tensor/value.hpp>

namespace {
using namespace weft;

struct counted {
  int references = 0;
  bool* ended;
  void end() { *ended = true; }
};
template <class>
void let_go_by_braces(const ref<counted>& other) {
  ref<counted> own = other;
  own = {};
}
template <class>
void let_go_by_braces(const arena::handle& other) {
  arena::handle own = other;
  own = {};
}
template <class Owner>
void assign_in_every_way(const Owner& other) {
  Owner a = other, b, c;
  b = a;
  c = std::move(a);
  b = c;
  Owner& same = c;
  c = same;
  c = std::move(same);
  CHECK(bool(c));
  b = Owner();
  CHECK_FALSE(bool(b));
}
}  // namespace

TEST_CASE("a ref lets go of what it had, however it is assigned to") {
  bool ended = false;
  counted one{.ended = &ended};
  {
    const ref<counted> held(&one);
    let_go_by_braces<int>(held);
    CHECK(one.references == 1);
    assign_in_every_way(held);
    CHECK(one.references == 1);
  }
  CHECK(ended);
}

TEST_CASE("a handle of memory lets go of its block, however it is assigned to") {
  arena memory;
  const auto held = memory.allocate(64, weft::memory::activations);
  let_go_by_braces<int>(held);
  CHECK(held.unique());
  assign_in_every_way(held);
  CHECK(held.unique());
}
