// What a recording keeps of programs' settings and packages' files: only what rules read.
#include <algorithm>
#include <array>
#include <cctype>

#include "base/json.hpp"
#include "base/text_parts.hpp"
#include "doctor/facts/nvidia.hpp"
#include "doctor/facts/package_builds.hpp"
#include "doctor/facts/package_index.hpp"
#include "doctor/facts/platform.hpp"
#include "doctor/knowledge/config_lines.hpp"
#include "doctor/knowledge/contains_any.hpp"
#include "doctor/record/kept.hpp"
#include "doctor/record/redact.hpp"
#include "doctor/record/share.hpp"
#include "doctor/record/shareable_names.hpp"

namespace berth::doctor {
namespace {

bool is_engine_word(std::string_view word) {
  if (word.find("://") != std::string_view::npos) return false;
  if (is_common(word)) return true;
  /// both sides of "=" must be common: "native.cgroupdriver=systemd"
  const std::size_t equals = word.find('=');
  return equals != std::string_view::npos && is_common(word.substr(0, equals)) &&
         is_common(word.substr(equals + 1));
}

/// The word if it is common; "/…/NAME" for a path whose last component is common; otherwise "…".
std::string engine_word(std::string_view word) {
  if (is_engine_word(word)) return std::string(word);
  const std::string_view last = word.substr(word.rfind('/') + 1);
  return word.starts_with('/') && is_common(last) ? "/…/" + std::string(last) : "…";
}

/// Replaces words in the settings (JSON, TOML, INI) of container engines with "…", except common
/// words. Works line by line and drops comments, so that an unbalanced quote affects only its own
/// line.
std::string engine_settings(std::string_view text) {
  std::string redacted;
  for (const std::string_view line : split(text, '\n')) {
    if (!redacted.empty()) redacted += '\n';
    for (std::size_t at = 0; at < line.size();) {
      const char c = line[at];
      if (c == '#') break;
      if (c == '"' || c == '\'') {
        const std::size_t end = std::min(line.find(c, at + 1), line.size());
        redacted += c + engine_word(line.substr(at + 1, end - at - 1));
        if (end < line.size()) redacted += c;
        at = end + 1;
        continue;
      }
      constexpr std::string_view kBetween = " \t\r=,[]{}:.";
      if (kBetween.find(c) != std::string_view::npos) {
        redacted += c;
        ++at;
        continue;
      }
      const std::size_t end = std::min(line.find_first_of(" \t\r=,[]{}:\"'#.", at), line.size());
      redacted += engine_word(line.substr(at, end - at));
      at = end;
    }
  }
  return redacted;
}

bool is_makers(std::string_view kind) {
  return kind.starts_with("nvidia.com/") || kind.starts_with("amd.com/") ||
         kind.starts_with("intel.com/") || kind.find(".nvidia.com/") != kind.npos;
}

/// Reduces a CDI specification to lines with its kind, its devices, and the files that it requires.
std::string device_specification(std::string_view text) {
  std::string lines(text), redacted;
  if (trim(text).starts_with('{'))
    std::replace_if(
        lines.begin(), lines.end(),
        [](char c) { return c == '{' || c == '}' || c == '[' || c == ']' || c == ','; }, '\n');
  const auto plain = [](std::string_view word) {
    word = trim(word);
    while (!word.empty() && (word.front() == '"' || word.front() == '\'')) word.remove_prefix(1);
    while (!word.empty() && (word.back() == '"' || word.back() == '\'')) word.remove_suffix(1);
    return word;
  };
  for (std::string_view line : split(lines, '\n')) {
    line = trim(line);
    while (line.starts_with("- ")) line = trim(line.substr(2));
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = plain(line.substr(0, colon));
    std::string value(plain(line.substr(colon + 1)));
    const bool is_path = key == "hostPath" || key == "path";
    if (key == "kind" && !(is_makers(value) && is_common(value.substr(value.find('/') + 1))))
      value = "other/device";
    if (key == "name" && !is_common(value) && !value.starts_with("GPU-") &&
        !value.starts_with("MIG-"))
      value = "…";
    if (is_path && !value.starts_with("/usr/lib/wsl/") &&
        !is_common(value.substr(0, value.find(".so")))) {
      const std::string_view file = std::string_view(value).substr(value.rfind('/') + 1);
      if (!file.starts_with("lib") && !file.starts_with("nvidia")) continue;
      if (!is_common(value.substr(0, value.rfind('/')))) continue;
    }
    if (key == "cdiVersion" && value.find_first_not_of("0123456789.") != value.npos) continue;
    if (key == "kind" || key == "devices" || key == "name" || key == "major" ||
        key == "cdiVersion" || is_path)
      redacted += std::string(key) + ": " + value + "\n";
  }
  return redacted;
}

/// Replaces the addresses in a line of requirements or metadata: "acme-lib @ …".
std::string without_address(std::string_view line) {
  const std::size_t mark = std::min(line.find('@'), line.find("://"));
  if (mark == std::string_view::npos) return std::string(line);
  // In "name @ address", keep the name. If there is no name, the whole word is the address.
  const std::size_t begin = line.find_last_of(" \t", mark) + 1;
  const bool is_name =
      line[mark] == '@' && line.substr(begin, mark - begin).find_first_of(":/") == line.npos;
  return std::string(trim(line.substr(0, is_name ? mark : begin))) + " @ …";
}

std::string package_metadata(std::string_view text) {
  std::string redacted;
  for (std::string_view line : split(text, '\n')) {
    if (trim(line).empty()) break;  // metadata ends at an empty line, and the description follows
    const std::string_view key = line.substr(0, std::min(line.find(':'), line.size()));
    if (!share::has(share::metadata_keys(), key)) continue;
    redacted += without_address(line) + "\n";
  }
  return redacted;
}

/// Keeps what rules need of a server's variable. For CUDA_VISIBLE_DEVICES, that is the value. For
/// some others, it is only that they are set. Returns "" for the rest. A name that begins with
/// OLLAMA_ may only contain capital letters, digits and "_", because a line of a multi-line value
/// could look like a variable.
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

/// Redacts the variables in an Environment= line of a unit: "A=1" 'B=2' C=3.
std::string ollamas_variables(std::string_view words) {
  std::string kept;
  while (!(words = trim(words)).empty()) {
    const char quote = words.front() == '"' || words.front() == '\'' ? words.front() : ' ';
    if (quote != ' ') words.remove_prefix(1);
    const std::size_t end = std::min(words.find(quote), words.size());
    const std::string_view one = words.substr(0, end);
    words.remove_prefix(std::min(end + 1, words.size()));
    if (one.find('=') == std::string_view::npos) continue;
    if (const std::string redacted = ollamas_variable(one); !redacted.empty())
      kept += (kept.empty() ? "\"" : " \"") + redacted + "\"";
  }
  return kept;
}

/// Keeps a permission of a unit if rules read it. The name of an account other than Ollama's own is
/// private.
std::string ollamas_right(std::string_view key, std::string_view value) {
  const std::string begin = std::string(key) + "=";
  if (key == "User") return begin + std::string(redacted_service_user(value)) + "\n";
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

/// Keeps what rules need of a unit: variables in `Environment="OLLAMA_VULKAN=1" "TOKEN=…"`,
/// permissions, and whether the unit names environment files.
std::string ollamas_settings(std::string_view text) {
  std::string redacted;
  for (const std::string& joined : joined_lines(text, false)) {
    const std::string_view line = joined;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, equals), value = trim(line.substr(equals + 1));
    redacted += ollamas_right(key, value);
    if (key == "EnvironmentFile") {
      const bool is_own = is_ollamas_settings(value.substr(value.starts_with('-') ? 1 : 0));
      redacted += "EnvironmentFile=" + (is_own || value.empty() ? std::string(value) : "/%") + "\n";
    }
    if (key == "PassEnvironment") {
      redacted += "PassEnvironment=";
      for (const std::string_view name : words_between_blanks(value))
        if (!ollamas_variable(name).empty()) redacted += std::string(name) + " ";
      redacted += "\n";
    }
    if (key != "Environment") continue;
    const std::string kept = ollamas_variables(value);
    if (!kept.empty() || value.empty()) redacted += "Environment=" + kept + "\n";
  }
  return redacted;
}

/// Redacts an environment file, which has one variable per line.
std::string ollamas_file(std::string_view text) {
  std::string redacted;
  for (const std::string& line : joined_lines(text, false)) {
    if (line.find('=') == std::string::npos) continue;
    if (const std::string one = ollamas_variable(line); !one.empty()) redacted += one + "\n";
  }
  return redacted;
}

/// Keeps the lines of gres.conf about GPUs, without names of nodes.
std::string slurms_gpus(std::string_view text) {
  std::string redacted;
  for (const std::string& line : joined_lines(text, true)) {
    std::string kept;
    for (const std::string_view word : words_between_blanks(line)) {
      const std::size_t equals = std::min(word.find('='), word.size());
      std::string key(word.substr(0, equals));
      for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      const std::string_view value = word.substr(std::min(equals + 1, word.size()));
      const bool is_shareable = (key == "file" && value.starts_with("/dev/nvidia")) ||
                                key == "autodetect" || (key == "name" && value == "gpu");
      constexpr auto kKeys = std::to_array<std::string_view>(
          {"autodetect", "cores", "count", "file", "flags", "links", "name", "nodename", "type"});
      if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) continue;
      kept += (kept.empty() ? "" : " ") + std::string(word.substr(0, equals)) + "=" +
              (is_shareable ? std::string(value) : "…");
    }
    if (!kept.empty()) redacted += kept + "\n";
  }
  return redacted;
}

/// Keeps the version of a toolkit: {"cuda": {"version": "12.5.82"}}.
std::string toolkit_version(std::string_view text) {
  const auto document = nlohmann::json::parse(text, nullptr, false);
  nlohmann::json redacted = nlohmann::json::object();
  if (document.is_object() && document.contains("cuda") && document["cuda"].is_object() &&
      document["cuda"].contains("version") && document["cuda"]["version"].is_string())
    redacted["cuda"] = {{"version", document["cuda"]["version"]}};
  return redacted.dump() + "\n";
}

/// Keeps the file name of the address from which a wheel was installed. The file name shows for
/// which versions the wheel was built.
std::string wheel_address(std::string_view text) {
  const auto document = nlohmann::json::parse(text, nullptr, false);
  nlohmann::json redacted = nlohmann::json::object();
  if (document.is_object() && document.contains("url") && document["url"].is_string()) {
    const std::string url = document["url"].get<std::string>();
    // For "file:" without a slash, the name is empty.
    const std::string name = url.substr(std::min(url.rfind('/'), url.size()));
    redacted["url"] = url.starts_with("file:") ? "file:///…" + name : without_hosts(url);
  }
  return redacted.dump() + "\n";
}

/// Redacts NCCL's settings in the same way as environment variables with the same names.
std::string nccl_settings(std::string_view text) {
  std::string redacted;
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view row = trim(line.substr(0, line.find('#')));
    const std::size_t equals = row.find('=');
    if (!row.starts_with("NCCL_") || equals == std::string_view::npos) continue;
    std::set<std::string> dropped;
    for (const auto& [name, value] :
         redacted_environment({{std::string(trim(row.substr(0, equals))),
                                std::string(trim(row.substr(equals + 1)))}},
                              dropped))
      redacted += name + "=" + value + "\n";
  }
  return redacted;
}

std::string environment_settings(std::string_view text) {
  constexpr auto kKeys = std::to_array<std::string_view>(
      {"home", "version", "version_info", "uv", "include-system-site-packages"});
  return lines_of(text, [&](std::string_view line) {
    const std::string_view key = trim(line.substr(0, line.find('=')));
    return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
  });
}

/// Keeps what a package's build file contains about the build, except the name of the build
/// machine.
std::string package_build(std::string_view text) {
  const auto document = nlohmann::json::parse(text, nullptr, false);
  if (document.is_object()) {
    nlohmann::json redacted = nlohmann::json::object();
    if (document.contains("version")) redacted["version"] = document["version"];
    return redacted.dump() + "\n";
  }
  return lines_of(text, [](std::string_view line) {
    return !line.starts_with('#') &&
           contains_any(line, std::to_array<std::string_view>(
                                  {"cuda", "cudnn", "sm_", "compute_", "package_name"}));
  });
}

std::string torch_version(std::string_view text) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"__version__", "cuda", "hip", "xpu", "debug"});
  return lines_of(text, [&](std::string_view line) {
    const std::string_view name = trim(line.substr(0, line.find_first_of(":=")));
    return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
  });
}

/// Keeps only whether the context of Docker Desktop is selected. Other settings of Docker contain
/// tokens.
std::string docker_context(std::string_view text) {
  const auto document = nlohmann::json::parse(text, nullptr, false);
  const bool is_desktop =
      document.is_object() && document.value("currentContext", nlohmann::json()) == "desktop-linux";
  return is_desktop ? "{\"currentContext\":\"desktop-linux\"}\n" : "{}\n";
}

/// The program that a Jupyter kernel starts, without its arguments.
std::string notebook_kernel(std::string_view text) {
  const auto document = nlohmann::json::parse(text, nullptr, false);
  if (!document.is_object() || !document.contains("argv") || !document["argv"].is_array() ||
      document["argv"].empty())
    return "{}\n";
  nlohmann::json redacted;
  redacted["argv"] = nlohmann::json::array({document["argv"][0]});
  return redacted.dump() + "\n";
}

}  // namespace

std::string_view redacted_service_user(std::string_view user) {
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
      return "render:x:0:" + std::string(is_member ? redacted_service_user(user) : "") + "\n";
    }
  return "";
}

namespace {

std::string restart_reasons(std::string_view text) {
  return lines_of(text, [](std::string_view line) {
    return line.find("nvidia") != line.npos && is_common(line);
  });
}

std::string module_variant(std::string_view text) {
  return lines_of(text, [](std::string_view line) {
    return line == "MODULE_VARIANT=kernel" || line == "MODULE_VARIANT=kernel-open";
  });
}

std::string package_files(std::string_view text) {
  return lines_of(text, [](std::string_view line) {
    return line.find("/libcudnn") != line.npos || line.find("/_swigfaiss") != line.npos;
  });
}

std::string math_functions(std::string_view text) {
  return lines_of(text, [](std::string_view line) {
    return contains_any(line, std::to_array<std::string_view>({"cospi", "sinpi", "rsqrt"}));
  });
}

std::string newest_compiler(std::string_view text) {
  return lines_of(text, [](std::string_view line) {
    return line.find("gcc versions later than ") != line.npos;
  });
}

std::string without_comments(std::string_view text) {
  return lines_of(text, [](std::string_view line) { return !line.starts_with('#'); });
}

constexpr char kPythonVersion[] = "#define PY_VERSION ", kCudaVersion[] = "CUDA Version ";

std::string opencl_library(std::string_view text) {
  return text.find("nvidia") < text.find('\n') ? "libnvidia-opencl.so.1\n" : "…\n";
}

/// Keeps a file that contains only a version number, such as that of ROCm.
std::optional<std::string> number(std::string_view text) {
  if (text.find_first_not_of("0123456789.-\n") != text.npos) return std::nullopt;
  return std::string(text);
}

constexpr auto kKept = std::to_array<Kept>({
    {"**/hostname", [](std::string_view) -> std::optional<std::string> { return "HOST\n"; }},
    {"**/daemon.json", kept<engine_settings>},
    {"**/containerd/**", kept<engine_settings>},
    {"**/crio/**", kept<engine_settings>},
    {"/etc/nvidia-container-runtime/config.toml", kept<engine_settings>},
    {"**/cdi/**", kept<device_specification>},
    {"**/METADATA", kept<package_metadata>},
    {"**/PKG-INFO", kept<package_metadata>},
    {"**.egg-info", kept<package_metadata>},
    {"**/RECORD", kept<package_files>},
    {"**/math_functions.h", kept<math_functions>},
    {"**/mathcalls.h", kept<math_functions>},
    {"**/host_config.h", kept<newest_compiler>},
    {"**/patchlevel.h", kept<lines_that_begin<kPythonVersion>>},
    {"**/version.txt", kept<lines_that_begin<kCudaVersion>>},
    {"**/version.json", kept<toolkit_version>},
    {"**/nccl.conf", kept<nccl_settings>},
    {"**/.nccl.conf", kept<nccl_settings>},
    {"**/gres.conf", kept<slurms_gpus>},
    {"/run/reboot-required.pkgs", kept<restart_reasons>},
    {"/etc/nvidia/kernel.conf", kept<module_variant>},
    {"/etc/group",
     [](std::string_view text) -> std::optional<std::string> {
       return redacted_group(text, "ollama");
     }},
    {kPackagesFile, kept<selected_packages>},
    {"**.icd", kept<opencl_library>},
    {"**/ollama.service**", kept<ollamas_settings>},
    {"", kept<ollamas_file>, is_ollamas_settings},
    {"", kept<redacted_package_settings>, is_package_settings},
    {"**/kernel.json", kept<notebook_kernel>},
    {"**/config.json", kept<docker_context>},
    {"**/direct_url.json", kept<wheel_address>},
    {"**/pyvenv.cfg", kept<environment_settings>},
    {"**/torch/version.py", kept<torch_version>},
    {"", kept<package_build>, is_package_build},
    {"**/.python-version", kept<without_comments>},
    {"**pyenv**/version", kept<without_comments>},
    {"**/.info/version", number},
});

}  // namespace

std::span<const Kept> kept_of_programs() {
  return kKept;
}

}  // namespace berth::doctor
