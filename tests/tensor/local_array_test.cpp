// Shapes, arrays, and the shared ownership of slots.
#include <doctest/doctest.h>

#include <weft/parallel/launch.hpp>

namespace {

using weft::dtype;
using weft::local_array;
using weft::memory;
using weft::shape;

shape sizes(std::initializer_list<std::int64_t> extents) {
  shape s;
  for (auto n : extents) s.push_back(n);
  return s;
}

TEST_CASE("a shape multiplies its extents, all or a range of them") {
  const shape s = sizes({2, 3, 4});
  CHECK(s.ndim == 3);
  CHECK(s.elements() == 24);
  CHECK(s.elements(1) == 12);
  CHECK(s.elements(0, 2) == 6);
  CHECK(s.elements(2, 2) == 1);
  CHECK(s.elements(3) == 1);
  CHECK(shape{}.elements() == 1);
  CHECK(s == sizes({2, 3, 4}));
  CHECK(!(s == sizes({2, 3})));
  CHECK(!(s == sizes({2, 3, 5})));
}

TEST_CASE("an array takes what it needs, in its category, and shares it when copied or reshaped") {
  weft::arena from;
  {
    const local_array x(from, dtype::bf16, sizes({10, 10}), memory::parameters);
    CHECK(x.elements() == 100);
    CHECK(x.bytes() == 200);
    CHECK(from.ledger().current[0] == 256);
    const local_array y = x.reshaped(sizes({4, 25}));
    CHECK(y.data == x.data);
    CHECK(y.shape == sizes({4, 25}));
    CHECK(!x.buffer.unique());
    CHECK(from.ledger().total == 256);
  }
  CHECK(from.ledger().total == 0);
}

TEST_CASE("an array that was moved from has no memory") {
  weft::arena from;
  local_array x(from, dtype::f32, sizes({4}), memory::activations), z;
  void* const at = x.data;
  local_array y = std::move(x);
  CHECK(!x);
  CHECK(y.data == at);
  z = std::move(y);
  CHECK(!y);
  CHECK(z.data == at);
  local_array& same = z;
  z = std::move(same);
  CHECK(z.data == at);
  CHECK(z.buffer.unique());
}

TEST_CASE("a view of somebody's memory owns nothing") {
  double numbers[6] = {};
  const local_array x(numbers, dtype::f64, sizes({6}));
  CHECK(static_cast<bool>(x));
  CHECK(!x.buffer);
  x.as<double>()[5] = 7;
  CHECK(numbers[5] == 7);
  CHECK(!local_array());
}

struct counted {
  static inline int alive = 0;
  int references = 0;
  counted() { ++alive; }
  ~counted() { --alive; }
  void end() { delete this; }
};

TEST_CASE("a ref ends its object with the last of its copies") {
  {
    weft::ref<counted> a(new counted), b = a, c;
    CHECK(a == b);
    c = std::move(a);
    CHECK(!a);
    b = {};
    CHECK(counted::alive == 1);
    const auto& itself = c;
    c = itself;
    CHECK(counted::alive == 1);
  }
  CHECK(counted::alive == 0);
}

TEST_CASE("a value reads through its slot where its memory moves") {
  weft::launch<weft::strategy<weft::mesh<>>>({}, [](weft::context& ctx) {
    float here[2] = {1, 2}, there[2] = {3, 4};
    local_array moving(here, dtype::f32, sizes({2}));
    weft::value v{&ctx, moving.shape, moving, weft::ref<weft::slot>(new weft::slot)};
    CHECK(v.held().as<float>()[0] == 1);
    v.slot->live = weft::ref<weft::weight_place>(new weft::weight_place);
    v.slot->live->at = moving;
    v.slot->live->at.data = there;
    CHECK(v.held().as<float>()[0] == 3);
  });
}

}  // namespace
