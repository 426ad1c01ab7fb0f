#include "storage/safetensors.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.hpp"

namespace ppctl {
namespace {

namespace fs = std::filesystem;

/// A file of its own for each test, removed at the end.
class Safetensors : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo& info = *testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / fmt::format("ppctl_safetensors_{}_{}", info.name(), ::getpid());
    fs::create_directories(folder_);
    path_ = (folder_ / "t.safetensors").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// A file with this header and this many bytes of data behind it.
  void write_raw(const std::string& header, std::size_t data_bytes) const {
    std::string bytes(8, '\0');
    const std::uint64_t length = header.size();
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i) & 0xFF);
    write_bytes(bytes + header + std::string(data_bytes, 'x'));
  }
  void write_bytes(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string read_bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// The message of opening the file, without its path.
  std::string fault() const {
    try {
      const SafetensorsFile file(path_);
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.rfind(path_ + ": ", 0), 0U) << text;
      return text.substr(path_.size() + 2);
    }
    return "no error";
  }
  std::string fault_of_header(const std::string& header, std::size_t data_bytes) const {
    write_raw(header, data_bytes);
    return fault();
  }

  fs::path folder_;
  std::string path_;
};

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  std::vector<std::byte> result(values.size() * sizeof(float));
  std::memcpy(result.data(), values.data(), result.size());
  return result;
}

void write_example(const std::string& path) {
  const std::vector<SafetensorsWriter::Tensor> tensors = {
      {"b", "F32", {2, 3}}, {"a", "BF16", {4}}, {"none", "F32", {0, 5}}, {"s", "I64", {}}};
  SafetensorsWriter writer(path, tensors, {{"format", "pt"}});
  writer.write(bytes_of({1, 2, 3, 4, 5, 6}));
  writer.write(std::vector<std::byte>(8, std::byte{7}));
  writer.write(std::vector<std::byte>(8, std::byte{1}));
  writer.finish();
}

TEST_F(Safetensors, ReadsBackWhatWasWritten) {
  write_example(path_);
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.entries().size(), 4U);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const SafetensorsEntry& b = *file.find("b");
  EXPECT_EQ(b.dtype, "F32");
  EXPECT_EQ(b.shape, std::vector<std::int64_t>({2, 3}));
  EXPECT_EQ(b.numel(), 6);
  const std::vector<std::byte> expected = bytes_of({1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(std::ranges::equal(file.bytes(b), expected));
  EXPECT_EQ(file.bytes(*file.find("a"))[7], std::byte{7});
  EXPECT_EQ(file.find("none")->num_bytes, 0U);
  EXPECT_EQ(file.find("s")->numel(), 1);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST_F(Safetensors, AlignsTheDataTo64Bytes) {
  write_example(path_);
  const SafetensorsFile file(path_);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.bytes(*file.find("b")).data()) % 64, 0U);
}

TEST_F(Safetensors, LeavesNothingBehindWhereAWriterDidNotFinish) {
  {
    const std::vector<SafetensorsWriter::Tensor> tensors = {{"a", "F32", {2}}};
    SafetensorsWriter writer(path_, tensors);
    writer.write(bytes_of({1}));
    EXPECT_TRUE(fs::exists(path_ + ".partial"));
    EXPECT_THROW(writer.finish(), Bug);
    EXPECT_THROW(writer.write(bytes_of({1, 2})), Bug);
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Safetensors, SaysWhyAFileCannotBeWritten) {
  const std::vector<SafetensorsWriter::Tensor> tensors = {{"a", "F32", {1}}};
  const std::string missing = (folder_ / "missing" / "t.safetensors").string();
  try {
    SafetensorsWriter writer(missing, tensors);
    FAIL() << "a missing folder was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), missing + ".partial: cannot be written: No such file or directory");
  }
}

TEST_F(Safetensors, SaysThatTheDiskIsFull) {
  fs::create_symlink("/dev/full", path_ + ".partial");
  const std::vector<SafetensorsWriter::Tensor> tensors = {{"a", "F32", {1}}};
  try {
    SafetensorsWriter writer(path_, tensors);
    FAIL() << "a full disk was not noticed";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), path_ + ".partial: cannot be written: No space left on device");
  }
}

TEST_F(Safetensors, NamesTheFaultOfABrokenHeader) {
  EXPECT_EQ(fault_of_header("{", 0), "the header is no valid JSON");
  EXPECT_EQ(fault_of_header("[]", 0), "the header is not a JSON object");
  EXPECT_EQ(fault_of_header(R"({"__metadata__":{"a":1}})", 0), "__metadata__: 'a' is not a text");
  EXPECT_EQ(fault_of_header(R"({"__metadata__":3})", 0), "__metadata__ is not an object");
  EXPECT_EQ(fault_of_header(R"({"t":5})", 0), "tensor 't' is 5, not an object");
  EXPECT_EQ(fault_of_header(R"({"t":{"shape":[1],"data_offsets":[0,4]}})", 4), "tensor 't' has no dtype");
  EXPECT_EQ(fault_of_header(R"({"t":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4),
            "tensor 't': dtype \"F31\" is unknown");
  EXPECT_EQ(fault_of_header(R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", 4), "tensor 't' has no shape");
  EXPECT_EQ(fault_of_header(R"({"t":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4),
            "tensor 't': shape is not a list");
  EXPECT_EQ(fault_of_header(R"({"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
            "tensor 't': shape has -1, not a whole number");
  EXPECT_EQ(fault_of_header(R"({"t":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4),
            "tensor 't': its shape has too many elements");
  EXPECT_EQ(fault_of_header(R"({"t":{"dtype":"F32","shape":[1]}})", 4), "tensor 't' has no data_offsets");
  EXPECT_EQ(fault_of_header(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4),
            "tensor 't': data_offsets is not a pair");
  EXPECT_EQ(fault_of_header(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4),
            "tensor 't': data_offsets end before they begin");
  EXPECT_EQ(fault_of_header(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
            "tensor 't': data_offsets hold 4 bytes, dtype and shape need 8");
  EXPECT_EQ(
      fault_of_header(
          R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
          2),
      "tensor 't' is there twice");
}

TEST_F(Safetensors, NamesTheFaultOfABrokenLayout) {
  const auto two = [](int a0, int a1, int b0, int b1) {
    return fmt::format(
        R"({{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},"b":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
        a1 - a0, a0, a1, b1 - b0, b0, b1);
  };
  EXPECT_EQ(fault_of_header(two(0, 4, 4, 8), 8), "no error");
  EXPECT_EQ(fault_of_header(two(0, 4, 3, 8), 8), "tensor 'b' overlaps the one before it");
  EXPECT_EQ(fault_of_header(two(0, 4, 6, 8), 8), "2 bytes before tensor 'b' belong to no tensor");
  EXPECT_EQ(fault_of_header(two(0, 4, 4, 8), 7), "truncated: tensor 'b' ends at byte 8 of the data, the file has 7");
  EXPECT_EQ(fault_of_header(two(0, 4, 4, 8), 9), "1 bytes behind the last tensor belong to no tensor");
}

TEST_F(Safetensors, NamesTheFaultOfABrokenStart) {
  write_bytes("");
  EXPECT_EQ(fault(), "0 bytes are too few for a safetensors file");
  write_bytes(std::string("\x40\0\0\0\0\0\0\0{}", 10));
  EXPECT_EQ(fault(), "truncated: the header has 64 bytes, the file 10");
  write_bytes("PK\3\4 is a zip file, not ours");
  EXPECT_EQ(fault(), fmt::format("not a safetensors file: its header would have {} bytes", 0x207369200403'4B50ULL));
}

/// Mutated files either open with entries that lie inside the file, or give an Error: nothing else, whatever the bytes.
TEST_F(Safetensors, RefusesOrReadsEveryMutatedFileWithoutAnythingElse) {
  write_example(path_);
  const std::string original = read_bytes();
  std::mt19937 random(20240611);
  int refused = 0;
  for (int round = 0; round < 800; ++round) {
    std::string mutated = original;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes && !mutated.empty(); ++i) {
      const std::size_t place = random() % mutated.size();
      switch (random() % 5) {
        case 0:
          mutated[place] = static_cast<char>(random());
          break;
        case 1:
          mutated.resize(place);
          break;
        case 2:
          mutated.insert(place, 1, static_cast<char>('0' + random() % 10));
          break;
        case 3:
          mutated.erase(place, 1 + random() % 5);
          break;
        default:
          std::swap(mutated[place], mutated[random() % mutated.size()]);
      }
    }
    write_bytes(mutated);
    try {
      const SafetensorsFile file(path_);
      std::size_t sum = 0;
      for (const auto& [name, entry] : file.entries()) {
        for (std::byte byte : file.bytes(entry)) sum += std::to_integer<std::size_t>(byte);
      }
      EXPECT_LE(sum, 255 * mutated.size());
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace ppctl
