#include <bit>
#include <cstring>

#include "base/error.hpp"
#include "storage/mapped_file.hpp"
#include "storage/token_source.hpp"

namespace ppctl {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are read in place");

template <class Token>
class TokenFile final : public TokenSource {
 public:
  explicit TokenFile(const std::string& path) : file_(path) {
    if (file_.bytes().size() % sizeof(Token) != 0) {
      throw_error("{}: has {} bytes, which is no whole number of {}-byte tokens; is data.token_dtype right?", path,
                  file_.bytes().size(), sizeof(Token));
    }
  }

  std::int64_t num_tokens() const override { return static_cast<std::int64_t>(file_.bytes().size() / sizeof(Token)); }

  void read(std::int64_t first, std::span<std::int64_t> out) const override {
    PPCTL_CHECK(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= num_tokens(), "tokens {} + {} of {}",
                first, out.size(), num_tokens());
    const std::byte* from = file_.bytes().data() + static_cast<std::size_t>(first) * sizeof(Token);
    for (std::int64_t& token : out) {
      Token value;
      std::memcpy(&value, from, sizeof(Token));
      token = value;
      from += sizeof(Token);
    }
  }

  std::string locate(std::int64_t position) const override {
    return fmt::format("{}, token {}", file_.path(), position);
  }
  std::string describe() const override { return file_.path(); }

 private:
  MappedFile file_;
};

}  // namespace

std::unique_ptr<TokenSource> open_token_file(const std::string& path, TokenType type) {
  if (type == TokenType::kUint16) return std::make_unique<TokenFile<std::uint16_t>>(path);
  return std::make_unique<TokenFile<std::uint32_t>>(path);
}

}  // namespace ppctl
