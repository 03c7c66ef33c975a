// The work of weft-tokenize: files' documents in batches, each batch encoded by all threads and written in the files'
// order. Invariant: what is written, and which error is told, is the same for any number of threads.
#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <thread>

#include <weft/io/token_writer.hpp>

#include "../shared/tokenizer_folder.hpp"
#include "documents.hpp"
#include "settings.hpp"

namespace weft_tokenize {
namespace {

using weft::require;

std::string quoted(const std::string& s) { return '"' + s + '"'; }

// tokenizer_config.json's, or the one that is known by its name.
std::string end_by_itself(const examples::tokenizer_folder& of) {
  if (!of.end_of_text().empty()) return of.end_of_text();
  std::string found;
  for (const char* const name : {"<|endoftext|>", "<|end_of_text|>", "</s>"})
    if (of.words().id_of(name) >= 0) {
      require(found.empty(), "the tokenizer has ", found, " and ", name,
              ", and no tokenizer_config.json says which ends a document; give --end TOKEN, or --no-end");
      found = name;
    }
  require(!found.empty(), "nothing says which token ends a document: the folder ", of.folder(),
          " has no tokenizer_config.json with an eos_token; give --end TOKEN, or --no-end");
  return found;
}

// Lines that are no document, where these are left out.
class bad_lines {
 public:
  void add(const std::string& why) {
    if (++count_ <= few) std::fprintf(stderr, "weft-tokenize: left out: %s\n", why.c_str());
  }
  long long count() const { return count_; }

 private:
  static constexpr int few = 5;
  long long count_ = 0;
};

class outputs {
 public:
  outputs(const settings& s, std::int64_t vocab, bool chats) : out_(s.out) {
    if (s.format == "llmc")
      llmc_.emplace(s.out + ".bin", vocab);
    else
      tokens_.emplace(s.out, vocab);
    if (chats) loss_.emplace(s.out + ".loss", 2);
  }
  void add(const tokens_of_document& d) {
    if (llmc_) llmc_->add(d.tokens);
    if (tokens_) tokens_->add(d.tokens);
    if (loss_) loss_->add(d.loss);
  }
  std::string finish() {
    // What can fail but for a reason of the folder's comes before any name is given or taken.
    if (loss_) loss_->prepare();
    if (tokens_) tokens_->prepare();
    if (llmc_) llmc_->prepare();
    // What an earlier output of the name left would be taken for a part of this one. The tokens' index goes first and
    // comes last: between, there is no pair.
    for (const char* const end : {".idx", ".loss.idx", ".loss.bin"}) std::remove((out_ + end).c_str());
    if (loss_) loss_->publish();
    if (tokens_) tokens_->publish();
    if (llmc_) llmc_->publish();
    std::string names = out_ + ".bin";
    if (tokens_) names += ", " + out_ + ".idx";
    if (loss_) names += ", " + out_ + ".loss.bin, " + out_ + ".loss.idx";
    return names;
  }

 private:
  std::string out_;
  std::optional<weft::token_writer> tokens_, loss_;
  std::optional<weft::llmc_writer> llmc_;
};

bool is_json(const settings& s, const std::string& path) {
  std::string ending = ending_of(path);
  if (ending == ".gz") ending = ending_of(std::filesystem::path(path).stem());
  const bool named = ending == ".jsonl" || ending == ".json" || ending == ".ndjson";
  return s.read == "json" || (s.read == "auto" && named);
}

// What was asked for and would be passed over, and files that the output would be written over.
void check(const settings& s) {
  const auto json = std::count_if(s.files.begin(), s.files.end(), [&](const std::string& f) { return is_json(s, f); });
  require(!(s.lines || s.has_separator) || json < static_cast<std::ptrdiff_t>(s.files.size()),
          s.lines ? "--lines" : "--separator",
          " is of texts, and there are only files of JSON, in which a line is a document; leave it out, or give --read "
          "text");
  require(!s.field_given || json > 0,
          "--field is of JSON's objects, and there are only texts; leave it out, or give --read json");
  require(
      !s.skip_bad_lines || json > 0 || s.lines,
      "--skip-bad-lines is of lines that are documents, and here files are; leave it out, or give --lines or --read "
      "json");
  for (const std::string& file : s.files)
    require(ending_of(file) != ".gz" || ending_of(std::filesystem::path(file).stem()) != ".tar", "the file ", file,
            " is an archive of files; unpack it: tar -xzf ", file);
  for (const std::string& file : s.files)
    for (const auto& [ending, tool] :
         {std::pair(".gz", "zcat"), {".zst", "zstdcat"}, {".xz", "xzcat"}, {".bz2", "bzcat"}})
      require(ending_of(file) != ending || (reads_gzip && ending == std::string_view(".gz")), "the file ", file,
              " is compressed", ending == std::string_view(".gz") ? ", and this was built without zlib" : "",
              "; pipe it in: ", tool, " ", file, " | weft-tokenize ... /dev/stdin --read ",
              s.read == "auto" ? "json, or --read text" : s.read);
  require(!s.out.ends_with('/'), "--out ", s.out, " names a folder; give what the files' names begin with, ", s.out,
          "texts for example");
  for (const std::string& file : s.files)
    for (const char* const end : {".bin", ".idx", ".loss.bin", ".loss.idx"})
      for (const std::string& made : {s.out + end, weft::detail::unfinished(s.out + end)}) {
        std::error_code none;
        require(!std::filesystem::equivalent(file, made, none), "the output ", made, " would be written over the file ",
                file, ", which is read; give another --out");
      }
}

// Calls take(document) for each of a file, empty lines of JSON left out.
template <class F>
void each_document(const settings& s, const std::string& path, F&& take) {
  const bool json = is_json(s, path);
  line_reader lines(path);
  std::string line;
  raw_document d{path, 1, {}, json};
  const auto give = [&] {
    take(std::move(d));
    d = {path, lines.number() + 1, {}, json};
  };
  while (lines.next(line)) {
    if (json || s.lines) {
      cut_end(line);
      d.line = lines.number(), d.bytes = line;
      if (!json || line.find_first_not_of(" \t") != line.npos) give();
      continue;
    }
    if (s.has_separator) {
      std::string alone = line;
      cut_end(alone);
      if (alone == s.separator) {
        cut_end(d.bytes);
        give();
        continue;
      }
    }
    if (d.bytes.size() + line.size() > std::size_t{1} << 30)
      fail_of_line(
          d,
          "a document of more than 2^30 bytes begins here; --lines or --separator LINE cuts the file into documents");
    d.bytes += line;
  }
  if (!json && !s.lines && !(s.has_separator && d.bytes.empty())) {
    if (s.has_separator) cut_end(d.bytes);
    give();
  }
}

// f(i) for i below n, by all threads. The first of what is thrown, by i, is thrown on.
template <class F>
void in_parallel(int threads, std::size_t n, F&& f) {
  std::vector<std::exception_ptr> thrown(n);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i; (i = next++) < n;) try {
        f(i);
      } catch (...) {
        thrown[i] = std::current_exception();
      }
  };
  std::vector<std::thread> others;
  try {
    for (int t = 1; t < threads && static_cast<std::size_t>(t) < n; ++t) others.emplace_back(work);
  } catch (const std::system_error&) {  // the system gives no more: those that there are do it
  }
  work();
  for (std::thread& t : others) t.join();
  for (const std::exception_ptr& e : thrown)
    if (e) std::rethrow_exception(e);
}

}  // namespace

void run(const settings& s, const std::atomic<bool>& stop) {
  const auto start = std::chrono::steady_clock::now();
  check(s);
  const examples::tokenizer_folder of(s.tokenizer);
  const weft::tokenizer& words = of.words();
  encoding encode{words, s.field, s.chat, -1};
  std::optional<outputs> out;
  long long documents = 0, tokens = 0, bytes = 0, empty = 0, unanswered = 0;

  bad_lines bad;
  const auto may_skip = [&](const raw_document& d) { return s.skip_bad_lines && (d.json || s.lines); };

  // Whether a document says what all are: where bad lines are left out, one that is neither a text nor a chat doesn't.
  const auto says_what_all_are = [&](const raw_document& d) {
    if (!d.json || !may_skip(d)) return true;
    try {
      const nlohmann::json said = parsed(d);
      if (s.field_given || chat_field(said).empty()) string_in(d, said, s.field);
      return true;
    } catch (const weft::file_error& e) {
      bad.add(e.what());
      return false;
    }
  };
  // What the first document is, all are.
  const auto begin = [&](const raw_document& first) {
    const bool chats = first.json && !s.field_given && [&] {
      const nlohmann::json said = parsed(first);
      const std::string chat = chat_field(said);
      if (!chat.empty() && said.contains(s.field) && s.chat == "auto")
        fail_of_line(first, "there are both ", s.field, " and ", chat, "; --field ", s.field,
                     " takes the one, --chat FORMAT the other");
      return !chat.empty();
    }();
    if (chats) {
      encode.field.clear();
      encode.chat = of.chat_format(s.chat);
      require(s.format == "megatron",
              "llm.c's files don't say which tokens the loss is on, as chats need; leave out --format llmc");
    }
    if (!s.no_end && !(chats && s.end.empty())) {
      const std::string end = s.end.empty() ? end_by_itself(of) : s.end;
      encode.end = words.id_of(end);
      require(encode.end >= 0, "the tokenizer has no token ", quoted(end),
              ", which is to end a document; give --end TOKEN, or --no-end");
    }
    out.emplace(s, words.end_of_ids(), chats);
  };

  const int threads = s.threads > 0 ? s.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<raw_document> batch;
  std::size_t held = 0;
  const auto write_batch = [&] {
    require(!stop, "it was asked to stop");
    std::vector<tokens_of_document> made(batch.size());
    std::vector<std::string> wrong(batch.size());
    in_parallel(threads, batch.size(), [&](std::size_t i) {
      try {
        made[i] = encode(batch[i]);
      } catch (const weft::file_error& e) {
        if (!may_skip(batch[i])) throw;
        wrong[i] = e.what();
      }
    });
    for (std::size_t i = 0; i < made.size(); ++i) {
      const tokens_of_document& d = made[i];
      if (!wrong[i].empty()) {
        bad.add(wrong[i]);
        continue;
      }
      empty += d.tokens.empty() && d.answered, unanswered += !d.answered;
      if (d.tokens.empty()) continue;
      out->add(d);
      ++documents, tokens += static_cast<long long>(d.tokens.size()), bytes += static_cast<long long>(d.bytes);
    }
    batch.clear(), held = 0;
  };
  for (const std::string& path : s.files)
    each_document(s, path, [&](raw_document d) {
      require(!stop, "it was asked to stop");
      if (!out && !says_what_all_are(d)) return;
      if (!out) begin(d);
      held += d.bytes.size();
      batch.push_back(std::move(d));
      if (held >= (std::size_t{1} << 18) * static_cast<std::size_t>(threads) || batch.size() >= 65536) write_batch();
    });
  write_batch();
  require(documents > 0, "there is no document with text in ", s.files.size() == 1 ? s.files[0] : "these files",
          empty + unanswered > 0
              ? ", only " + std::to_string(empty + unanswered) + " that are empty or without an answer"
              : "",
          bad.count() > 0 ? "; " + std::to_string(bad.count()) + " bad lines were left out" : "");
  const std::string names = out->finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::fprintf(stderr, "%lld documents, %lld tokens of %lld bytes, %.0f tokens/s", documents, tokens, bytes,
               static_cast<double>(tokens) / std::max(seconds, 1e-9));
  if (empty > 0) std::fprintf(stderr, "; %lld empty ones left out", empty);
  if (unanswered > 0) std::fprintf(stderr, "; %lld chats without an answer left out", unanswered);
  if (bad.count() > 0) std::fprintf(stderr, "; %lld bad lines left out", bad.count());
  std::fprintf(stderr, "\nwrote %s\n", names.c_str());
}

}  // namespace weft_tokenize
