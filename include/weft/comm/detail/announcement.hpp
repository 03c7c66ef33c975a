// What the ranks of a checked communicator tell each other, as text: a call, a search along those who wait, and that a
// rank leaves. Invariant: all ranks are one program on machines of one kind, so numbers go as their bytes.
#pragma once

#include <compare>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "weft/comm/call.hpp"
#include "weft/comm/detail/hash.hpp"

namespace weft::detail {

class text_writer {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T> text_writer& add(const T& x) {
    text_.append(reinterpret_cast<const char*>(&x), sizeof x);
    return *this;
  }
  text_writer& add(const std::string& x) {
    add(static_cast<std::uint32_t>(x.size()));
    text_ += x;
    return *this;
  }
  template <class T>
  text_writer& add(const std::vector<T>& all) {
    add(static_cast<std::uint32_t>(all.size()));
    for (const T& x : all) add(x);
    return *this;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// Reads what a text_writer wrote, in its order.
class text_reader {
 public:
  explicit text_reader(std::string_view text) : left_(text) {}
  template <class T>
  T get() {
    T x{};
    get(x);
    return x;
  }
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void get(T& x) { std::memcpy(static_cast<void*>(&x), cut(sizeof x).data(), sizeof x); }
  void get(std::string& x) { x = cut(get<std::uint32_t>()); }
  template <class T>
  void get(std::vector<T>& all) {
    all.resize(get<std::uint32_t>());
    for (T& x : all) get(x);
  }

 private:
  std::string_view cut(std::size_t bytes) {
    const std::string_view piece = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return piece;
  }
  std::string_view left_;
};

enum class told : std::uint8_t { calls, seeks, lives, leaves, ends };

/// Calls that meet each other in their order: a group's collectives, or the messages of a pair with one tag.
struct lane_key {
  enum class form : std::uint8_t { collectives, sends, receives };

  std::uint64_t group = 0;
  form of = form::collectives;  // as the rank sees it whose key this is
  int peer = -1;                // the other rank of a pair, in the world
  int tag = 0;

  friend auto operator<=>(const lane_key&, const lane_key&) = default;

  bool pairs() const { return of != form::collectives; }
  /// The same lane, seen by its other ranks; `me`: who sees it so.
  lane_key from_there(int me) const {
    if (!pairs()) return *this;
    return {group, of == form::sends ? form::receives : form::sends, me, tag};
  }
};

/// One rank's call, as others compare it.
struct announcement {
  std::uint64_t print = 0;          // equal where calls agree
  std::string words, purpose;       // "all_to_allv(...)", " for tokens"
  std::vector<std::int64_t> sizes;  // of an all_to_allv: sent to each, received from each; of a split: color, key

  std::string text() const { return words + purpose; }
  void add_to(text_writer& to) const { to.add(print).add(words).add(purpose).add(sizes); }
  static announcement from(text_reader& in) {
    announcement out;
    in.get(out.print), in.get(out.words), in.get(out.purpose), in.get(out.sizes);
    return out;
  }
};

/// A number that is the same for calls which `agree`, and for no others (but for one in about 2^64).
inline std::uint64_t fingerprint(const comm_call& call) {
  const collective_label& label = call.label;
  const std::int64_t numbers[] = {static_cast<int>(call.pairs() ? comm_operation::send : call.operation),
                                  call.count,
                                  static_cast<int>(call.type),
                                  static_cast<int>(call.how),
                                  call.pairs() ? 0 : call.peer,
                                  call.tag,
                                  label.number,
                                  label.at.line,
                                  static_cast<int>(label.kind)};
  std::uint64_t print = hash_bytes(numbers, sizeof numbers, 1);
  for (const std::string_view part :
       {std::string_view(label.what), label.tensor, label.unit, std::string_view(label.at.file)})
    print = hash_text(part.empty() ? "" : part, print);
  return print;
}

inline announcement announce(const comm_call& call, int ranks) {
  announcement out{fingerprint(call), describe_operation(call), purpose_of(call), {}};
  if (!call.is(comm_operation::all_to_allv)) return out;
  out.sizes.assign(call.send_bytes, call.send_bytes + ranks);
  out.sizes.insert(out.sizes.end(), call.recv_bytes, call.recv_bytes + ranks);
  return out;
}

/// Goes along those who wait for each other; where it comes back to the rank that sent it, none of them can go on.
struct wait_chain {
  int by = 0;
  std::uint64_t wait = 0, round = 0;  // which of its waits, and which search of its in all
  lane_key lane;                      // what the rank that passes it on waits for, as the next rank sees it
  std::uint64_t number = 0;           // of that lane's calls
  std::vector<int> ranks;             // that it has come along, and what each waits for
  std::vector<std::string> waits;

  std::string written() const {
    return text_writer()
        .add(told::seeks)
        .add(by)
        .add(wait)
        .add(round)
        .add(lane)
        .add(number)
        .add(ranks)
        .add(waits)
        .take();
  }
  static wait_chain from(text_reader& in) {
    wait_chain out;
    in.get(out.by), in.get(out.wait), in.get(out.round), in.get(out.lane), in.get(out.number);
    in.get(out.ranks), in.get(out.waits);
    return out;
  }
};

/// Why a rank leaves the launch. Of several the least is what all are told.
struct end_reason {
  enum class kind : std::uint8_t { failed, found, none };

  kind is = kind::none;  // the rank threw, a fault was found, or its function has returned
  int by = 0;            // the rank that failed or found
  std::string text;

  void add_to(text_writer& to) const { to.add(is).add(by).add(text); }
  static end_reason from(text_reader& in) {
    end_reason out;
    in.get(out.is), in.get(out.by), in.get(out.text);
    return out;
  }
  bool none() const { return is == kind::none; }
  bool before(const end_reason& other) const { return is != other.is ? is < other.is : by < other.by; }
};

}  // namespace weft::detail
