// What weft-tokenize is told. Plain data.
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace weft_tokenize {

struct settings {
  std::string tokenizer;  // a folder with tokenizer.json, or such a file
  std::string out;        // OUT.bin, OUT.idx, OUT.loss.bin, OUT.loss.idx
  std::vector<std::string> files;
  std::string read = "auto";        // json, text; auto: by the file's name
  std::string field = "text";       // of a JSON object
  bool field_given = false;         // then an object with chats is not taken for one
  std::string chat = "auto";        // the chat format; auto: tokenizer_folder's
  std::string end;                  // token behind each document; empty: the tokenizer's, and behind chats none
  bool no_end = false;              // none, whatever the tokenizer says
  std::string format = "megatron";  // or llmc
  bool lines = false;               // each line of a text is a document
  std::string separator;            // the line that stands between a text's documents
  bool has_separator = false;       // it may be empty
  bool skip_bad_lines = false;      // leave out and count lines that are no document, in place of an error
  int threads = 0;                  // 0: one for each core
};

/// Reads all files, and writes the output whole or not at all. Throws what weft throws. `stop`: ends it by an error.
void run(const settings& s, const std::atomic<bool>& stop);

}  // namespace weft_tokenize
