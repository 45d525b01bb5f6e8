#include "doctor/record/redact.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "doctor/facts/nvidia.hpp"
#include "doctor/facts/package_index.hpp"
#include "doctor/knowledge/contains_any.hpp"
#include "doctor/record/share.hpp"
#include "doctor/record/shareable_names.hpp"

namespace berth::doctor {
namespace {

bool is_shareable(std::string_view name) {
  if (contains_any(name, share::secret_parts())) return false;
  if (share::has(share::variables(), name)) return true;
  return name.ends_with("IFNAME") || name == "OLLAMA_ORIGINS" || name == "OLLAMA_REMOTES" ||
         ((name.ends_with("_DEVICE") || share::begins_with_any(name, share::variable_prefixes())) &&
          !contains_any(name, share::machine_parts()));
}

/// Whether the word is a host with a port, or an IPv6 address: "gpu8:1234", "fe80::1",
/// "[fe80::1]:80".
bool is_address_with_colons(std::string_view word) {
  const std::size_t last = word.rfind(':');
  if (last == std::string_view::npos || word.find('/') != std::string_view::npos) return false;
  constexpr std::string_view kDigits = "0123456789", kLetters = "abcdefABCDEF";
  const bool has_port =
      word.size() - last > 2 && word.find_first_not_of(kDigits, last + 1) == word.npos;
  if (has_port && std::any_of(word.begin(), word.end(),
                              [](unsigned char c) { return std::isalpha(c) != 0 || c == ']'; }))
    return true;
  return word.find(':') != last &&
         (word.find("::") != word.npos || word.find_first_of(kLetters) != word.npos ||
          std::count(word.begin(), word.end(), ':') > 4) &&
         word.find_first_not_of("0123456789abcdefABCDEF:[]%") == word.npos;
}

/// Whether the word is the address of a host: "10.0.0.7:1234", "gpu7.corp.example", "//fs/x". An
/// address is four numbers, or words with dots that are not the name of a file.
bool is_address(std::string_view word) {
  if (word.starts_with("//") || is_address_with_colons(word)) return true;
  word = word.substr(0, word.find(':'));
  const auto parts = split(word, '.');
  if (parts.size() < 2 || word.find('/') != std::string_view::npos) return false;
  const auto is_number = [](std::string_view part) {
    return !part.empty() && part.size() < 4 && part.find_first_not_of("0123456789") == part.npos;
  };
  if (parts.size() == 4 && std::all_of(parts.begin(), parts.end(), is_number)) return true;
  constexpr auto kFiles = std::to_array<std::string_view>(
      {"so", "py", "json", "xml", "txt", "conf", "toml", "yaml", "yml", "bin", "cfg", "log"});
  const std::string_view last = parts.back();
  return word.find(".so.") == word.npos && last.size() > 1 &&
         std::all_of(last.begin(), last.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }) &&
         std::find(kFiles.begin(), kFiles.end(), last) == kFiles.end();
}

/// Whether the value of an OLLAMA_ variable may be kept: a switch, a number, a duration, a path or
/// a backend. Other values may contain hosts.
bool is_plain_setting(std::string_view value) {
  constexpr auto kWords = std::to_array<std::string_view>({"true", "false", "on", "off"});
  return value.starts_with('/') || value.starts_with("cpu") || value.starts_with("cuda") ||
         value.starts_with("rocm") || value.find_first_not_of("0123456789.-hms") == value.npos ||
         std::find(kWords.begin(), kWords.end(), value) != kWords.end();
}

/// Whether the word may be kept because it does not identify the user: a number, a path, a GPU, or
/// a common word without digits ("gpu8" is the name of a machine).
bool is_everybodys(std::string_view word) {
  constexpr std::string_view kDigits = "0123456789";
  return word.starts_with('/') || word.starts_with("GPU-") || word.starts_with("MIG-") ||
         word.find_first_not_of("0123456789.+-") == word.npos ||
         (word.find_first_of(kDigits) == word.npos && is_common(word)) ||
         (word.starts_with("cuda:") && word.find_first_not_of(kDigits, 5) == word.npos);
}

bool is_asked(std::string_view name) {
  return name.ends_with("IFNAME") || name.starts_with("OLLAMA_") ||
         share::has(share::variables_read_whole(), name);
}

/// Keeps the only entry of GLIBC_TUNABLES ("name=value:name=value") that a rule reads.
std::string redacted_tunables(std::string_view value) {
  std::string redacted;
  for (const std::string_view one : split(value, ':'))
    if (one.starts_with("glibc.rtld.execstack="))
      redacted += (redacted.empty() ? "" : ":") + std::string(one.substr(0, one.find('=') + 2));
  return redacted;
}

std::string redacted_value(std::string_view name, const std::string& value) {
  if (name == "GLIBC_TUNABLES") return redacted_tunables(value);
  if (value.find("://") != std::string::npos ||
      (name.starts_with("OLLAMA_") && !is_plain_setting(value)) ||
      (name.ends_with("_DEVICE") && value.find('/') != std::string::npos))
    return "…";
  // Rules only need to know whether these flags choose a host compiler. They also contain paths and
  // definitions.
  if (name.starts_with("NVCC_") && name.ends_with("_FLAGS"))
    return value.find("ccbin") != std::string::npos ? "-ccbin …" : value.empty() ? "" : "…";
  if (share::has(share::variables_with_options(), name))
    return value.find('@') == std::string::npos ? value : "…";
  const bool is_kept_whole = share::has(share::variables(), name);
  const bool is_known = is_kept_whole || is_asked(name);
  for (std::size_t at = 0; at < value.size();) {
    const std::size_t end = std::min(value.find_first_of(" ,;=", at), value.size());
    const std::string_view word = std::string_view(value).substr(at, end - at);
    // a path may contain "@": "/opt/python@3.12/bin"
    const bool is_path = is_kept_whole && word.starts_with('/');
    if (is_address(word) || word.starts_with("-D") || (!is_known && !is_everybodys(word)) ||
        (!is_path && word.find('@') != word.npos))
      return "…";
    at = end + 1;
  }
  return value;
}

/// Replaces the name of the program before a pid: "python3[4711]: segfault …" → "…[4711]: segfault
/// …". Also replaces it in "traps: python3[4711] general …".
std::string without_word_before_pid(std::string_view line) {
  for (auto at = line.find('['); at != std::string_view::npos; at = line.find('[', at + 1)) {
    const auto end = line.find_first_not_of("0123456789", at + 1);
    if (end == at + 1 || end == std::string_view::npos ||
        !(line.substr(end).starts_with("]:") || line.substr(end).starts_with("] ") ||
          line.substr(end) == "]"))
      continue;
    const std::size_t last = line.substr(0, at).find_last_not_of(' ');
    if (last == std::string_view::npos) continue;
    const auto blank = line.substr(0, last).find_last_of(" \t");
    const std::size_t begin = blank == std::string_view::npos ? 0 : blank + 1;
    return std::string(line.substr(0, begin)) + "…" + std::string(line.substr(at));
  }
  return std::string(line);
}

std::string replaced(std::string_view line, std::string_view begin, char end) {
  const auto at = line.find(begin);
  if (at == std::string_view::npos) return std::string(line);
  const auto stop = line.find(end, at);
  std::string redacted(line.substr(0, at + begin.size()));
  redacted += "…";
  if (stop != std::string_view::npos) redacted += line.substr(stop);
  return redacted;
}

/// Replaces the name of the killed program in
/// "oom-kill:…,task_memcg=/user.slice/…,task=train.py,pid=4711" and in "Killed process 4711
/// (train.py)".
std::string without_ended_name(std::string_view line) {
  std::string redacted = replaced(line, "task_memcg=", ',');
  for (const auto& [begin, end] : {std::pair(",task=", ','), std::pair("Killed process ", ')')}) {
    auto at = redacted.find(begin);
    if (at == std::string::npos) continue;
    at = end == ')' ? redacted.find('(', at) + 1 : at + std::string_view(begin).size();
    const auto stop = redacted.find(end, at);
    if (at == 0 || stop == std::string::npos) continue;
    if (!share::begins_with_any(std::string_view(redacted).substr(at), share::programs()) &&
        !share::begins_with_any(std::string_view(redacted).substr(at), share::compilers()))
      redacted.replace(at, stop - at, "…");
  }
  return redacted;
}

/// Replaces the names of programs in a line: "Xid …: 31, pid=4711, name=python, Ch 8" → "…
/// pid=4711, name=…, Ch 8"; "INFO: task python:4711 blocked …" → "INFO: task …:4711 blocked …".
std::string without_process_name(std::string_view line) {
  if (contains_any(line, std::to_array<std::string_view>({"oom-kill:", "Out of memory: Killed"})))
    return without_ended_name(line);
  if (line.find("blocked for more than") != std::string_view::npos)
    return replaced(line, "task ", ':');
  std::string redacted = without_word_before_pid(line);
  // A program's name may contain a comma. In an Xid line, ", " ends the name.
  if (const auto at = redacted.find(", name="); at != std::string::npos) {
    const auto stop = redacted.find(", ", at + 7);
    redacted.replace(at + 7, (stop == std::string::npos ? redacted.size() : stop) - at - 7, "…");
  } else {
    redacted = replaced(redacted, "name=", ',');
  }
  // The formats in which amdgpu, i915 and the kernel write a program's name.
  for (const auto& [begin, end] :
       {std::pair("rocess ", " pid"), std::pair("thread ", " pid"), std::pair("Comm: ", " "),
        std::pair("comm=\"", "\""), std::pair("Lockdown: ", ":"), std::pair(", in ", " […")}) {
    for (auto at = redacted.find(begin); at != std::string::npos; at = redacted.find(begin, at)) {
      at += std::string_view(begin).size();
      const auto stop = redacted.find(end, at);
      if (stop != std::string::npos && stop > at) redacted.replace(at, stop - at, "…");
    }
  }
  return redacted;
}

}  // namespace

Environment redacted_environment(const Environment& environment, std::set<std::string>& dropped) {
  Environment redacted;
  for (const auto& [name, value] : environment) {
    if (share::has(share::variables_as_set(), name))
      redacted.emplace(
          name, value.empty() || value == "localhost" || value.starts_with("127.") ? value : "…");
    // Keep only whether DOCKER_HOST is the socket of a rootless Docker, which is in the user's
    // folder.
    else if (name == "DOCKER_HOST")
      redacted.emplace(name, value.starts_with("unix:///run/user/") ? "unix:///run/user/…" : "…");
    else if (name == "DOCKER_CONTEXT")
      redacted.emplace(name, value == "desktop-linux" || value == "default" ? value : "…");
    else if (share::has(share::variables_of_indices(), name))
      redacted.emplace(name, without_hosts(value));
    else if (is_shareable(name))
      redacted.emplace(name, redacted_value(name, value));
    else
      dropped.insert(name);
  }
  return redacted;
}

std::string redacted_log(std::string_view log) {
  std::string redacted;
  for (const std::string_view line : split(log, '\n'))
    if (contains_any(line, share::log_words()) && line.find("ommand line:") == line.npos &&
        line.find("audit") == line.npos && line.find("apparmor=") == line.npos) {
      // Removes the start of a line from syslog: "Nov 23 01:28:19 gpu7 kernel: NVRM: …".
      const auto kernel = line.find(" kernel: ");
      const bool is_of_host_kernel = kernel < 64 && !line.starts_with('[');
      redacted += without_process_name(is_of_host_kernel ? line.substr(kernel + 9) : line) + "\n";
    }
  return redacted;
}

}  // namespace berth::doctor
