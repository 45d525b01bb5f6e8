#include "broker/journal_pages.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <utility>

#include "broker/job_record.hpp"
#include "broker/record_sum.hpp"

namespace berth::broker {
namespace {

constexpr std::size_t kWalHeader = 32, kFrameHeader = 24, kDatabaseHeader = 100;

std::uint64_t big_endian(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value = value << 8U | static_cast<std::uint8_t>(bytes[at + i]);
  return value;
}

std::uint32_t word(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint32_t>(big_endian(bytes, at, 4));
}

bool is_page_size(std::uint32_t size) {
  return size >= 512 && size <= 65536 && std::has_single_bit(size);
}

// Functions that read the WAL.

struct Sum {
  std::uint32_t a = 0, b = 0;
  bool operator==(const Sum&) const = default;
};

Sum add(Sum sum, std::string_view bytes, bool is_big_endian) {
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    std::array<std::uint32_t, 2> pair{word(bytes, at), word(bytes, at + 4)};
    if (!is_big_endian)
      for (std::uint32_t& one : pair) one = __builtin_bswap32(one);
    sum.a += pair[0] + sum.b;
    sum.b += pair[1] + sum.a;
  }
  return sum;
}

class WalReader {
 public:
  WalReader(std::string_view bytes, std::uint32_t page_size) : bytes_(bytes) {
    wal_.page_size = word(bytes, 8);
    big_endian_ = (word(bytes, 0) & 1U) != 0;
    stored_ = {word(bytes, 24), word(bytes, 28)};
    const bool is_header_good = word(bytes, 0) >> 1U == 0x377f0682U >> 1U &&
                                is_page_size(wal_.page_size) &&
                                add({}, bytes.substr(0, 24), big_endian_) == stored_;
    if (!is_header_good) {
      wal_.is_damaged = true;
      if (is_page_size(page_size)) wal_.page_size = page_size;
      // The header that says the byte order of the checksums is damaged. SQLite uses the byte order
      // of the platform, which is little-endian here.
      big_endian_ = false;
    }
    if (!is_page_size(wal_.page_size)) return;
    count_ = (bytes.size() - kWalHeader) / frame_size();
    salts_ = is_header_good ? big_endian(bytes, 16, 8) : usual_salts();
  }

  Wal read() {
    if (!is_page_size(wal_.page_size)) return std::move(wal_);
    std::size_t end = 0;  // end of the frames that were written since the WAL was last reset
    for (std::size_t i = 0; i < count_; ++i)
      if (is_of_this_file(i)) end = i + 1;
    Sum before = stored_;
    bool is_readable = !wal_.is_damaged;
    for (std::size_t i = 0; i < end; ++i) {
      const Sum is = sum_of(i, before);
      bool is_good = is == stored_in(i);
      // If the next frame's checksum is right, this frame's content is good and only its stored
      // checksum is damaged.
      if (!is_good && i + 1 < end && sum_of(i + 1, is) == stored_in(i + 1)) is_good = true;
      is_readable = is_readable && is == stored_in(i) && salts_in(i) == salts_;
      if (is_readable) wal_.readable = i + 1;
      before = is_good ? is : stored_in(i);
      const std::size_t at = at_of(i);
      wal_.frames.push_back({word(bytes_, at), word(bytes_, at + 4), is_good, at + kFrameHeader});
    }
    while (!wal_.frames.empty() && wal_.frames.back().pages_at_commit == 0) wal_.frames.pop_back();
    wal_.is_damaged = wal_.frames.size() > wal_.readable;
    return std::move(wal_);
  }

 private:
  [[nodiscard]] std::size_t frame_size() const { return kFrameHeader + wal_.page_size; }
  [[nodiscard]] std::size_t at_of(std::size_t i) const { return kWalHeader + i * frame_size(); }
  [[nodiscard]] std::uint64_t salts_in(std::size_t i) const {
    return big_endian(bytes_, at_of(i) + 8, 8);
  }
  /// Whether the frame was written since the WAL was last reset. Older frames have different salts.
  /// Tolerates two flipped bits in the salts.
  [[nodiscard]] bool is_of_this_file(std::size_t i) const {
    return std::popcount(salts_in(i) ^ salts_) <= 2;
  }
  [[nodiscard]] Sum stored_in(std::size_t i) const {
    return {word(bytes_, at_of(i) + 16), word(bytes_, at_of(i) + 20)};
  }
  [[nodiscard]] Sum sum_of(std::size_t i, Sum before) const {
    const Sum head = add(before, bytes_.substr(at_of(i), 8), big_endian_);
    return add(head, bytes_.substr(at_of(i) + kFrameHeader, wal_.page_size), big_endian_);
  }
  [[nodiscard]] std::uint64_t usual_salts() const {
    std::map<std::uint64_t, std::size_t> counts;
    for (std::size_t i = 0; i < count_; ++i) ++counts[salts_in(i)];
    const auto most =
        std::max_element(counts.begin(), counts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == counts.end() ? 0 : most->first;
  }

  std::string_view bytes_;
  Wal wal_;
  Sum stored_;
  bool big_endian_ = false;
  std::size_t count_ = 0;
  std::uint64_t salts_ = 0;
};

// Functions that read rows.

/// Reads numbers from bytes. A read beyond the end marks the cursor as bad.
class Cursor {
 public:
  Cursor(std::string_view bytes, std::size_t at) : bytes_(bytes), at_(at) {}
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int i = 0; i < 9; ++i) {
      if (at_ >= bytes_.size()) {
        good_ = false;
        return 0;
      }
      const auto byte = static_cast<std::uint8_t>(bytes_[at_++]);
      if (i == 8) return value << 8U | byte;
      value = value << 7U | (byte & 0x7fU);
      if ((byte & 0x80U) == 0) break;
    }
    return value;
  }
  [[nodiscard]] std::size_t at() const { return at_; }
  [[nodiscard]] bool is_good() const { return good_; }

 private:
  std::string_view bytes_;
  std::size_t at_;
  bool good_ = true;
};

class Pages {
 public:
  Pages(std::string_view image, std::uint32_t page_size) : image_(image), size_(page_size) {}

  std::vector<StoredRecord> records() const {
    std::vector<StoredRecord> found;
    for (std::uint32_t page = 1; page <= count(); ++page) read_page(page, found);
    return found;
  }

 private:
  static constexpr std::size_t kMostPayload = 16U << 20U;
  [[nodiscard]] std::uint32_t count() const {
    return static_cast<std::uint32_t>(image_.size() / size_);
  }
  [[nodiscard]] std::string_view page(std::uint32_t number) const {
    return image_.substr((number - 1) * static_cast<std::size_t>(size_), size_);
  }

  void read_page(std::uint32_t number, std::vector<StoredRecord>& found) const {
    constexpr std::uint8_t kLeaf = 0x0d, kInner = 0x05, kIndexLeaf = 0x0a, kIndexInner = 0x02;
    const std::string_view bytes = page(number);
    const std::size_t head = number == 1 ? kDatabaseHeader : 0;
    const auto type = static_cast<std::uint8_t>(bytes[head]);
    if (type == kInner || type == kIndexLeaf || type == kIndexInner) return;
    const std::size_t cells = big_endian(bytes, head + 3, 2);
    // Search the whole page, because the page's type and its number of cells may be damaged. A row
    // is recognised by its checksum.
    bool is_damaged = type != kLeaf;
    for (std::size_t i = 0, at = head + 8; at + 2 <= size_ && i < size_ / 8; ++i, at += 2) {
      const std::size_t cell = big_endian(bytes, at, 2);
      const bool is_live = i < cells && type == kLeaf, is_place = cell > at && cell < size_;
      if (!is_live && !is_place) break;
      auto record = is_place ? read_cell(bytes, cell) : std::nullopt;
      // The row exists but cannot be read, so record that a row is damaged here.
      if (!record) record.emplace();
      record->is_live = is_live;
      is_damaged = is_damaged || (is_live && !record->is_good);
      if (record->is_good || is_live) found.push_back(*std::move(record));
    }
    if (is_damaged) search(bytes, head + 8, found);
  }

  /// Finds rows at any offset, even if no pointer leads to them.
  void search(std::string_view bytes, std::size_t from, std::vector<StoredRecord>& found) const {
    for (std::size_t at = from; at < size_; ++at) {
      auto record = read_cell(bytes, at);
      if (!record || !record->is_good) record = row_of(bytes.substr(at), 0);
      if (record && record->is_good) found.push_back(*std::move(record));
    }
  }

  [[nodiscard]] std::optional<StoredRecord> read_cell(std::string_view bytes,
                                                      std::size_t at) const {
    Cursor cursor(bytes, at);
    const std::uint64_t size = cursor.varint(), rowid = cursor.varint();
    if (!cursor.is_good() || size < 5 || size > kMostPayload) return std::nullopt;
    const auto payload = payload_of(bytes, cursor.at(), size);
    return payload ? row_of(*payload, rowid) : std::nullopt;
  }

  [[nodiscard]] std::optional<std::string> payload_of(std::string_view bytes, std::size_t at,
                                                      std::uint64_t size) const {
    const std::uint64_t most = size_ - 35, least = (size_ - 12) * 32 / 255 - 23;
    std::uint64_t here = size;
    if (size > most) {
      here = least + (size - least) % (size_ - 4);
      if (here > most) here = least;
    }
    if (at + here + (here < size ? 4 : 0) > bytes.size()) return std::nullopt;
    std::string payload(bytes.substr(at, here));
    std::uint32_t next = here < size ? word(bytes, at + here) : 0;
    while (payload.size() < size) {
      if (next == 0 || next > count()) return std::nullopt;
      const std::string_view more = page(next);
      payload += more.substr(4, std::min<std::size_t>(size - payload.size(), size_ - 4));
      next = word(more, 0);
    }
    return payload;
  }

  struct Column {
    std::uint64_t type = 0;
    std::string_view bytes;
    [[nodiscard]] bool is_text() const { return type >= 13 && type % 2 == 1; }
    [[nodiscard]] bool is_blob() const { return type >= 12 && type % 2 == 0; }
    [[nodiscard]] bool is_number() const {
      return (type >= 1 && type <= 6) || type == 8 || type == 9;
    }
    [[nodiscard]] std::int64_t number() const {
      if (type == 8 || type == 9) return static_cast<std::int64_t>(type - 8);
      std::uint64_t value = big_endian(bytes, 0, bytes.size());
      const auto bits = 8 * bytes.size();
      if (bits < 64 && (value >> (bits - 1) & 1U) != 0) value |= ~std::uint64_t{0} << bits;
      return static_cast<std::int64_t>(value);
    }
  };

  static std::optional<std::array<Column, 4>> columns_of(std::string_view payload) {
    Cursor head(payload, 0);
    const std::uint64_t head_size = head.varint();
    std::array<Column, 4> columns;
    for (Column& one : columns) one.type = head.varint();
    if (!head.is_good() || head.at() != head_size) return std::nullopt;
    std::size_t at = head_size;
    constexpr std::array<std::size_t, 10> kSizes{0, 1, 2, 3, 4, 6, 8, 8, 0, 0};
    for (Column& one : columns) {
      const std::size_t size = one.type >= 12             ? (one.type - 12) / 2
                               : one.type < kSizes.size() ? kSizes[one.type]
                                                          : payload.size() + 1;
      if (size > payload.size() || at > payload.size() - size) return std::nullopt;
      one.bytes = payload.substr(at, size);
      at += size;
    }
    return columns;
  }

  static std::optional<StoredRecord> row_of(std::string_view payload, std::uint64_t rowid) {
    const auto columns = columns_of(payload);
    if (!columns) return std::nullopt;
    const auto& [key, bytes, revision, sum] = *columns;
    if (!revision.is_number() || !sum.is_number()) return std::nullopt;
    StoredRecord row;
    if (key.type == 0 && (bytes.is_text() || bytes.is_blob())) {
      row.kind = bytes.is_text() ? "job" : "launch";
      row.key = std::to_string(rowid);
    } else if (key.is_text() && bytes.is_text()) {
      row.kind = "value";
      row.key = key.bytes;
    } else {
      return std::nullopt;
    }
    row.bytes = bytes.bytes;
    row.revision = revision.number();
    row.sum = sum.number();
    const auto fits = [&] {
      return record_sum(row.kind, row.key, row.revision, row.bytes) == row.sum;
    };
    row.is_good = fits();
    if (row.is_good || row.kind != "job") return row;
    // The number of the row may be damaged. The record contains the number a second time.
    if (const auto job = job_of(row.bytes)) {
      const std::string key_before = std::exchange(row.key, std::to_string(job->id));
      row.is_good = fits();
      if (!row.is_good) row.key = key_before;
    }
    return row;
  }

  std::string_view image_;
  std::size_t size_;
};

}  // namespace

Wal read_wal(std::string_view bytes, std::uint32_t page_size) {
  return bytes.size() <= kWalHeader ? Wal{} : WalReader(bytes, page_size).read();
}

std::uint32_t page_size_of(std::string_view database) {
  if (database.size() < kDatabaseHeader) return 0;
  const auto size = static_cast<std::uint32_t>(big_endian(database, 16, 2));
  const std::uint32_t told = size == 1 ? 65536 : size;
  return is_page_size(told) ? told : 0;
}

std::string with_frames(std::string_view database, std::string_view wal_bytes, const Wal& wal,
                        Frames which) {
  std::string image(database);
  const std::size_t most = database.size() + wal.frames.size() * wal.page_size;
  std::size_t count =
      which == Frames::kReadable ? std::min(wal.readable, wal.frames.size()) : wal.frames.size();
  while (count > 0 && wal.frames[count - 1].pages_at_commit == 0) --count;
  for (std::size_t i = 0; i < count; ++i) {
    const Wal::Frame& frame = wal.frames[i];
    if (which == Frames::kGood && !frame.is_good) continue;
    const std::size_t end = static_cast<std::size_t>(frame.page) * wal.page_size;
    if (frame.page == 0 || end > most) continue;
    if (image.size() < end) image.resize(end, '\0');
    image.replace(end - wal.page_size, wal.page_size, wal_bytes.substr(frame.at, wal.page_size));
  }
  return image;
}

std::vector<StoredRecord> records_in(std::string_view image, std::uint32_t page_size) {
  return is_page_size(page_size) ? Pages(image, page_size).records() : std::vector<StoredRecord>();
}

}  // namespace berth::broker
