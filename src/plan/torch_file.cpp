// The formats of torch.save. Since PyTorch 1.6, it is a zip archive with data.pkl and one
// uncompressed record for each storage. Before, it was several pickles, which the storages
// followed.
#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "plan/readers.hpp"
#include "plan/torch_pickle.hpp"

namespace berth::plan {
namespace {

constexpr std::uint64_t kMostDirectory = 64U << 20U;

struct Record {
  std::uint64_t offset = 0, size = 0;  // offset of the local header; size of the contents
  bool is_stored = true;               // the record is not compressed
};
using Records = std::map<std::string, Record, std::less<>>;

struct Directory {
  std::uint64_t offset = 0, size = 0, records = 0;
};

std::optional<Directory> find_directory(const FileBytes& file) {
  constexpr std::uint64_t kEnd = 22, kMostComment = 65'535, kLocator = 20;
  if (file.size < kEnd) return std::nullopt;
  const std::uint64_t begin = file.size - std::min(file.size, kEnd + kMostComment);
  Cursor tail(file, begin, file.size);
  const std::string bytes = tail.bytes(tail.left(), kEnd + kMostComment);
  const std::size_t found = bytes.rfind("PK\x05\x06");
  if (!tail.ok() || found == std::string::npos || bytes.size() - found < kEnd) return std::nullopt;
  Cursor end(file, begin + found + 10, file.size);
  Directory out;
  out.records = end.number(2);
  out.size = end.number(4);
  out.offset = end.number(4);
  const bool is_64 = out.records == 0xFFFF || out.size == 0xFFFFFFFF || out.offset == 0xFFFFFFFF;
  if (is_64 && begin + found >= kLocator) {
    Cursor locator(file, begin + found - kLocator, file.size);
    if (locator.number(4) != 0x07064b50) return std::nullopt;
    locator.skip(4);
    Cursor end_64(file, locator.number(8), file.size);
    if (end_64.number(4) != 0x06064b50) return std::nullopt;
    end_64.skip(8 + 2 + 2 + 4 + 4 + 8);
    out.records = end_64.number(8);
    out.size = end_64.number(8);
    out.offset = end_64.number(8);
    if (!end_64.ok()) return std::nullopt;
  }
  if (!end.ok() || out.offset > file.size || out.size > file.size - out.offset ||
      out.size > kMostDirectory || out.records > kMostTensors)
    return std::nullopt;
  return out;
}

std::optional<Records> read_directory(const FileBytes& file) {
  const auto directory = find_directory(file);
  if (!directory) return std::nullopt;
  Records out;
  Cursor cursor(file, directory->offset, directory->offset + directory->size);
  for (std::uint64_t i = 0; i < directory->records; ++i) {
    if (cursor.number(4) != 0x02014b50) return std::nullopt;
    cursor.skip(6);
    Record record;
    record.is_stored = cursor.number(2) == 0;
    cursor.skip(8);
    const std::uint64_t compressed = cursor.number(4);
    record.size = cursor.number(4);
    const std::uint64_t name = cursor.number(2), extra = cursor.number(2),
                        comment = cursor.number(2);
    cursor.skip(8);
    record.offset = cursor.number(4);
    std::string word = cursor.bytes(name, kMostName);
    Cursor field = cursor.part(extra);
    while (field.left() >= 4) {
      const std::uint64_t id = field.number(2), length = field.number(2);
      Cursor value = field.part(length);
      field.skip(length);
      if (id != 1) continue;
      if (record.size == 0xFFFFFFFF) record.size = value.number(8);
      if (compressed == 0xFFFFFFFF) value.skip(8);
      if (record.offset == 0xFFFFFFFF) record.offset = value.number(8);
      if (!value.ok()) return std::nullopt;
    }
    cursor.skip(extra + comment);
    if (!cursor.ok() || record.offset > file.size || record.size > file.size - record.offset)
      return std::nullopt;
    out[std::move(word)] = record;
  }
  return out;
}

/// A cursor over the contents of a record.
std::optional<Cursor> open_record(const FileBytes& file, const Record& record) {
  Cursor local(file, record.offset, file.size);
  if (local.number(4) != 0x04034b50) return std::nullopt;
  local.skip(22);
  const std::uint64_t name = local.number(2), extra = local.number(2);
  local.skip(name + extra);
  if (!local.ok() || record.size > local.left()) return std::nullopt;
  return local.part(record.size);
}

/// Whether no two records overlap in the file.
bool is_apart(const FileBytes& file, const Records& records) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;
  for (const auto& [name, record] : records) {
    const auto contents = open_record(file, record);
    if (!contents) return false;
    extents.emplace_back(record.offset, contents->at() + record.size);
  }
  std::sort(extents.begin(), extents.end());
  for (std::size_t i = 1; i < extents.size(); ++i)
    if (extents[i].first < extents[i - 1].second) return false;
  return true;
}

Error bad_pickle(const FileBytes& file) {
  return damaged(file, text("its pickle is damaged, or was not written by torch.save; Berth does "
                            "not execute pickles"));
}

}  // namespace

Result<Checkpoint> read_torch_zip(const FileBytes& file) {
  const auto records = read_directory(file);
  if (!records) return damaged(file, text("its zip directory is damaged"));
  const auto pickle = std::find_if(records->begin(), records->end(), [](const auto& one) {
    return one.first == "data.pkl" || one.first.ends_with("/data.pkl");
  });
  if (pickle == records->end())
    return Error{ErrorCode::kInvalidArgument, "E1040",
                 text("{} is a zip archive without a model of PyTorch", printable(file.name)),
                 "berth help plan"};
  auto contents = open_record(file, pickle->second);
  if (!contents || !pickle->second.is_stored || !is_apart(file, *records))
    return damaged(file, text("its zip directory is damaged"));
  auto found = read_torch_pickle(*contents);
  if (!found) return bad_pickle(file);
  const std::string folder =
      pickle->first.substr(0, pickle->first.size() - std::string_view("data.pkl").size());
  for (const Storage& storage : found->storages) {
    const auto record = records->find(folder + "data/" + storage.key);
    if (record == records->end() || record->second.size < storage.bytes)
      return damaged(file, text("its pickle and its records do not match"));
  }
  return Checkpoint{"PyTorch", std::move(found->tensors), {}, 1};
}

Result<Checkpoint> read_torch_legacy(const FileBytes& file) {
  Cursor cursor(file, 0, file.size);
  constexpr std::int64_t kProtocol = 1001;
  const auto magic = read_torch_pickle(cursor), protocol = read_torch_pickle(cursor),
             system = read_torch_pickle(cursor);
  if (!magic || !protocol || !system || protocol->number != kProtocol) return bad_pickle(file);
  auto found = read_torch_pickle(cursor);
  const auto keys = read_torch_pickle(cursor);
  if (!found || !keys) return bad_pickle(file);
  // Each storage: the number of its elements, then the elements.
  for (const Storage& storage : found->storages) {
    cursor.skip(8);
    cursor.skip(storage.bytes);
  }
  if (!cursor.ok() || cursor.left() > 0)
    return damaged(file, text("it ends before its last tensor, or has more bytes"));
  return Checkpoint{"PyTorch", std::move(found->tensors), {}, 1};
}

}  // namespace berth::plan
