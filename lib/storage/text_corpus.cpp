#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.hpp"
#include "storage/mapped_file.hpp"
#include "storage/token_source.hpp"

namespace ppctl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSniffedBytes = 4096;
/// Smaller files are copied: a mapping each would take a page and one of the system's 65,530 mappings.
constexpr std::size_t kMappedFrom = std::size_t{64} * 1024;
constexpr std::byte kSeparator{'\n'};

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

bool looks_like_text(std::span<const std::byte> bytes) {
  const auto start = bytes.first(std::min(bytes.size(), kSniffedBytes));
  return std::ranges::find(start, std::byte{0}) == start.end();
}

/// All regular, visible files below `folder`, sorted by relative path.
std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const bool hidden = is_hidden(entry->path());
    if (hidden && entry->is_directory()) entry.disable_recursion_pending();
    if (!hidden && entry->is_regular_file()) files.push_back(entry->path().string());
  }
  if (error) throw_error("{}: cannot be read: {}", folder, error.message());
  std::ranges::sort(files);
  return files;
}

/// One file of a corpus and the position of its first byte.
struct Piece {
  std::int64_t start = 0;
  std::string path;
  MappedFile mapped;
  std::vector<std::byte> copied;

  std::span<const std::byte> bytes() const { return copied.empty() ? mapped.bytes() : std::span(copied); }
  std::int64_t end() const { return start + static_cast<std::int64_t>(bytes().size()); }
};

class TextCorpus final : public TokenSource {
 public:
  explicit TextCorpus(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      if (!fs::exists(path)) throw_error("{}: there is no such file or folder", path);
      if (fs::is_directory(path)) {
        for (const std::string& file : files_below(path)) add(file, /*named=*/false);
      } else {
        add(path, /*named=*/true);
      }
    }
    if (pieces_.empty()) throw_error("{}: holds no text", describe_paths(paths));
    description_ = pieces_.size() == 1 ? pieces_.front().path
                                       : fmt::format("{} files from {}", pieces_.size(), describe_paths(paths));
  }

  std::int64_t num_tokens() const override { return pieces_.back().end(); }

  void read(std::int64_t first, std::span<std::int64_t> out) const override {
    PPCTL_CHECK(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= num_tokens(), "bytes {} + {} of {}",
                first, out.size(), num_tokens());
    std::size_t index = piece_at(first);
    for (std::size_t done = 0; done < out.size();) {
      const Piece& piece = pieces_[index];
      const std::int64_t position = first + static_cast<std::int64_t>(done);
      if (position >= piece.end()) {
        out[done++] = static_cast<std::int64_t>(kSeparator);
        ++index;
        continue;
      }
      const auto rest = piece.bytes().subspan(static_cast<std::size_t>(position - piece.start));
      const std::size_t count = std::min(rest.size(), out.size() - done);
      std::ranges::transform(rest.first(count), out.begin() + static_cast<std::ptrdiff_t>(done),
                             [](std::byte byte) { return std::to_integer<std::int64_t>(byte); });
      done += count;
    }
  }

  std::string locate(std::int64_t position) const override {
    const Piece& piece = pieces_[piece_at(position)];
    return fmt::format("{}, byte {}", piece.path, position - piece.start);
  }

  std::string describe() const override { return description_; }

 private:
  static std::string describe_paths(const std::vector<std::string>& paths) {
    return fmt::format("{}", fmt::join(paths, ", "));
  }

  /// `named`: the user asked for this very file, so it is taken whatever it holds.
  void add(const std::string& path, bool named) {
    Piece piece;
    piece.path = path;
    piece.mapped = MappedFile(path);
    const auto bytes = piece.mapped.bytes();
    if (bytes.empty() || (!named && !looks_like_text(bytes))) return;
    if (bytes.size() < kMappedFrom) {
      piece.copied.assign(bytes.begin(), bytes.end());
      piece.mapped = MappedFile();
    }
    piece.start = pieces_.empty() ? 0 : pieces_.back().end() + 1;
    pieces_.push_back(std::move(piece));
  }

  /// The piece that holds a position; a separator belongs to the piece before it.
  std::size_t piece_at(std::int64_t position) const {
    const auto next = std::ranges::upper_bound(pieces_, position, {}, &Piece::start);
    return static_cast<std::size_t>(next - pieces_.begin()) - 1;
  }

  std::vector<Piece> pieces_;
  std::string description_;
};

}  // namespace

std::unique_ptr<TokenSource> open_text(const std::vector<std::string>& paths) {
  return std::make_unique<TextCorpus>(paths);
}

}  // namespace ppctl
