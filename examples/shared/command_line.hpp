// Command lines as the examples read them, by CLI11. Invariant: what can't be read is said in one sentence, and nothing
// that was given is passed over.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "names.hpp"

namespace examples {

/// An empty value would be read as 0, and a number of more than 64 bits as the highest: options of one value refuse
/// them. `may_be_empty`: the one that takes an empty text.
inline void check_values(CLI::App& app, const std::string& may_be_empty = {}) {
  for (CLI::Option* option : app.get_options([](const CLI::Option* o) { return o->get_items_expected_max() > 0; }))
    if (option->get_name() != may_be_empty)
      option->check([option](const std::string& value) {
        if (value.empty()) return std::string("it is empty; give it a value");
        const bool below = value[0] == '-', is_number = option->get_type_name().find("INT") != std::string::npos;
        const std::string given = "it is " + value;
        const char* const end = value.data() + value.size();
        if (option->get_type_name().find("FLOAT") != std::string::npos) {
          char* read = nullptr;
          std::strtod(value.c_str(), &read);
          return read == end ? std::string() : given + ", which is no number";
        }
        if (!is_number) return std::string();
        std::uint64_t number = 0;
        const auto [read, why] = std::from_chars(value.data() + below, end, number);
        if (why == std::errc::result_out_of_range) return given + ", which has more than 64 bits";
        return why == std::errc() && read == end ? std::string() : given + ", which is no whole number";
      });
}

/// The words behind the program's name, as CLI11's parse takes a vector: from its end. `--data=` would take the next
/// word, and gets an empty one.
inline std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = argc - 1; i > 0; --i) {
    std::string word = argv[i];
    const bool given_nothing = word.size() > 3 && word.substr(0, 2) == "--" && word.find('=') == word.size() - 1;
    if (given_nothing) words.push_back(""), word.pop_back();
    words.push_back(word);
  }
  return words;
}

/// What CLI11 threw: --help and --version print what they are asked for, all else is complained of. Returns the
/// program's exit code.
inline int exit_of(const CLI::App& app, const CLI::ParseError& e,
                   const std::function<void(const std::string&)>& complain) {
  if (e.get_exit_code() == 0) return app.exit(e);
  const auto said = [&](const std::string& sentence) {
    complain(sentence);
    return 2;
  };
  if (dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) names.push_back("--" + option->get_single_name());
    for (const std::string& word : app.remaining())
      if (word.substr(0, 2) == "--") try {
          check_name("option", word.substr(0, word.find('=')), names);
        } catch (const weft::failure& unknown) {
          return said(unknown.what() + std::string("; --help lists them"));
        }
  } else {
    for (const CLI::Option* option : app.get_options())
      if (option->get_items_expected_max() == 1 && option->count() > 1)
        return said(option->get_name() + " is given " + std::to_string(option->count()) + " times; leave it at one");
  }
  return said(std::string(e.what()) + "; --help lists the options");
}

/// Checks and reads a program's arguments. Returns its exit code where it is to end at once.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv,
                                const std::function<void(const std::string&)>& complain,
                                const std::string& may_be_empty = {}) {
  check_values(app, may_be_empty);
  try {
    app.parse(words_of(argc, argv));
  } catch (const CLI::ParseError& e) {
    return exit_of(app, e, complain);
  }
  return {};
}

}  // namespace examples
