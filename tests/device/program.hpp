// What PTX is read into: kernels as arrays of instructions, each decoded once to a function that runs it for a warp.
// Invariant: a decoded instruction is never changed by running it, so that one kernel may be launched any number of
// times.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace device {

inline constexpr int lanes = 32;
inline constexpr std::uint32_t all_lanes = 0xffffffffu;

/// What this device can't do, or a program that is none: the message names it.
struct refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Types of PTX, and how many bytes they have. `b` is bits of no kind.
enum class kind : std::uint8_t { none, predicate, b, u, s, bf16, f16, bf16x2, f16x2, floating };
struct type {
  kind is = kind::none;
  std::uint8_t bytes = 0;
  friend bool operator==(const type&, const type&) = default;
};
/// `u32`, `f64`, `bf16x2`...; kind::none for a word that is no type.
type type_called(std::string_view word);

enum class space : std::uint8_t { generic, global, shared, local, parameter };

/// What an instruction reads or writes.
struct operand {
  enum class form : std::uint8_t { nothing, in_register, number, special, local_address, list, memory };
  form is = form::nothing;
  std::uint8_t bytes = 0;    // a register's, 0 for a predicate
  bool negated = false;      // !%p1
  std::uint32_t at = 0;      // a register's place in a warp's registers, or which special register
  std::int64_t value = 0;    // a number, or what is added to an address
  std::vector<operand> all;  // of a list; of memory, the base
};

/// A place in the source, and where what stands there was called from.
struct place {
  int file = 0, line = 0, column = 0;
  int called_from = -1;  // another place of the kernel
};

struct warp_view;
struct instruction;
using step = void (*)(warp_view&, const instruction&);

/// Who has to be there before it runs.
enum class flow : std::uint8_t { plain, branch, end, warp, barrier };

struct instruction {
  step run = nullptr;
  flow goes = flow::plain;
  type of, from;  // its type; the other one of a conversion and of a matrix product
  space in = space::generic;
  std::uint8_t vector = 1, choice = 0, second_choice = 0, rounding = 0;
  bool saturates = false, aligned = false, flushes = false;
  int predicate = -1;  // its place among the registers
  bool predicate_negated = false;
  int target = -1;  // of a branch
  int number = 0;   // groups that are left pending, the number of a barrier, columns of a product
  std::vector<operand> operands;
  int place = -1;
  std::string text;
};

struct parameter {
  std::string name;
  std::uint32_t at = 0, bytes = 0;
};

struct kernel {
  std::string name;
  std::vector<parameter> parameters;
  std::uint32_t parameter_bytes = 0;
  std::vector<instruction> code;
  std::vector<place> places;
  std::uint32_t register_bytes = 0, local_bytes = 0, shared_bytes = 0;  // shared: static, where the dynamic part begins
  int most_threads = 1024;
};

/// A variable of a module.
struct variable {
  space in = space::global;
  std::uint32_t align = 1;
  std::uint64_t bytes = 0;
  bool elsewhere = false;  // .extern: dynamic shared memory
  std::vector<std::uint8_t> first;
  std::uint64_t address = 0;
};

/// Where variables of modules get their memory.
struct variable_memory {
  virtual ~variable_memory() = default;
  virtual std::uint64_t hold(const variable& v) = 0;
};

/// The PTX of one unit. Kernels are read when they are asked for: of many a program runs a few.
class ptx_unit {
 public:
  ptx_unit(std::string text, variable_memory& memory);
  /// Throws `refused` where there is none of that name, or an instruction in it that isn't known.
  const kernel& find(const std::string& name);
  std::vector<std::string> names() const;
  const std::string& file(int number) const;
  /// Is given each kernel once, before it runs: tests of tests change them.
  std::function<void(kernel&)> change;

 private:
  struct body {
    std::string_view text;
    int line;
  };
  void read_outside(std::string_view text);
  void read_variable(std::string_view statement);

  std::string text_;
  variable_memory& memory_;
  std::map<std::string, body, std::less<>> bodies_;
  std::map<std::string, std::string_view, std::less<>> functions_;
  std::map<std::string, std::unique_ptr<kernel>, std::less<>> kernels_;
  std::map<std::string, variable, std::less<>> variables_;
  std::map<int, std::string> files_;
};

/// What a kernel's text may name: variables of its unit, and functions, each from its .func on.
struct unit_names {
  const std::map<std::string, variable, std::less<>>& variables;
  const std::map<std::string, std::string_view, std::less<>>& functions;
};
/// Reads a kernel from its parameters' parenthesis on. What it calls becomes a part of it.
kernel read_kernel(const std::string& name, std::string_view text, const unit_names& known);

/// Decodes `words`, an opcode at its points, into `in`, whose operands are there already. False: not known.
bool decode(instruction& in, const std::vector<std::string_view>& words);

}  // namespace device
