// Reads a kernel: registers get their places, labels become numbers of instructions, operands are told apart; what an
// opcode does is decode()'s. Invariant: every name that is used is known, or the kernel is refused.
#include <array>
#include <cstring>

#include "special.hpp"
#include "words.hpp"

namespace device {
namespace {

using form = operand::form;
using variables = std::map<std::string, variable, std::less<>>;

class kernel_reader {
 public:
  kernel_reader(const std::string& name, std::string_view text, const unit_names& known)
      : from_(text), known_(known.variables), functions_(known.functions) {
    made_.name = name;
  }
  kernel read() {
    parameters();
    limits();
    scopes_.push_back({next_scope_++, {}});
    if (!from_.eat('{')) throw refused("PTX: the kernel " + made_.name + " has no body");
    while (!scopes_.empty()) statement();
    instruction last;
    last.goes = flow::end;
    last.text = "}";
    made_.code.push_back(last);
    for (const auto& [at, label, scopes] : jumps_) made_.code[at].target = find_label(label, scopes);
    place_shared();
    return std::move(made_);
  }

 private:
  struct held {
    std::uint32_t at;
    std::uint8_t bytes;
  };
  struct scope {
    int number;
    std::map<std::string, held, std::less<>> registers;
  };
  struct jump {
    std::size_t at;
    std::string label;
    std::vector<int> scopes;
  };
  struct local {
    std::uint64_t at;
  };

  void parameters() {
    if (!from_.eat('(')) return;
    while (!from_.eat(')')) {
      from_.word();  // .param
      const declaration d = read_declaration(from_);
      made_.parameter_bytes = (made_.parameter_bytes + d.align - 1) / d.align * d.align;
      made_.parameters.push_back({d.name, made_.parameter_bytes, static_cast<std::uint32_t>(d.bytes)});
      made_.parameter_bytes += static_cast<std::uint32_t>(d.bytes);
      from_.eat(',');
    }
  }
  void limits() {
    while (from_.peek() != '{') {
      const std::string_view w = from_.word();
      if (w != ".maxntid" && w != ".reqntid") {
        if (w.empty()) from_.eat(from_.peek());  // a number's comma
        continue;
      }
      made_.most_threads = 1;
      do made_.most_threads *= from_.number();
      while (from_.eat(','));
    }
  }

  void statement() {
    if (from_.eat(';')) return;
    if (from_.eat('{')) return scopes_.push_back({next_scope_++, {}});
    if (from_.eat('}')) return scopes_.pop_back();
    const int line = (from_.peek(), from_.line());
    const std::size_t first = from_.position();
    const std::string_view w = from_.word();
    if (w == ".reg") return registers();
    if (w == ".loc") return read_place();
    if (w == ".local" || w == ".param") return variable_of_thread();
    if (w == ".shared") {
      const declaration d = read_declaration(from_);
      own_shared_[d.name] = {space::shared, d.align, d.bytes, false, {}, 0};
      from_.until(";");
      return;
    }
    if (w == ".pragma" || w == ".branchtargets") return static_cast<void>(from_.until(";"));
    if (!w.empty() && w[0] != '.' && from_.eat_label()) {
      labels_[{scopes_.back().number, std::string(w)}] = static_cast<int>(made_.code.size());
      return;
    }
    from_.go_back(first, line);
    instruct(trimmed(from_.until(";")), line);
  }

  void registers() {
    const type of = type_called(from_.word().substr(1));
    const auto bytes = static_cast<std::uint8_t>(of.is == kind::predicate ? 0 : std::max<int>(2, of.bytes));
    do {
      const std::string name(from_.word());
      if (from_.eat('<')) {
        const auto count = number_in(trimmed(from_.until(">"))).value_or(0);
        for (std::uint64_t i = 0; i < count; ++i) add_register(name + std::to_string(i), bytes);
      } else {
        add_register(name, bytes);
      }
    } while (from_.eat(','));
    from_.eat(';');
  }
  void add_register(const std::string& name, std::uint8_t bytes) {
    scopes_.back().registers[name] = {made_.register_bytes, bytes};
    made_.register_bytes += bytes ? 32u * bytes : 64u;
  }
  // .loc FILE LINE COLUMN [, function_name ..., inlined_at FILE LINE COLUMN]
  void read_place() {
    place p;
    p.file = from_.number(), p.line = from_.number(), p.column = from_.number();
    const std::string_view rest = from_.until("\n");
    if (const std::size_t at = rest.find("inlined_at"); at != std::string_view::npos) {
      words of(rest.substr(at + 10));
      const int file = of.number(), line = of.number(), column = of.number();
      const auto caller = latest_.find({file, line, column});
      if (caller != latest_.end()) p.called_from = caller->second;
    }
    if (p.line == 0) return;  // the compiler's own
    made_.places.push_back(p);
    latest_[{p.file, p.line, p.column}] = static_cast<int>(made_.places.size()) - 1;
  }
  void variable_of_thread() {
    const declaration d = read_declaration(from_);
    from_.until(";");
    made_.local_bytes = (made_.local_bytes + d.align - 1) / d.align * d.align;
    locals_[d.name] = {made_.local_bytes};
    made_.local_bytes += static_cast<std::uint32_t>(d.bytes);
  }

  void instruct(std::string_view text, int line) {
    instruction in;
    in.text = text;
    if (made_.places.empty()) made_.places.push_back({0, line, 0, -1});
    in.place = static_cast<int>(made_.places.size()) - 1;
    if (made_.places.back().file == 0 && made_.places.back().line != line) {  // no places of a source: the PTX's own
      made_.places.push_back({0, line, 0, -1});
      ++in.place;
    }
    if (text[0] == '@') {
      in.predicate_negated = text[1] == '!';
      const std::size_t end = text.find_first_of(" \t\n");
      const held* p = find_register(text.substr(in.predicate_negated ? 2 : 1, end - (in.predicate_negated ? 2 : 1)));
      if (!p || p->bytes) throw refused("PTX: no predicate in " + in.text);
      in.predicate = static_cast<int>(p->at);
      text = trimmed(text.substr(end));
    }
    const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
    std::vector<std::string_view> parts;
    for (std::string_view op = text.substr(0, end);;) {
      const std::size_t dot = op.find('.');
      parts.push_back(op.substr(0, dot));
      if (dot == std::string_view::npos) break;
      op.remove_prefix(dot + 1);
    }
    const std::string_view rest = trimmed(text.substr(end));
    if (parts[0] == "call" && in.predicate < 0) return call(rest);
    if (parts[0] == "bra" || (parts[0] == "ret" && depth_ > 0)) {
      in.goes = flow::branch;
      std::vector<int> inside;
      for (const scope& s : scopes_) inside.push_back(s.number);
      jumps_.push_back({made_.code.size(), parts[0] == "bra" ? std::string(rest) : "return", inside});
    } else {
      for (const std::string_view o : listed(rest)) in.operands.push_back(read_operand(o));
      if (!decode(in, parts)) throw refused("the device on the host doesn't know '" + in.text + "', in " + made_.name);
    }
    made_.code.push_back(std::move(in));
  }

  // call (returned), function, (given...): reads the function here, with its parameters where the caller's are.
  void call(std::string_view rest) {
    std::vector<std::string_view> slots;
    std::string name;
    for (const std::string_view part : listed(rest))
      if (part[0] == '(')
        for (const std::string_view slot : listed(part.substr(1, part.size() - 2))) slots.push_back(slot);
      else
        name = part;
    const auto function = functions_.find(name);
    if (function == functions_.end() || depth_ > 8)
      throw refused("the device on the host can't call " + name + ", in " + made_.name);
    words inner(function->second);
    std::size_t given = 0;
    const auto bind = [&] {
      if (!inner.eat('(')) return;
      while (!inner.eat(')')) {
        inner.word();  // .param
        const declaration d = read_declaration(inner);
        if (given == slots.size()) throw refused("PTX: " + name + " is given too little");
        const auto slot = locals_.find(slots[given++]);
        if (slot == locals_.end()) throw refused("PTX: " + name + " is given what isn't declared");
        locals_[d.name] = local{slot->second.at};
        inner.eat(',');
      }
    };
    bind();  // what it returns
    inner.word();
    bind();
    inner.until("{");
    const std::size_t outside = scopes_.size();
    std::swap(from_, inner);
    scopes_.push_back({next_scope_++, {}});
    const int own = scopes_.back().number;
    ++depth_;
    while (scopes_.size() > outside) statement();
    --depth_;
    std::swap(from_, inner);
    labels_[{own, "return"}] = static_cast<int>(made_.code.size());
  }

  const held* find_register(std::string_view name) const {
    for (std::size_t i = scopes_.size(); i--;)
      if (const auto at = scopes_[i].registers.find(name); at != scopes_[i].registers.end()) return &at->second;
    return nullptr;
  }
  static operand number(std::uint64_t bits) {
    operand o;
    o.is = form::number, o.value = static_cast<std::int64_t>(bits);
    return o;
  }
  operand list(const std::vector<std::string_view>& all) {
    operand o;
    o.is = form::list;
    for (const std::string_view each : all) o.all.push_back(read_operand(each));
    return o;
  }
  operand read_operand(std::string_view t) {
    operand o;
    if (t == "_") return o;
    if (t[0] == '{') return list(listed(t.substr(1, t.size() - 2)));
    if (t[0] == '[') return memory(trimmed(t.substr(1, t.rfind(']') - 1)));
    if (const std::size_t bar = t.find('|'); bar != std::string_view::npos)
      return list({trimmed(t.substr(0, bar)), trimmed(t.substr(bar + 1))});
    if (t[0] == '!') {
      o = read_operand(trimmed(t.substr(1)));
      o.negated = true;
      return o;
    }
    if (const auto bits = number_in(t)) return number(*bits);
    if (const held* r = find_register(t)) {
      o.is = form::in_register, o.at = r->at, o.bytes = r->bytes;
      return o;
    }
    if (const int which = special_called(t); which >= 0) {
      o.is = form::special, o.at = static_cast<std::uint32_t>(which), o.bytes = 4;
      return o;
    }
    if (t == "WARP_SZ") return number(lanes);
    return named(t);
  }
  operand named(std::string_view t) {
    std::int64_t more = 0;
    std::string_view name = t;
    if (const std::size_t plus = t.find('+'); plus != std::string_view::npos)
      more = static_cast<std::int64_t>(number_in(trimmed(t.substr(plus + 1))).value_or(0)),
      name = trimmed(t.substr(0, plus));
    for (const parameter& p : made_.parameters)
      if (p.name == name) return number(static_cast<std::uint64_t>(p.at + more));
    operand o;
    if (const auto at = locals_.find(name); at != locals_.end()) {
      o.is = form::local_address, o.value = static_cast<std::int64_t>(at->second.at) + more;
      return o;
    }
    const auto own = own_shared_.find(name);
    const auto at = own == own_shared_.end() ? known_.find(name) : own;
    if (at == known_.end()) throw refused("PTX: nothing is called " + std::string(name) + ", in " + made_.name);
    if (at->second.in != space::shared) return number(at->second.address + static_cast<std::uint64_t>(more));
    o = number(static_cast<std::uint64_t>(more));  // its place is known once all of it was seen
    o.at = static_cast<std::uint32_t>(
        shared_names_.try_emplace(std::string(name), shared_names_.size() + 1).first->second);
    shared_[o.at] = &at->second;
    return o;
  }
  operand memory(std::string_view t) {
    operand o;
    o.is = form::memory;
    if (const auto parts = listed(t); parts.size() == 2) {  // a tensor map, and coordinates in it
      o = memory(parts[0]);
      o.all.push_back(read_operand(parts[1]));
      return o;
    }
    std::size_t cut = t.rfind('+');
    if (cut == std::string_view::npos) cut = t.find('-', 1);
    if (cut != std::string_view::npos) {
      std::string_view more = trimmed(t.substr(cut));
      if (more[0] == '+') more = trimmed(more.substr(1));
      const auto bits = number_in(more);
      if (!bits) throw refused("PTX: no address: " + std::string(t));
      o.value = static_cast<std::int64_t>(*bits);
      t = trimmed(t.substr(0, cut));
    }
    o.all.push_back(read_operand(t));
    return o;
  }

  int find_label(const std::string& label, const std::vector<int>& scopes) const {
    for (std::size_t i = scopes.size(); i--;)
      if (const auto at = labels_.find({scopes[i], label}); at != labels_.end()) return at->second;
    throw refused("PTX: no label " + label + " in " + made_.name);
  }
  // Static shared variables, then the dynamic one.
  void place_shared() {
    std::map<std::uint32_t, std::uint32_t> places;
    const auto reserve = [&](std::uint32_t align) {
      made_.shared_bytes = (made_.shared_bytes + align - 1) / align * align;
    };
    for (const auto& [number, v] : shared_)
      if (!v->elsewhere) {
        reserve(v->align);
        places[number] = made_.shared_bytes;
        made_.shared_bytes += static_cast<std::uint32_t>(v->bytes);
      }
    for (const auto& [number, v] : shared_)
      if (v->elsewhere) {
        reserve(std::max(16u, v->align));
        places[number] = made_.shared_bytes;
      }
    for (instruction& in : made_.code)
      for (operand& o : in.operands) put(o, places);
  }
  void put(operand& o, const std::map<std::uint32_t, std::uint32_t>& places) {
    if (o.is == form::number && o.at) o.value += places.at(o.at);
    for (operand& each : o.all) put(each, places);
  }

  words from_;
  const variables& known_;
  const std::map<std::string, std::string_view, std::less<>>& functions_;
  int depth_ = 0;  // of calls
  kernel made_;
  std::vector<scope> scopes_;
  int next_scope_ = 0;
  std::map<std::pair<int, std::string>, int> labels_;
  std::vector<jump> jumps_;
  std::map<std::string, local, std::less<>> locals_;
  variables own_shared_;
  std::map<std::string, std::size_t, std::less<>> shared_names_;
  std::map<std::uint32_t, const variable*> shared_;
  std::map<std::array<int, 3>, int> latest_;
};

}  // namespace

kernel read_kernel(const std::string& name, std::string_view text, const unit_names& known) {
  return kernel_reader(name, text, known).read();
}

}  // namespace device
