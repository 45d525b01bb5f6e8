// Parses small text files of a Python installation. The files are untrusted.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctor/facts/python.hpp"

namespace berth::doctor {

struct VenvConfig {
  std::string home, version;  // `home` is "/usr/bin", `version` is "3.11.2"
  bool system_packages = false;
  bool by_uv = false;
};
[[nodiscard]] VenvConfig parse_venv_config(std::string_view text);

/// The "Requires-Dist" lines of METADATA (at most 500), and the name and version if present.
struct Metadata {
  std::string name, version;
  std::vector<std::string> needs;
};
[[nodiscard]] Metadata parse_metadata(std::string_view text);

/// Parses the assignments in torch/version.py. A variable without an assignment is absent.
[[nodiscard]] TorchBuild parse_torch_version(std::string_view text);

/// Splits a folder name: "nvidia_nccl_cu12-2.27.3.dist-info" → {"nvidia-nccl-cu12", "2.27.3"}. For
/// other folders, the returned name is empty.
[[nodiscard]] std::pair<std::string, std::string> parse_info_name(std::string_view file);
/// The name, normalized as in PEP 503.
[[nodiscard]] std::string normal_name(std::string_view name);

/// The folders that a .pth file adds to sys.path, as written in the file. Lines that Python would
/// execute are ignored.
[[nodiscard]] std::vector<std::string> parse_pth(std::string_view text);

/// A parsed Requires-Dist line.
struct Requirement {
  std::string name;
  std::string exact;   // "2.4.0" for "==2.4.0"; "" if the line does not require an exact version
  std::string range;   // the allowed versions, "<2.2,>=1.24"; "" for any version
  std::string marker;  // the condition after the semicolon, such as 'python_version < "3.9"'
};
[[nodiscard]] Requirement parse_requirement(std::string_view text);
/// Whether a version is in a range such as "<2.2,>=1.24", "~=2.1", "==2.*" or "!=2.0.1". If the
/// range cannot be parsed, every version is allowed.
[[nodiscard]] bool allows(std::string_view range, std::string_view version);

}  // namespace berth::doctor
