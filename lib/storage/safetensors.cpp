#include "storage/safetensors.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"

namespace ppctl {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
/// The format's own limit: a longer header is a broken file, not a large model.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr const char* kMetadataKey = "__metadata__";

struct DtypeSize {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<DtypeSize, 14> kDtypes = {{{"BOOL", 1},
                                                {"U8", 1},
                                                {"I8", 1},
                                                {"F8_E5M2", 1},
                                                {"F8_E4M3", 1},
                                                {"I16", 2},
                                                {"U16", 2},
                                                {"F16", 2},
                                                {"BF16", 2},
                                                {"I32", 4},
                                                {"U32", 4},
                                                {"F32", 4},
                                                {"F64", 8},
                                                {"I64", 8}}};

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

std::uint64_t unsigned_at(const json& value, const std::string& file, const std::string& tensor, const char* key) {
  if (!value.is_number_unsigned())
    throw_error("{}: tensor '{}': {} has {}, not a whole number", file, tensor, key, value.dump());
  return value.get<std::uint64_t>();
}

const json& member(const json& object, const std::string& file, const std::string& tensor, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) throw_error("{}: tensor '{}' has no {}", file, tensor, key);
  return *found;
}

/// Elements times their size, refusing what 63 bits cannot hold.
std::uint64_t byte_count(const SafetensorsEntry& entry, const std::string& file, const std::string& tensor) {
  std::uint64_t bytes = safetensors_dtype_bytes(entry.dtype);
  for (std::int64_t size : entry.shape) {
    std::uint64_t next = 0;
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &next) ||
        next > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw_error("{}: tensor '{}': its shape has too many elements", file, tensor);
    }
    bytes = next;
  }
  return bytes;
}

SafetensorsEntry parse_entry(const std::string& name, const json& value, const std::string& file) {
  if (!value.is_object()) throw_error("{}: tensor '{}' is {}, not an object", file, name, value.dump());
  SafetensorsEntry entry;
  const json& dtype = member(value, file, name, "dtype");
  if (!dtype.is_string() || safetensors_dtype_bytes(dtype.get<std::string>()) == 0) {
    throw_error("{}: tensor '{}': dtype {} is unknown", file, name, dtype.dump());
  }
  entry.dtype = dtype.get<std::string>();
  const json& shape = member(value, file, name, "shape");
  if (!shape.is_array()) throw_error("{}: tensor '{}': shape is not a list", file, name);
  for (const json& size : shape) {
    const std::uint64_t dim = unsigned_at(size, file, name, "shape");
    if (dim > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw_error("{}: tensor '{}': its shape has too many elements", file, name);
    }
    entry.shape.push_back(static_cast<std::int64_t>(dim));
  }
  const json& offsets = member(value, file, name, "data_offsets");
  if (!offsets.is_array() || offsets.size() != 2)
    throw_error("{}: tensor '{}': data_offsets is not a pair", file, name);
  entry.offset = unsigned_at(offsets[0], file, name, "data_offsets");
  const std::uint64_t end = unsigned_at(offsets[1], file, name, "data_offsets");
  if (end < entry.offset) throw_error("{}: tensor '{}': data_offsets end before they begin", file, name);
  entry.num_bytes = end - entry.offset;
  const std::uint64_t needed = byte_count(entry, file, name);
  if (needed != entry.num_bytes) {
    throw_error("{}: tensor '{}': data_offsets hold {} bytes, dtype and shape need {}", file, name, entry.num_bytes,
                needed);
  }
  return entry;
}

/// Objects with a name twice are refused: the format does not allow them, and the JSON library would keep the last.
class DuplicateNames {
 public:
  explicit DuplicateNames(std::string file) : file_(std::move(file)) {}
  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    if (depth != 1 || event != json::parse_event_t::key) return true;
    if (!seen_.emplace(parsed.get<std::string>(), true).second) {
      throw_error("{}: tensor '{}' is there twice", file_, parsed.get<std::string>());
    }
    return true;
  }

 private:
  std::string file_;
  std::map<std::string, bool> seen_;
};

}  // namespace

std::int64_t SafetensorsEntry::numel() const {
  std::int64_t result = 1;
  for (std::int64_t size : shape) result *= size;
  return result;
}

std::size_t safetensors_dtype_bytes(std::string_view dtype) {
  const auto found =
      std::find_if(kDtypes.begin(), kDtypes.end(), [dtype](const DtypeSize& d) { return d.name == dtype; });
  return found == kDtypes.end() ? 0 : found->bytes;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.size() < kLengthBytes) throw_error("{}: {} bytes are too few for a safetensors file", path, bytes.size());
  const std::uint64_t header_bytes = little_endian(bytes);
  if (header_bytes > kMaxHeaderBytes) {
    throw_error("{}: not a safetensors file: its header would have {} bytes", path, header_bytes);
  }
  if (header_bytes > bytes.size() - kLengthBytes) {
    throw_error("{}: truncated: the header has {} bytes, the file {}", path, header_bytes, bytes.size());
  }
  data_start_ = kLengthBytes + header_bytes;
  parse_header({reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, static_cast<std::size_t>(header_bytes)});
  check_layout();
}

void SafetensorsFile::parse_header(std::string_view header) {
  json object;
  try {
    object = json::parse(header.begin(), header.end(), DuplicateNames(path()));
  } catch (const json::exception& fault) {
    throw_error("{}: the header is no valid JSON", path());
  }
  if (!object.is_object()) throw_error("{}: the header is not a JSON object", path());
  for (const auto& [name, value] : object.items()) {
    if (name != kMetadataKey) {
      entries_.emplace(name, parse_entry(name, value, path()));
      continue;
    }
    if (!value.is_object()) throw_error("{}: __metadata__ is not an object", path());
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) throw_error("{}: __metadata__: '{}' is not a text", path(), key);
      metadata_.emplace(key, text.get<std::string>());
    }
  }
}

void SafetensorsFile::check_layout() const {
  std::vector<std::pair<std::string_view, const SafetensorsEntry*>> by_offset;
  for (const auto& [name, entry] : entries_) by_offset.emplace_back(name, &entry);
  std::sort(by_offset.begin(), by_offset.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->offset, a.second->num_bytes) < std::pair(b.second->offset, b.second->num_bytes);
  });
  const std::uint64_t available = file_.bytes().size() - data_start_;
  std::uint64_t end = 0;
  for (const auto& [name, entry] : by_offset) {
    if (entry->offset < end) throw_error("{}: tensor '{}' overlaps the one before it", path(), name);
    if (entry->offset > end)
      throw_error("{}: {} bytes before tensor '{}' belong to no tensor", path(), entry->offset - end, name);
    end = entry->offset + entry->num_bytes;
    if (end > available) {
      throw_error("{}: truncated: tensor '{}' ends at byte {} of the data, the file has {}", path(), name, end,
                  available);
    }
  }
  if (end < available) throw_error("{}: {} bytes behind the last tensor belong to no tensor", path(), available - end);
}

const SafetensorsEntry* SafetensorsFile::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

std::span<const std::byte> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
  return file_.bytes().subspan(data_start_ + entry.offset, entry.num_bytes);
}

}  // namespace ppctl
