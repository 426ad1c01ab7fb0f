#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ppctl {

/// A long row of token ids. Immutable; may be read by several threads at once.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::int64_t num_tokens() const = 0;
  /// Copies tokens first .. first + out.size() - 1. REQUIRES: they exist.
  virtual void read(std::int64_t first, std::span<std::int64_t> out) const = 0;
  /// Where a token is, for messages: "tokens.bin, token 17".
  virtual std::string locate(std::int64_t position) const = 0;
  /// What the tokens come from, for messages: "tokens.bin", "3 files from src".
  virtual std::string describe() const = 0;
};

enum class TokenType { kUint16, kUint32 };

/// A flat file of little-endian token ids without a header. Maps it. Throws Error where the size is no multiple of the
/// token's.
std::unique_ptr<TokenSource> open_token_file(const std::string& path, TokenType type);

/// The bytes of text files, as tokens 0 .. 255. `paths` are files, or folders: all their text files, in the order of
/// their relative paths, sub-folders too; hidden entries, and files with a zero byte near their start, are passed over.
/// A newline separates files. Throws Error where a path is missing or nothing is left.
std::unique_ptr<TokenSource> open_text(const std::vector<std::string>& paths);

}  // namespace ppctl
