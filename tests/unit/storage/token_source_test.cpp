#include "storage/token_source.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "support/temporary_folder.hpp"

namespace ppctl {
namespace {

using test::TemporaryFolder;
using test::text_of;

std::vector<std::int64_t> all_tokens(const TokenSource& source) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(source.num_tokens()));
  source.read(0, tokens);
  return tokens;
}

std::string as_text(const std::vector<std::int64_t>& tokens) {
  std::string text;
  for (const std::int64_t token : tokens) text.push_back(static_cast<char>(token));
  return text;
}

TEST(TokenFile, ReadsLittleEndianTokensOfBothWidths) {
  const TemporaryFolder folder;
  const std::string bytes("\x01\x00\x02\x01\xff\xff\x00\x00", 8);
  const std::string path = folder.write("tokens.bin", bytes);
  EXPECT_EQ(all_tokens(*open_token_file(path, TokenType::kUint16)), (std::vector<std::int64_t>{1, 0x102, 0xffff, 0}));
  EXPECT_EQ(all_tokens(*open_token_file(path, TokenType::kUint32)), (std::vector<std::int64_t>{0x1020001, 0xffff}));
}

TEST(TokenFile, ReadsAPartFromItsMiddle) {
  const TemporaryFolder folder;
  const auto source =
      open_token_file(folder.write("t", std::string("\x01\x00\x02\x00\x03\x00", 6)), TokenType::kUint16);
  std::vector<std::int64_t> part(1);
  source->read(1, part);
  EXPECT_EQ(part.front(), 2);
  EXPECT_THROW(source->read(3, part), Bug);
}

TEST(TokenFile, SaysWhereATokenIs) {
  const TemporaryFolder folder;
  const std::string path = folder.write("t", "abcd");
  EXPECT_EQ(open_token_file(path, TokenType::kUint16)->locate(1), path + ", token 1");
}

TEST(TokenFile, RefusesASizeThatIsNoWholeNumberOfTokens) {
  const TemporaryFolder folder;
  const std::string path = folder.write("t", "abc");
  EXPECT_EQ(text_of<Error>([&] { open_token_file(path, TokenType::kUint16); }),
            path + ": has 3 bytes, which is no whole number of 2-byte tokens; is data.token_dtype right?");
}

TEST(TokenFile, SaysThatAFileIsMissing) {
  EXPECT_EQ(text_of<Error>([] { open_token_file("/nowhere/t", TokenType::kUint16); }),
            "/nowhere/t: cannot be opened: No such file or directory");
}

TEST(Text, IsTheBytesOfAFile) {
  const TemporaryFolder folder;
  const auto source = open_text({folder.write("a.txt", "caf\xc3\xa9")});
  EXPECT_EQ(all_tokens(*source), (std::vector<std::int64_t>{'c', 'a', 'f', 0xc3, 0xa9}));
}

TEST(Text, TakesAFoldersFilesInTheOrderOfTheirPathsWithANewlineBetweenThem) {
  const TemporaryFolder folder;
  folder.write("b.txt", "bb");
  folder.write("a/z.txt", "az");
  folder.write("a.txt", "a");
  const auto source = open_text({folder.path()});
  EXPECT_EQ(as_text(all_tokens(*source)), "a\naz\nbb");
  EXPECT_EQ(source->describe(), "3 files from " + folder.path());
}

TEST(Text, PassesOverHiddenBinaryAndEmptyFilesOfAFolder) {
  const TemporaryFolder folder;
  folder.write(".git/config", "hidden");
  folder.write(".hidden", "hidden");
  folder.write("binary", std::string("a\0b", 3));
  folder.write("empty", "");
  folder.write("text", "text");
  EXPECT_EQ(as_text(all_tokens(*open_text({folder.path()}))), "text");
}

TEST(Text, JoinsSeveralPathsInTheirOrder) {
  const TemporaryFolder folder;
  const std::string b = folder.write("b", "b");
  const std::string a = folder.write("a", "a");
  EXPECT_EQ(as_text(all_tokens(*open_text({b, a}))), "b\na");
}

TEST(Text, ReadsAcrossLargeMappedAndSmallCopiedFiles) {
  const TemporaryFolder folder;
  const std::string large(100'000, 'x');
  folder.write("a", "a");
  folder.write("b", large);
  folder.write("c", "c");
  const auto source = open_text({folder.path()});
  EXPECT_EQ(as_text(all_tokens(*source)), "a\n" + large + "\nc");
  std::vector<std::int64_t> part(4);
  source->read(100'000, part);
  EXPECT_EQ(as_text(part), "xx\nc");
}

TEST(Text, SaysInWhichFileAPositionIs) {
  const TemporaryFolder folder;
  const std::string a = folder.write("a", "aa");
  const std::string b = folder.write("b", "bb");
  const auto source = open_text({folder.path()});
  EXPECT_EQ(source->locate(1), a + ", byte 1");
  EXPECT_EQ(source->locate(4), b + ", byte 1");
}

TEST(Text, RefusesAMissingPathAndAFolderWithoutText) {
  const TemporaryFolder folder;
  EXPECT_EQ(text_of<Error>([&] { open_text({folder / "none"}); }),
            folder / "none" + ": there is no such file or folder");
  EXPECT_EQ(text_of<Error>([&] { open_text({folder.path()}); }), folder.path() + ": holds no text");
}

}  // namespace
}  // namespace ppctl
