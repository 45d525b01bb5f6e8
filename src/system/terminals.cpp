#include "system/terminals.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <utmpx.h>

#include <algorithm>
#include <cstring>

#include "base/descriptor.hpp"

namespace berth::system {
namespace {

constexpr unsigned kPtsFirst = 136, kPtsLast = 143, kConsoles = 4, kSerial = 64;

/// The terminal in field 7 of /proc/PID/stat. This number contains major and minor, packed as
/// proc(5) describes.
std::string terminal_in(std::string_view stat, const std::string& dev) {
  const auto close = stat.rfind(')');
  if (close == std::string_view::npos) return {};
  const auto fields = split(trim(stat.substr(close + 1)), ' ');
  const auto packed = fields.size() > 4 ? to_number(fields[4]) : std::nullopt;
  if (!packed || *packed <= 0) return {};
  const auto bits = static_cast<std::uint64_t>(*packed);
  const auto major = static_cast<unsigned>((bits >> 8U) & 0xfffU);
  const auto minor = static_cast<unsigned>((bits & 0xffU) | ((bits >> 12U) & 0xfff00U));
  if (major >= kPtsFirst && major <= kPtsLast)
    return dev + "/pts/" + std::to_string((major - kPtsFirst) * 256 + minor);
  if (major == kConsoles && minor < kSerial) return dev + "/tty" + std::to_string(minor);
  return {};
}

template <std::size_t N>
std::string_view field(const char (&bytes)[N]) {  // NOLINT(modernize-avoid-c-arrays): utmpx(5)
  return {static_cast<const char*>(bytes), ::strnlen(static_cast<const char*>(bytes), N)};
}

}  // namespace

std::vector<std::string> terminals_of(const Roots& roots, const std::string& utmp, std::int64_t pid,
                                      std::string_view user) {
  std::vector<std::string> found;
  const auto add = [&](std::string path) {
    if (!path.empty() && std::find(found.begin(), found.end(), path) == found.end())
      found.push_back(std::move(path));
  };
  add(terminal_in(slurp(roots.proc + "/" + std::to_string(pid) + "/stat", 4096).value_or(""),
                  roots.dev));
  const std::string entries = slurp(utmp, 4U << 20U).value_or("");
  for (std::size_t at = 0; at + sizeof(utmpx) <= entries.size(); at += sizeof(utmpx)) {
    utmpx one{};
    std::memcpy(&one, entries.data() + at, sizeof one);
    const std::string_view line = field(one.ut_line);
    const bool is_sound = !line.empty() && line.find("..") == std::string_view::npos &&
                          line.find(':') == std::string_view::npos;
    if (one.ut_type == USER_PROCESS && field(one.ut_user) == user && is_sound)
      add(roots.dev + "/" + std::string(line));
  }
  return found;
}

bool tell_terminal(const std::string& path, std::uint32_t owner, std::string_view sentence) {
  const Descriptor terminal(
      ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about {};
  if (!terminal || ::fstat(terminal.get(), &about) != 0 || !S_ISCHR(about.st_mode)) return false;
  const unsigned kind = ::major(about.st_rdev);
  const bool is_terminal = kind == kConsoles || (kind >= kPtsFirst && kind <= kPtsLast);
  if (!is_terminal || about.st_uid != owner) return false;
  std::string line = "\r\n";
  for (const std::string_view part : split(sentence, '\n')) line += printable(part) + "\r\n";
  return ::write(terminal.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

}  // namespace berth::system
