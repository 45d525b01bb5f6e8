#include "base/file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"

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

std::optional<std::string> slurp_regular(const std::string& path, std::size_t limit,
                                         std::int64_t from) {
  const Descriptor file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat about = {};
  if (!file || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  const auto size = static_cast<std::size_t>(std::max<off_t>(0, about.st_size - from));
  std::string bytes(std::min(limit, size), '\0');
  const ssize_t n = ::pread(file.get(), bytes.data(), bytes.size(), from);
  bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
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

std::optional<std::string> link_target(const std::string& path) {
  std::array<char, 4096> target;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const ssize_t n = ::readlink(path.c_str(), target.data(), target.size());
  if (n <= 0) return std::nullopt;
  return std::string(target.data(), static_cast<std::size_t>(n));
}

std::optional<std::string> link_name(const std::string& path) {
  auto whole = link_target(path);
  if (whole) whole->erase(0, whole->rfind('/') + 1);
  return whole;
}

}  // namespace berth
