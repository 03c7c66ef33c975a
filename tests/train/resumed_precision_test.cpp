// Runs that go on under another precision: weights and moments are rounded once, to the type that they are then kept
// in.
#include "resumed.hpp"

using namespace weft;

namespace {

constexpr degrees narrow_ranks{.dp = 3}, wide_ranks{.dp = 2, .pp = 2};
constexpr auto narrow = weft_test::resumed_losses<strategy<mesh<dp>, fp32, zero3>>;
constexpr auto wide = weft_test::resumed_losses<strategy<mesh<dp, pp>, fp64, zero1, interleaved<2>>>;
constexpr int saved_at = weft_test::saved_at, run_to = weft_test::run_to;

template <class T>
T number_at(const mapped_tensor& t, std::size_t i) {
  T out;
  std::memcpy(&out, t.data + i * sizeof out, sizeof out);
  return out;
}

}  // namespace

TEST_CASE("what fp32 saved goes through fp64 without the loss of a bit") {
  const weft_test::temporary_folder here;
  const auto unbroken = narrow(narrow_ranks, "", 0, run_to, "");
  narrow(narrow_ranks, "", 0, saved_at, here / "narrow");
  wide(wide_ranks, here / "narrow", saved_at, saved_at, here / "wide");
  CHECK(narrow(narrow_ranks, here / "wide", saved_at, run_to, "") ==
        std::vector(unbroken.begin() + saved_at, unbroken.end()));
}

TEST_CASE("what fp64 saved goes on under fp32, rounded once") {
  const weft_test::temporary_folder here;
  const auto unbroken = wide(wide_ranks, "", 0, run_to, "");
  wide(wide_ranks, "", 0, saved_at, here / "wide");
  const auto rest = narrow(narrow_ranks, here / "wide", saved_at, run_to, "");
  REQUIRE(rest.size() == run_to - saved_at);
  for (std::size_t i = 0; i < rest.size(); ++i)  // some hundred roundings of 6e-8, which ten updates carry on
    CHECK(rest[i] == doctest::Approx(unbroken[i + saved_at]).epsilon(1e-4));
  narrow(narrow_ranks, here / "wide", saved_at, saved_at, here / "narrow");
  const safetensors before(here / "wide/state.safetensors"), behind(here / "narrow/state.safetensors");
  REQUIRE(before.tensors().size() == behind.tensors().size());
  std::size_t moments = 0;
  for (const auto& [name, wide_tensor] : before.tensors()) {
    const std::string tensor(name);
    CAPTURE(tensor);
    const mapped_tensor* const narrow_tensor = behind.find(name);
    REQUIRE(narrow_tensor);
    REQUIRE(wide_tensor.entry->type->name == "F64");
    REQUIRE(narrow_tensor->entry->type->name == "F32");
    const std::size_t numbers = (narrow_tensor->entry->end - narrow_tensor->entry->begin) / sizeof(float);
    bool same = numbers > 0;
    for (std::size_t i = 0; i < numbers; ++i)
      same = same && number_at<float>(*narrow_tensor, i) == static_cast<float>(number_at<double>(wide_tensor, i));
    CHECK(same);
    moments += !name.starts_with("weights/");
  }
  CHECK(moments == before.tensors().size() / 3 * 2);
}
