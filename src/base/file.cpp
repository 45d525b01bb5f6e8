#include "base/file.hpp"

#include "base/error_words.hpp"
#include "base/utf8.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/text.hpp"

namespace berth {

std::optional<std::string> slurp(const std::string& path, std::size_t limit, int* error_number) {
  if (error_number != nullptr) *error_number = 0;
  const auto fail = [&] {
    if (error_number != nullptr) *error_number = errno;
    return std::nullopt;
  };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file) return fail();
  std::string bytes;
  std::array<char, 4096>
      buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled by read()
  while (bytes.size() < limit) {
    const ssize_t n =
        ::read(file.get(), buffer.data(), std::min(buffer.size(), limit - bytes.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail();
    if (n == 0) break;
    bytes.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return bytes;
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  int problem = 0;
  auto bytes = slurp(path, limit, &problem);
  if (bytes) return std::move(*bytes);
  const ErrorCode code = problem == ENOENT                       ? ErrorCode::kNotFound
                         : problem == EACCES || problem == EPERM ? ErrorCode::kPermissionDenied
                                                                 : ErrorCode::kUnavailable;
  return Error{code, code == ErrorCode::kUnavailable ? "E0111" : "E0110",
               text("cannot read {}: {}", path, error_words(problem)), ""};
}

std::optional<std::string> read_line(const std::string& path) {
  const auto bytes = slurp(path, 4096);
  if (!bytes) return std::nullopt;
  return std::string(trim(std::string_view(*bytes).substr(0, bytes->find('\n'))));
}

std::optional<std::int64_t> read_number(const std::string& path) {
  const auto line = read_line(path);
  return line ? to_number(*line) : std::nullopt;
}

std::vector<std::string> list_folder(const std::string& path, std::size_t most) {
  std::vector<std::string> names;
  DIR* folder = ::opendir(path.c_str());
  if (folder == nullptr) return names;
  while (const dirent* entry =
             ::readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): its own stream
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (names.size() == most) break;
    names.emplace_back(name);
  }
  ::closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::string> link_name(const std::string& path) {
  std::array<char, 4096> target;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const ssize_t n = ::readlink(path.c_str(), target.data(), target.size());
  if (n <= 0) return std::nullopt;
  const std::string_view whole(target.data(), static_cast<std::size_t>(n));
  return std::string(whole.substr(whole.rfind('/') + 1));
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n\v\f");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n\v\f") - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::optional<std::int64_t> to_number(std::string_view text) {
  int base = 10;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    text.remove_prefix(2);
    base = 16;
  }
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (text.empty() || problem != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return number;
}

namespace {
/// The length of a UTF-8 sequence according to its first byte; 0 if no sequence starts with it.
std::size_t announced_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

/// Whether `second` may follow `lead`. Excludes overlong forms, surrogates, and code points above
/// U+10FFFF.
bool may_follow(unsigned char lead, unsigned char second) {
  const unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  return second >= least && second <= most;
}

/// The length of the valid UTF-8 sequence at the start of `bytes`; 0 if there is none (RFC 3629).
std::size_t sequence_length(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const std::size_t length = announced_length(at(0));
  if (length == 0 || length > bytes.size()) return 0;
  if (length > 1 && !may_follow(at(0), at(1))) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if ((at(i) & 0xC0U) != 0x80) return 0;
  return length;
}
}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t length = sequence_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = sequence_length(bytes);
    const auto lead = static_cast<unsigned char>(bytes[0]);
    const bool control =
        (length == 1 && (lead < 0x20 || lead == 0x7F)) ||
        (length == 2 && lead == 0xC2 && static_cast<unsigned char>(bytes[1]) < 0xA0);
    if (length == 0 || control)
      out += "\xEF\xBF\xBD";
    else
      out.append(bytes.substr(0, length));
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

}  // namespace berth
