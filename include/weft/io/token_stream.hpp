// The documents of a token file, one behind the other, as one row of tokens, of which targets that the loss leaves out
// are negative. Invariant: a token's place is the same for every process, and nothing is held but the file's own index
// and a few sums over it.
#pragma once

#include <weft/io/sparse_sums.hpp>
#include <weft/io/token_file.hpp>

namespace weft::detail {

class token_stream {
 public:
  /// end: a token to put behind each document, where the file's documents don't end with it; -1: none. Where there is
  /// a pair `stem.loss.bin` and `stem.loss.idx` beside the file, it says which tokens are targets.
  token_stream(const std::string& path, std::int32_t end) : path_(path), file_(path), end_(end) {
    const std::string stem = path.ends_with(".idx") || path.ends_with(".bin") ? path.substr(0, path.size() - 4) : path;
    const auto is_there = [&](const char* ending) { return ::access((stem + ending).c_str(), F_OK) == 0; };
    // One of the two alone is refused: what the loss leaves out would be learned.
    if (is_there(".loss.idx") || is_there(".loss.bin")) loss_ = std::make_unique<token_file>(stem + ".loss.idx");
    if (loss_) check_loss(stem + ".loss.idx");
    if (end >= 0) adds_end_ = !documents_end_with(end);
  }

  const std::string& path() const { return path_; }
  bool has_loss() const { return loss_ != nullptr; }
  std::int64_t size() const { return begin_of(file_.documents()); }
  std::int64_t documents() const { return file_.documents(); }

  /// The place where a document begins that is nearest to `place`, and neither the first nor the end of all. `place`
  /// itself, where there is none, or where it lies so far before that more than twice as much would lie behind it.
  std::int64_t border_near(std::int64_t place) const {
    if (size() == 0) return 0;
    const std::int64_t d = document_at(std::min(place, size() - 1));
    const std::int64_t before = begin_of(d), behind = begin_of(d + 1);
    const bool has_before = before > 0, has_behind = behind < size();
    const bool is_before = has_before && (!has_behind || place - before <= behind - place);
    if (is_before) return place - before <= size() - place ? before : place;
    return has_behind ? behind : place;
  }

  /// Appends `count` tokens from `begin` on to `out`.
  void tokens(std::int64_t begin, std::int64_t count, std::vector<std::int32_t>& out) const {
    read(file_, begin, count, out, [&](std::int64_t) { return end_; });
  }
  /// The same as targets: -1 where the loss leaves one out. An end that was put in counts as its document's last does.
  void targets(std::int64_t begin, std::int64_t count, std::vector<std::int32_t>& out) const {
    const std::size_t before = out.size();
    tokens(begin, count, out);
    if (!loss_) return;
    std::vector<std::int32_t> counts;
    read(*loss_, begin, count, counts, [&](std::int64_t d) { return last_of(*loss_, d); });
    for (std::size_t i = 0; i < counts.size(); ++i)
      if (counts[i] == 0) out[before + i] = -1;
  }

  /// Where a document begins, and behind the last.
  std::int64_t begin_of(std::int64_t d) const { return file_.tokens_before(d) + (adds_end_ ? d : 0); }
  /// The last document that begins at `place` or before it.
  std::int64_t document_at(std::int64_t place) const {
    std::int64_t first = 0, behind = file_.documents();
    while (behind - first > 1) {
      const std::int64_t middle = first + (behind - first) / 2;
      (begin_of(middle) <= place ? first : behind) = middle;
    }
    return first;
  }

  /// Sums over its documents in the orders that ranks read them in.
  const recent_sums& orders() const { return orders_; }

 private:
  static std::int32_t last_of(const token_file& f, std::int64_t d) {
    std::vector<std::int32_t> one;
    if (f.length(d) > 0) f.read(d, f.length(d) - 1, 1, one);
    return one.empty() ? 0 : one[0];
  }

  template <class End>
  void read(const token_file& from, std::int64_t begin, std::int64_t count, std::vector<std::int32_t>& out,
            End&& end) const {
    for (std::int64_t d = document_at(begin); count > 0; ++d) {
      const std::int64_t first = begin - begin_of(d), n = std::min(count, from.length(d) - first);
      if (n > 0) from.read(d, first, n, out), begin += n, count -= n;
      if (adds_end_ && count > 0) out.push_back(end(d)), ++begin, --count;
    }
  }

  void check_loss(const std::string& name) const {
    const auto fail = [&](const auto&... parts) {
      fail_of_tokens(name, parts..., " of the tokens beside it, whose loss it says");
    };
    if (loss_->documents() != file_.documents())
      fail("it has ", loss_->documents(), " documents, not the ", file_.documents());
    for (std::int64_t d = 0; d < file_.documents(); ++d)
      if (loss_->length(d) != file_.length(d))
        fail("its document ", d, " has ", loss_->length(d), " tokens, not the ", file_.length(d));
  }

  // By up to 1000 documents, all over the file.
  bool documents_end_with(std::int32_t end) const {
    std::int64_t with = 0, without = -1, seen = 0;
    const std::int64_t all = file_.documents(), step = std::max<std::int64_t>(1, all / 1000);
    for (std::int64_t d = 0; d < all; d += step) {
      if (file_.length(d) == 0) continue;
      ++seen;
      if (last_of(file_, d) == end)
        ++with;
      else
        without = d;
    }
    require(with == 0 || with == seen, "some documents of the file ", path_, " end with the token ", end,
            ", and others don't, document ", without,
            " say: write the file again, or let end_token be -1, so that none is put in");
    return with > 0;
  }

  std::string path_;
  token_file file_;
  std::unique_ptr<token_file> loss_;
  std::int32_t end_;
  bool adds_end_ = false;
  recent_sums orders_;
};

/// Opens a file, or hands out what another rank of this process has opened and still holds.
inline std::shared_ptr<const token_stream> open_token_stream(const std::string& path, std::int32_t end) {
  struct opened {
    std::int32_t end;
    std::weak_ptr<const token_stream> stream;
  };
  static std::mutex guard;
  static std::vector<opened> open;
  const std::lock_guard lock(guard);
  std::erase_if(open, [](const opened& one) { return one.stream.expired(); });
  for (const opened& one : open)
    if (auto held = one.stream.lock(); held && held->path() == path && one.end == end) return held;
  auto made = std::make_shared<const token_stream>(path, end);
  open.push_back({end, made});
  return made;
}

}  // namespace weft::detail
