// What files of a machine tell in a bundle: what rules ask of them. Of others, and of what nobody
// could look through, no password that stands in an address.
#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "doctor/config_lines.hpp"
#include "doctor/contains_any.hpp"
#include "doctor/facts/nvidia.hpp"
#include "doctor/facts/package_index.hpp"
#include "doctor/facts/platform.hpp"
#include "doctor/redact.hpp"

namespace berth::doctor {
namespace {

constexpr auto kEngineWords = std::to_array<std::string_view>(
    {"nvidia", "runtime", "cgroup", "cdi", "userns", "exec-opts", "features", "shm-size",
     "containerd", "version", "plugins", "imports", "runc"});
constexpr auto kMetadataKeys = std::to_array<std::string_view>(
    {"Metadata-Version", "Name", "Version", "Requires-Dist", "Requires-Python", "Provides-Extra"});

/// "https://lin:secret@host/…" → "https://…@host/…".
std::string without_user_info(std::string_view text) {
  std::string told;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t scheme = text.find("://", at);
    const std::size_t host = scheme == std::string_view::npos ? text.size() : scheme + 3;
    told += text.substr(at, host - at);
    const std::size_t end = std::min(text.find_first_of(" \t\r\n\"'<>/", host), text.size());
    const std::size_t mark = text.substr(host, end - host).rfind('@');
    const bool has_user = host < text.size() && mark != std::string_view::npos;
    if (has_user) told += "…";
    at = has_user ? host + mark : host;
  }
  return told;
}

/// Of JSON and TOML of container engines: quoted words that no rule asks for become "…". Line by
/// line and without comments, so that no lonely quote turns words inside out.
std::string engine_settings(std::string_view text) {
  std::string told;
  for (const std::string_view line : split(text, '\n')) {
    if (!told.empty()) told += '\n';
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t quote = std::min(line.find_first_of("\"'#", at), line.size());
      told += line.substr(at, quote - at);
      if (quote == line.size() || line[quote] == '#') break;
      const std::size_t end = std::min(line.find(line[quote], quote + 1), line.size());
      const std::string_view word = line.substr(quote + 1, end - quote - 1);
      const bool is_asked = word.find("://") == std::string_view::npos &&
                            (word == "cri" || contains_any(word, kEngineWords));
      told += line[quote] + (is_asked || word.empty() ? std::string(word) : "…");
      if (end < line.size()) told += line[end];
      at = end + 1;
    }
  }
  return told;
}

/// "- TOKEN=secret" of what a device brings into a container.
std::string without_values(std::string_view text) {
  std::string told;
  for (std::string_view line : split(text, '\n')) {
    std::string kept(line);
    for (auto at = kept.find('='); at != std::string::npos; at = kept.find('=', at + 1)) {
      const auto begin = kept.find_last_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", at - 1);
      const std::size_t from = at == 0 ? 0 : begin == std::string::npos ? 0 : begin + 1;
      const std::string name = kept.substr(from, at - from);
      if (name.empty() || name.starts_with("NVIDIA_") || name.starts_with("CUDA_")) continue;
      const std::size_t end = std::min(kept.find_first_of("\"',]", at), kept.size());
      kept.replace(at + 1, end - at - 1, "…");
    }
    told += (told.empty() ? "" : "\n") + kept;
  }
  return told;
}

std::string package_metadata(std::string_view text) {
  std::string told;
  for (std::string_view line : split(text, '\n')) {
    if (trim(line).empty()) break;  // the description follows
    const std::string_view key = line.substr(0, std::min(line.find(':'), line.size()));
    if (std::find(kMetadataKeys.begin(), kMetadataKeys.end(), key) == kMetadataKeys.end()) continue;
    const auto address = line.find(" @ ");
    told += address == std::string_view::npos ? std::string(line)
                                              : std::string(line.substr(0, address)) + " @ …";
    told += "\n";
  }
  return told;
}

/// Of /proc/PID/mountinfo where something is mounted, how, and as which kind: servers, their
/// folders and passwords stand in the rest.
std::string mounts(std::string_view text) {
  std::string told;
  for (const std::string_view line : split(text, '\n')) {
    const auto words = split(line, ' ');
    if (words.size() < 6) continue;
    const auto dash = std::find(words.begin(), words.end(), "-");
    for (const std::size_t at : {0, 1, 2, 3, 4, 5})
      told += (at == 3 ? std::string("/") : std::string(words[at])) + " ";
    told += "- " + std::string(dash + 1 < words.end() ? dash[1] : "…") + " … …\n";
  }
  return told;
}

/// Lines that `keep` says yes to.
template <typename Keep>
std::string lines_of(std::string_view text, Keep keep) {
  std::string told;
  for (const std::string_view line : split(text, '\n'))
    if (!line.empty() && keep(trim(line))) told += std::string(line) + "\n";
  return told;
}

/// What rules read of a server's variables: of CUDA_VISIBLE_DEVICES which, of others that they are
/// set. "" none of these; a name is nothing but letters, so that no row of a value of several rows
/// looks like one.
std::string ollamas_variable(std::string_view setting) {
  const std::size_t equals = std::min(setting.find('='), setting.size());
  const std::string_view name = trim(setting.substr(0, equals));
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  if (name == "CUDA_VISIBLE_DEVICES") {
    std::string_view value = trim(setting.substr(std::min(equals + 1, setting.size())));
    if (value.size() > 1 && (value[0] == '"' || value[0] == '\'') && value.back() == value[0])
      value = value.substr(1, value.size() - 2);
    const bool is_list = std::all_of(value.begin(), value.end(), [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == ',' || c == '-' || c == '/';
    });
    return std::string(name) + "=" + (is_list ? std::string(value) : "…");
  }
  const bool is_asked =
      name == "HSA_OVERRIDE_GFX_VERSION" || name == "ROCR_VISIBLE_DEVICES" ||
      (name.starts_with("OLLAMA_") && name.find_first_not_of(kLetters) == std::string_view::npos);
  return is_asked ? std::string(name) + "=…" : "";
}

/// Of Environment= in a unit: "A=1" 'B=2' C=3.
std::string ollamas_variables(std::string_view words) {
  std::string kept;
  while (!(words = trim(words)).empty()) {
    const char quote = words.front() == '"' || words.front() == '\'' ? words.front() : ' ';
    if (quote != ' ') words.remove_prefix(1);
    const std::size_t end = std::min(words.find(quote), words.size());
    const std::string_view one = words.substr(0, end);
    words.remove_prefix(std::min(end + 1, words.size()));
    if (one.find('=') == std::string_view::npos) continue;
    if (const std::string told = ollamas_variable(one); !told.empty())
      kept += (kept.empty() ? "\"" : " \"") + told + "\"";
  }
  return kept;
}

/// Of what a unit allows what rules ask; an account that is not Ollama's own may be anybody's.
std::string ollamas_right(std::string_view key, std::string_view value) {
  const std::string begin = std::string(key) + "=";
  if (key == "User") return begin + std::string(told_service_user(value)) + "\n";
  if (key == "PrivateDevices" || key == "DevicePolicy")
    return begin + (value.size() < 8 ? std::string(value) : "…") + "\n";
  if (key == "DeviceAllow")
    for (const char* node : {"nvidia", "drm", "kfd", "/dev/dri"})
      if (value.find(node) != std::string_view::npos) return begin + node + "\n";
  if ((key == "Group" || key == "SupplementaryGroups") &&
      value.find("render") != std::string_view::npos)
    return begin + "render\n";
  return "";
}

/// Of `Environment="OLLAMA_VULKAN=1" "TOKEN=…"` what rules read, and that it names files.
std::string ollamas_settings(std::string_view text) {
  std::string told;
  for (const std::string& joined : joined_lines(text, false)) {
    const std::string_view line = joined;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, equals), value = trim(line.substr(equals + 1));
    told += ollamas_right(key, value);
    if (key == "EnvironmentFile") {
      const bool is_own = is_ollamas_settings(value.substr(value.starts_with('-') ? 1 : 0));
      told += "EnvironmentFile=" + (is_own || value.empty() ? std::string(value) : "/%") + "\n";
    }
    if (key == "PassEnvironment") {
      told += "PassEnvironment=";
      for (const std::string_view name : words_between_blanks(value))
        if (!ollamas_variable(name).empty()) told += std::string(name) + " ";
      told += "\n";
    }
    if (key != "Environment") continue;
    const std::string kept = ollamas_variables(value);
    if (!kept.empty() || value.empty()) told += "Environment=" + kept + "\n";
  }
  return told;
}

/// A file of variables, a row each.
std::string ollamas_file(std::string_view text) {
  std::string told;
  for (const std::string& line : joined_lines(text, false)) {
    if (line.find('=') == std::string::npos) continue;
    if (const std::string one = ollamas_variable(line); !one.empty()) told += one + "\n";
  }
  return told;
}

/// Lines of gres.conf; the names of nodes, and of what is no GPU, stay away.
std::string slurms_gpus(std::string_view text) {
  std::string told;
  for (const std::string& line : joined_lines(text, true)) {
    std::string kept;
    for (const std::string_view word : words_between_blanks(line)) {
      const std::size_t equals = std::min(word.find('='), word.size());
      std::string key(word.substr(0, equals));
      for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      const std::string_view value = word.substr(std::min(equals + 1, word.size()));
      const bool is_told = (key == "file" && value.starts_with("/dev/nvidia")) ||
                           key == "autodetect" || (key == "name" && value == "gpu");
      kept += (kept.empty() ? "" : " ") + std::string(word.substr(0, equals)) + "=" +
              (is_told ? std::string(value) : "…");
    }
    if (!kept.empty()) told += kept + "\n";
  }
  return told;
}

/// The program that it starts, and none of what it is started with.
std::string notebook_kernel(std::string_view text) {
  const auto document = nlohmann::json::parse(text, nullptr, false);
  if (!document.is_object() || !document.contains("argv") || !document["argv"].is_array() ||
      document["argv"].empty())
    return "{}\n";
  nlohmann::json told;
  told["argv"] = nlohmann::json::array({document["argv"][0]});
  return told.dump() + "\n";
}

}  // namespace

std::string_view told_service_user(std::string_view user) {
  return user.empty() || user == "ollama" || user == "root" ? user : "user1";
}

std::string redacted_group(std::string_view text, std::string_view user) {
  for (const std::string_view line : split(text, '\n'))
    if (line.starts_with("render:")) {
      const auto words = split(line, ':');
      bool is_member = false;
      if (words.size() == 4)
        for (const std::string_view member : split(words[3], ','))
          is_member = is_member || (!user.empty() && trim(member) == user);
      return "render:x:0:" + std::string(is_member ? told_service_user(user) : "") + "\n";
    }
  return "";
}

std::string redacted_settings(std::string_view path, std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return std::string(text);
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (name == "hostname") return "HOST\n";
  if (name == "mountinfo") return mounts(text);
  if (name == "daemon.json" || path.find("/containerd/") != std::string_view::npos)
    return engine_settings(text);
  if (path.find("/cdi/") != std::string_view::npos) return without_values(text);
  if (name == "METADATA" || name == "PKG-INFO" || name.ends_with(".egg-info"))
    return package_metadata(text);
  if (name == "RECORD")
    return lines_of(text, [](std::string_view line) {
      return line.find("/libcudnn") != line.npos || line.find("/_swigfaiss") != line.npos;
    });
  if (name == "math_functions.h" || name == "mathcalls.h")
    return lines_of(text, [](std::string_view line) {
      return contains_any(line, std::to_array<std::string_view>({"cospi", "sinpi", "rsqrt"}));
    });
  if (name == "nccl.conf" || name == ".nccl.conf")
    return lines_of(text, [](std::string_view line) { return line.starts_with("NCCL_"); });
  if (name == "gres.conf") return slurms_gpus(text);
  if (path == "/etc/group") return redacted_group(text, "ollama");
  if (path == kPackagesFile) return asked_packages(text);
  if (name.ends_with(".icd")) return std::string(text.substr(0, text.find('\n'))) + "\n";
  if (path.find("/ollama.service") != std::string_view::npos) return ollamas_settings(text);
  if (is_ollamas_settings(path)) return ollamas_file(text);
  if (name == "kernel.json") return notebook_kernel(text);
  if (name == "direct_url.json") return without_hosts(text);
  if (name == "pyvenv.cfg")
    return lines_of(text, [](std::string_view line) { return !line.starts_with("command"); });
  if (name == "version.py")
    return lines_of(text, [](std::string_view line) { return !line.starts_with('#'); });
  return without_user_info(text);
}

}  // namespace berth::doctor
