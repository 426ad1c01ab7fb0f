#include "storage/atomic_file.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "support/temporary_folder.hpp"

namespace ppctl {
namespace {

using test::read_file;
using test::TemporaryFolder;
using test::text_of;

TEST(AtomicFile, ReplacesTheContentAndLeavesNothingBeside) {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "old content");
  write_file_atomically(path, "new");
  EXPECT_EQ(read_file(path), "new");
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST(AtomicFile, KeepsTheOldContentWhereTheNewCannotBeWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "old");
  std::filesystem::create_directory(path + ".partial");
  EXPECT_THROW(write_file_atomically(path, "new"), Error);
  EXPECT_EQ(read_file(path), "old");
}

TEST(OutputFile, AppendsOrStartsAnew) {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "one ");
  OutputFile(path, /*append=*/true).write("two");
  EXPECT_EQ(read_file(path), "one two");
  OutputFile(path).write("three");
  EXPECT_EQ(read_file(path), "three");
}

TEST(OutputFile, NamesTheFileOnAFullDisk) {
  OutputFile file("/dev/full");
  EXPECT_EQ(text_of<Error>([&] { file.write("text"); }), "/dev/full: cannot be written: No space left on device");
}

TEST(OutputFile, NamesTheFileWhoseFolderIsMissing) {
  EXPECT_EQ(text_of<Error>([] { OutputFile("/nowhere/file"); }),
            "/nowhere/file: cannot be written: No such file or directory");
}

}  // namespace
}  // namespace ppctl
