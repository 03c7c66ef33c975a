#include "special.hpp"

#include <algorithm>

#include "machine.hpp"

namespace device {
namespace {

std::uint32_t thread_of(const warp_view& v, int lane) {
  return static_cast<std::uint32_t>(v.own->number * lanes + lane);
}
std::uint32_t bit_of(int lane) { return 1u << lane; }

struct named {
  std::string_view name;
  std::uint32_t (*value)(const warp_view&, int lane);
};
constexpr named all[] = {
    {"%tid.x", [](const warp_view& v, int l) { return thread_of(v, l) % v.shape.block.x; }},
    {"%tid.y", [](const warp_view& v, int l) { return thread_of(v, l) / v.shape.block.x % v.shape.block.y; }},
    {"%tid.z", [](const warp_view& v, int l) { return thread_of(v, l) / v.shape.block.x / v.shape.block.y; }},
    {"%ntid.x", [](const warp_view& v, int) { return v.shape.block.x; }},
    {"%ntid.y", [](const warp_view& v, int) { return v.shape.block.y; }},
    {"%ntid.z", [](const warp_view& v, int) { return v.shape.block.z; }},
    {"%ctaid.x", [](const warp_view& v, int) { return v.in->index.x; }},
    {"%ctaid.y", [](const warp_view& v, int) { return v.in->index.y; }},
    {"%ctaid.z", [](const warp_view& v, int) { return v.in->index.z; }},
    {"%nctaid.x", [](const warp_view& v, int) { return v.shape.grid.x; }},
    {"%nctaid.y", [](const warp_view& v, int) { return v.shape.grid.y; }},
    {"%nctaid.z", [](const warp_view& v, int) { return v.shape.grid.z; }},
    {"%laneid", [](const warp_view&, int l) { return static_cast<std::uint32_t>(l); }},
    {"%warpid", [](const warp_view& v, int) { return static_cast<std::uint32_t>(v.own->number); }},
    {"%lanemask_eq", [](const warp_view&, int l) { return bit_of(l); }},
    {"%lanemask_lt", [](const warp_view&, int l) { return bit_of(l) - 1; }},
    {"%lanemask_le", [](const warp_view&, int l) { return bit_of(l) | (bit_of(l) - 1); }},
    {"%lanemask_gt", [](const warp_view&, int l) { return ~(bit_of(l) | (bit_of(l) - 1)); }},
    {"%lanemask_ge", [](const warp_view&, int l) { return ~(bit_of(l) - 1); }}};

}  // namespace

int special_called(std::string_view name) {
  const named* const at = std::find_if(std::begin(all), std::end(all), [&](const named& n) { return n.name == name; });
  return at == std::end(all) ? -1 : static_cast<int>(at - all);
}
std::uint32_t special_value(const warp_view& v, std::uint32_t which, int lane) { return all[which].value(v, lane); }

}  // namespace device
