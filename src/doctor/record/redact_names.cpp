// Replaces names of users, machines and devices in text. Some components of a path are always
// names, such as the one after /home, and are always replaced. Elsewhere, only known names are
// replaced.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doctor/record/redact.hpp"

namespace berth::doctor {
namespace {

constexpr std::string_view kEnds = "/\\:\"'` \t\r\n,;<>|()[]{}&*?=";
constexpr std::size_t kLongestName = 64;
// Names that do not identify a user: they exist on every system, or are placeholders.
constexpr auto kNobody =
    std::to_array<std::string_view>({"root", "nobody", "localhost", "user", "home", "..", "."});
// Names of accounts and hosts that are also names of systems, packages or folders. Replacing them
// everywhere would change other recorded facts.
constexpr auto kWords = std::to_array<std::string_view>(
    {"admin",   "alma",   "amazon", "amd",    "arch",    "backup", "bin",      "centos",  "compute",
     "conda",   "core",   "cuda",   "data",   "debian",  "dev",    "develop",  "docker",  "driver",
     "fedora",  "gpu",    "guest",  "host",   "intel",   "jax",    "jetson",   "jupyter", "kernel",
     "lab",     "lib",    "lib64",  "linux",  "local",   "log",    "main",     "model",   "models",
     "node",    "nvidia", "ollama", "oracle", "package", "pi",     "podman",   "proc",    "python",
     "python3", "rhel",   "rocky",  "rocm",   "server",  "slurm",  "software", "suse",    "sys",
     "system",  "test",   "tmp",    "torch",  "train",   "triton", "ubuntu",   "usr",     "var",
     "venv",    "vllm",   "work",   "wsl"});
constexpr auto kHomes =
    std::to_array<std::string_view>({"home", "homes", "users", "Users", "scratch"});
constexpr auto kOfSystem = std::to_array<std::string_view>(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "usr"});

template <typename Words>
bool is_one_of(std::string_view word, const Words& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool in_word(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
}
bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool ends_part(char c) {
  return c == '\0' || kEnds.find(c) != std::string_view::npos;
}
bool is_slash(char c) {
  return c == '/' || c == '\\';
}

bool names_somebody(std::string_view part) {
  return !part.empty() && !is_one_of(part, kNobody) && !part.starts_with('$') &&
         !part.starts_with('%') && !part.starts_with("…");
}

std::string_view without_last_dots(std::string_view part) {
  while (part.size() > 1 && part.ends_with('.')) part.remove_suffix(1);
  return part;
}

/// Position and length of the number in "Serial Number: 1324521001234"; {0, 0} if there is none.
std::pair<std::size_t, std::size_t> serial_in(std::string_view text) {
  constexpr std::string_view kWord = "serial";
  if (text.size() < kWord.size() || (text[0] != 's' && text[0] != 'S')) return {};
  for (std::size_t i = 1; i < kWord.size(); ++i)
    if ((text[i] | 0x20) != kWord[i]) return {};
  std::size_t at = kWord.size();
  while (at < text.size() && at < 20 && (is_letter(text[at]) || text[at] == ' ' || text[at] == '_'))
    ++at;
  if (at == text.size() || (text[at] != ':' && text[at] != '=')) return {};
  at = std::min(text.find_first_not_of(" \t", at + 1), text.size());
  std::size_t end = at;
  bool has_digit = false;
  for (; end < text.size() && (in_word(text[end]) || text[end] == '-'); ++end)
    has_digit = has_digit || (text[end] >= '0' && text[end] <= '9');
  return has_digit && end - at >= 6 ? std::pair(at, end - at)
                                    : std::pair<std::size_t, std::size_t>();
}

/// Length of the MAC address or id at the start of the text; 0 if there is none. Examples:
/// "00:11:22:33:44:55", "enx001122334455", "3f2504e0-4f89-11d3-9a0c-0305e82c3301".
std::size_t address_at(std::string_view text) {
  const auto matches = [&](std::string_view shape) {
    if (text.size() < shape.size()) return false;
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (shape[i] == 'h' ? !is_hex(text[i]) : text[i] != shape[i]) return false;
    return text.size() == shape.size() || !in_word(text[shape.size()]);
  };
  // Not an id of this machine: this GUID in the name of the EFI variable SecureBoot is always the
  // same.
  if (text.starts_with("8be4df61-93ca-11d2-aa0d-00e098032b8c")) return 0;
  for (const std::string_view shape : {"hh:hh:hh:hh:hh:hh", "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh",
                                       "enxhhhhhhhhhhhh", "wlxhhhhhhhhhhhh", "wwxhhhhhhhhhhhh"})
    if (matches(shape)) return shape.size();
  return 0;
}

/// What the start of a path shows about its next component.
struct Place {
  enum class Names { kAnything, kPerson, kMachine } names = Names::kAnything;
  std::string_view initials;  // folder between home and the user's name: "d" in /home/d/dave
  bool has_blanks = false;    // the name may contain spaces: "/mnt/c/Users/Ada Lovelace"
  bool is_below = false;      // the component is not the first one of the path
  bool of_system = false;     // the path begins with /usr, /etc or similar

  /// Returns the Place of the component after `part`; this object is the Place of `part`.
  /// `is_first`: `part` is the first component of an absolute path. `is_word`: no slash precedes
  /// `part`.
  [[nodiscard]] Place below(std::string_view part, bool is_first, bool is_word) const {
    Place next = *this;
    next.is_below = true;
    if (part.empty()) return next;  // "//"
    next.of_system = is_first ? is_one_of(part, kOfSystem) : of_system;
    next.names = Names::kAnything;
    next.initials = {};
    next.has_blanks = part == "Users";
    const bool was_person = names == Names::kPerson && initials.empty();
    if (is_first && part == "net") {
      next.names = Names::kMachine;
    } else if (!is_word && (is_one_of(part, kHomes) || (is_first && part == "u"))) {
      next.names = Names::kPerson;
    } else if (was_person && part.size() <= 2) {
      next.names = Names::kPerson;
      next.initials = part;
    }
    return next;
  }
  [[nodiscard]] bool is_for_name(std::string_view part) const {
    // A component with a leading dot is not a user: in "/srv/x/home/.config", "home" may be the
    // home folder.
    if (names == Names::kAnything || !names_somebody(part) || part.starts_with('.')) return false;
    return initials.empty() || (part.starts_with(initials) && part.size() > 2 &&
                                !part.starts_with("lib") && !is_one_of(part, kWords));
  }
};

/// The end of the path component that begins at `begin`.
std::size_t end_of_part(std::string_view text, std::size_t begin, bool has_blanks) {
  std::size_t end = begin;
  while (end < text.size() && !ends_part(text[end])) ++end;
  if (!has_blanks || end == text.size() || text[end] != ' ') return end;
  std::size_t further = end;
  while (further < text.size() && (text[further] == ' ' || !ends_part(text[further]))) ++further;
  return further < text.size() && is_slash(text[further]) ? further : end;
}

}  // namespace

bool has_homes(std::string_view folder) {
  return folder == "/u" || folder == "/net" ||
         is_one_of(folder.substr(folder.rfind('/') + 1), kHomes);
}

Redaction::Name& Redaction::name_of(std::string_view name, bool is_host) {
  if (const auto found = names_.find(name); found != names_.end()) return found->second;
  const int number = is_host ? ++hosts_ : ++users_;
  std::string by = is_host ? number == 1 ? "HOST" : fmt::format("HOST{}", number)
                           : fmt::format("user{}", number);
  return names_.emplace(name, Name{std::move(by), 0, false, is_host}).first->second;
}

void Redaction::hide_user(const std::string& name) {
  if (names_somebody(name) && !is_one_of(name, kHomes))
    name_of(name, false).everywhere = !is_one_of(name, kWords);
}

void Redaction::hide_host(const std::string& name) {
  if (!names_somebody(name)) return;
  Name& whole = name_of(name, true);
  whole.everywhere = !is_one_of(name, kWords);
  // For "gpu7.corp.example", also hides "gpu7". The first part of an IP address, such as "10", is
  // not a host name.
  const std::string first = name.substr(0, name.find('.'));
  if (first.size() > 2 && is_letter(first[0]))
    names_.try_emplace(first, Name{whole.by, 0, !is_one_of(first, kWords), true});
}

std::string Redaction::replaced(std::string_view name, bool is_host) {
  const std::string_view plain = without_last_dots(name);
  Name& one = name_of(plain, is_host);
  ++one.times;
  return one.by + std::string(name.substr(plain.size()));
}

/// The longest known name in `part` that begins at `begin`; empty if there is none.
std::string_view Redaction::known_at(std::string_view part, std::size_t begin,
                                     bool is_whole_part) const {
  for (std::size_t end = std::min(part.size(), begin + kLongestName); end > begin; --end) {
    if (end < part.size() && in_word(part[end])) continue;
    const std::string_view name = part.substr(begin, end - begin);
    // A name of two letters would match in many words, so it is only replaced as a whole component.
    if (name.size() < 3 && (!is_whole_part || name.size() < part.size())) continue;
    if (const auto found = names_.find(name); found != names_.end() && found->second.everywhere)
      return name;
  }
  return {};
}

/// Replaces known names in `part`, which is a path component or a word. `is_folder`: a slash
/// follows `part`.
std::string Redaction::without_known(std::string_view part, bool is_below, bool of_system,
                                     bool is_folder) {
  std::string out;
  for (std::size_t at = 0; at < part.size();) {
    const bool begins = in_word(part[at]) && (at == 0 || !in_word(part[at - 1]));
    const std::string_view name = begins ? known_at(part, at, is_below && !of_system) : "";
    if (name.empty()) {
      out += part[at++];
      continue;
    }
    std::size_t end = at + name.size();
    const bool is_host = names_.find(name)->second.is_host;
    const bool goes_on = end + 1 < part.size() && part[end] == '.' && in_word(part[end + 1]);
    const std::size_t mark = part.find('@', end);
    if (is_host && goes_on && (!is_below || is_folder)) {  // replaces the host's domain too
      while (end < part.size() && (in_word(part[end]) || part[end] == '-' ||
                                   (part[end] == '.' && end + 1 < part.size())))
        ++end;
    } else if (!is_host && (is_folder || mark != std::string_view::npos) &&
               (goes_on ||
                (at > 1 && part[at - 1] == '.'))) {  // in "alice.smith", also replace "smith"
      end = std::min(mark, part.size());
      out.clear();
      at = 0;
      out += replaced(part.substr(0, end), false);
      at = end;
      continue;
    }
    out += replaced(name, is_host);
    at = end;
  }
  return out;
}

std::string Redaction::apply(std::string_view raw) {
  const std::string text = without_devices(raw);
  std::string out;
  Place place;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = end_of_part(text, at, place.has_blanks);
    const std::string_view part = std::string_view(text).substr(at, end - at);
    const bool is_folder = end < text.size() && is_slash(text[end]);
    if (place.is_for_name(part))
      out += replaced(part, place.names == Place::Names::kMachine);
    else
      out += without_known(part, place.is_below, place.of_system, is_folder);
    if (end < text.size()) out += text[end];
    const bool is_first = at > 0 && is_slash(text[at - 1]) &&
                          (at == 1 || (ends_part(text[at - 2]) && !is_slash(text[at - 2])));
    place = is_folder ? place.below(part, is_first, !place.is_below && at > 0) : Place();
    at = end + 1;
  }
  return out;
}

std::string Redaction::apply_in_place(std::string_view bytes) {
  std::string out(bytes);
  for (auto slash = out.find('/'); slash != std::string::npos; slash = out.find('/', slash + 1)) {
    std::size_t end = slash + 1;
    while (end < out.size() && end - slash <= kLongestName && !ends_part(out[end]) &&
           static_cast<unsigned char>(out[end]) > ' ')
      ++end;
    const std::string part = out.substr(slash + 1, end - slash - 1);
    if (end == out.size() || !names_somebody(part)) continue;
    const std::size_t above = slash == 0 ? std::string::npos : out.rfind('/', slash - 1);
    const bool is_home =
        above != std::string::npos &&
        is_one_of(std::string_view(out).substr(above + 1, slash - above - 1), kHomes);
    const bool is_known = out[end] == '/' && !known_at(part, 0, false).empty() &&
                          known_at(part, 0, false).size() == part.size();
    if ((!is_home || part.starts_with('.')) && !is_known) continue;
    // The length must stay the same, because other data refers to offsets. "/home/user1//lib" is
    // the same folder as "/home/user1/lib".
    std::string by = replaced(part, false);
    if (by.size() > part.size()) by = std::string(part.size(), 'x');
    by.resize(part.size(), '/');
    out.replace(slash + 1, part.size(), by);
  }
  return out;
}

std::vector<std::string> Redaction::report() const {
  std::map<std::pair<std::size_t, std::string>, int> times;  // sorts user2 before user10
  for (const auto& [name, one] : names_)
    if (one.times > 0) times[{one.by.size(), one.by}] += one.times;
  if (devices_ > 0) times[{0, "GPU-…"}] = devices_;
  if (!units_.empty())
    times[{0, std::string(tr("addresses and numbers of devices"))}] =
        static_cast<int>(units_.size());
  for (const auto& [serial, by] : serials_) times[{by.size(), by}] += 1;
  std::vector<std::string> lines;
  for (const auto& [by, count] : times)
    lines.push_back(text_n("{1}: {0} time", "{1}: {0} times", count, count, by.second));
  return lines;
}

/// Returns a replacement for a GPU uuid. An abbreviation still matches: if "GPU-8a" is the start of
/// a uuid, its replacement is the start of the uuid's replacement.
std::string Redaction::device(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789abcdefABCDEF";
  std::string out(name.substr(0, 4));
  for (std::size_t at = 4; at < name.size(); ++at) {
    if (name[at] == '-') {
      out += '-';
      continue;
    }
    std::string& seen = digits_[std::string(name.substr(0, at))];
    std::size_t digit = seen.find(name[at]);
    if (digit == std::string::npos) {
      digit = seen.size();
      seen += name[at];
    }
    out += kDigits[digit];
  }
  ++devices_;
  return out;
}

/// Replaces a MAC address, disk id or machine id by another one of equal length. The same id always
/// has the same replacement.
std::string Redaction::unit(std::string_view name) {
  const auto [found, is_new] = units_.try_emplace(std::string(name), "");
  if (!is_new) return found->second;
  std::string digits = fmt::format("{:x}", units_.size());
  std::string by(name);
  const std::size_t from = is_hex(name[0]) && is_hex(name[1]) ? 0 : 3;  // "enx"
  for (std::size_t i = by.size(); i-- > from;)
    if (is_hex(by[i])) {
      by[i] = digits.empty() ? '0' : digits.back();
      if (!digits.empty()) digits.pop_back();
    }
  return found->second = by;
}

/// Replaces GPU uuids and board serial numbers.
std::string Redaction::without_devices(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const bool begins = at == 0 || !in_word(text[at - 1]);
    std::size_t end = 4;
    if (begins && (rest.starts_with("GPU-") || rest.starts_with("MIG-"))) {
      while (end < rest.size() && (is_hex(rest[end]) || rest[end] == '-')) ++end;
      if (end > 4 && (end == rest.size() || !in_word(rest[end]))) {
        out += device(rest.substr(0, end));
        at += end;
        continue;
      }
    }
    if (const std::size_t size = begins ? address_at(rest) : 0; size > 0) {
      out += unit(rest.substr(0, size));
      at += size;
      continue;
    }
    if (const auto [begin, size] = begins ? serial_in(rest) : std::pair<std::size_t, std::size_t>();
        size > 0) {
      const std::string by = fmt::format("serial{}", serials_.size() + 1);
      out += rest.substr(0, begin);
      out += serials_.try_emplace(std::string(rest.substr(begin, size)), by).first->second;
      at += begin + size;
      continue;
    }
    out += text[at++];
  }
  return out;
}

}  // namespace berth::doctor
