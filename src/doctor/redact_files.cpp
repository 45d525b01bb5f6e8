// What files of a machine tell in a bundle: what rules ask of them. Of others, and of what nobody
// could look through, no password that stands in an address.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "doctor/contains_any.hpp"
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

/// What rules read of a server's variables.
bool is_ollamas(std::string_view setting) {
  constexpr auto kBegin =
      std::to_array<std::string_view>({"OLLAMA_", "CUDA_", "HSA_", "ROCR_", "HIP_", "GGML_"});
  const std::string_view name = setting.substr(0, setting.find('='));
  return !name.starts_with("OLLAMA_HOST") && !name.ends_with("_KEY") && !name.ends_with("_TOKEN") &&
         std::any_of(kBegin.begin(), kBegin.end(),
                     [&](std::string_view begin) { return setting.starts_with(begin); });
}

/// Of `Environment="OLLAMA_VULKAN=1" "TOKEN=…"` what rules read, and that it names files.
std::string ollamas_settings(std::string_view text) {
  constexpr std::string_view kKey = "Environment=", kFile = "EnvironmentFile=",
                             kPass = "PassEnvironment=";
  std::string told;
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    constexpr auto kRights = std::to_array<std::string_view>(
        {"User=ollama", "User=root", "PrivateDevices=", "DevicePolicy=", "DeviceAllow="});
    if (std::any_of(kRights.begin(), kRights.end(),
                    [&](std::string_view begin) { return line.starts_with(begin); }))
      told += std::string(line) + "\n";
    if ((line.starts_with("Group=") || line.starts_with("SupplementaryGroups=")) &&
        line.find("render") != std::string_view::npos)
      told += std::string(line.substr(0, line.find('='))) + "=render\n";
    if (line.starts_with(kFile)) {
      const std::string_view path = trim(line.substr(kFile.size()));
      const bool is_own = is_ollamas_settings(path.substr(path.starts_with('-') ? 1 : 0));
      told += std::string(kFile) + (is_own || path.empty() ? std::string(path) : "/%") + "\n";
    }
    if (line.starts_with(kPass)) {
      told += kPass;
      for (const std::string_view name : split(line.substr(kPass.size()), ' '))
        if (is_ollamas(name)) told += std::string(name) + " ";
      told += "\n";
    }
    if (!line.starts_with(kKey)) continue;
    line.remove_prefix(kKey.size());
    std::string kept;
    while (!(line = trim(line)).empty()) {
      const bool is_quoted = line.front() == '"';
      if (is_quoted) line.remove_prefix(1);
      const std::size_t end = std::min(line.find(is_quoted ? '"' : ' '), line.size());
      const std::string_view one = line.substr(0, end);
      line.remove_prefix(std::min(end + 1, line.size()));
      if (is_ollamas(one) && one.find('"') == std::string_view::npos)
        kept += (kept.empty() ? "\"" : " \"") + std::string(one) + "\"";
    }
    if (!kept.empty()) told += std::string(kKey) + kept + "\n";
  }
  return told;
}

/// Of /etc/group whether Ollama's user may use the GPU's nodes.
std::string render_group(std::string_view text) {
  for (const std::string_view line : split(text, '\n'))
    if (line.starts_with("render:")) {
      const auto words = split(line, ':');
      bool is_member = false;
      if (words.size() == 4)
        for (const std::string_view member : split(words[3], ','))
          is_member = is_member || trim(member) == "ollama";
      return std::string("render:x:0:") + (is_member ? "ollama" : "") + "\n";
    }
  return "";
}

/// Lines of gres.conf; the names of nodes stay away.
std::string slurms_gpus(std::string_view text) {
  std::string told;
  for (const std::string_view line : split(text, '\n')) {
    std::string kept;
    for (const std::string_view word : split(trim(line.substr(0, line.find('#'))), ' ')) {
      if (word.empty()) continue;
      const std::string_view key = word.substr(0, word.find('='));
      constexpr auto kTold = std::to_array<std::string_view>(
          {"File", "file", "FILE", "AutoDetect", "Autodetect", "autodetect", "Name", "name"});
      const bool is_told =
          key.size() < word.size() && std::find(kTold.begin(), kTold.end(), key) != kTold.end();
      kept += (kept.empty() ? "" : " ") + (is_told ? std::string(word) : std::string(key) + "=…");
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
  if (path == "/etc/group") return render_group(text);
  if (path.find("/ollama.service") != std::string_view::npos) return ollamas_settings(text);
  if (is_ollamas_settings(path)) return lines_of(text, is_ollamas);
  if (name == "kernel.json") return notebook_kernel(text);
  if (name == "direct_url.json") return without_hosts(text);
  if (name == "pyvenv.cfg")
    return lines_of(text, [](std::string_view line) { return !line.starts_with("command"); });
  if (name == "version.py")
    return lines_of(text, [](std::string_view line) { return !line.starts_with('#'); });
  return without_user_info(text);
}

}  // namespace berth::doctor
