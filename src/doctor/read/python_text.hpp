// The small texts of a Python installation, as anybody may have written them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctor/facts/python.hpp"

namespace berth::doctor {

struct VenvConfig {
  std::string home, version;  // "/usr/bin", "3.11.2"
  bool system_packages = false;
  bool by_uv = false;
};
[[nodiscard]] VenvConfig parse_venv_config(std::string_view text);

/// "Requires-Dist" of METADATA, at most 500; and name and version, where the text has them.
struct Metadata {
  std::string name, version;
  std::vector<std::string> needs;
};
[[nodiscard]] Metadata parse_metadata(std::string_view text);

/// The assignments of torch/version.py. A variable that is not in it is absent.
[[nodiscard]] TorchBuild parse_torch_version(std::string_view text);

/// "nvidia_nccl_cu12-2.27.3.dist-info" → {"nvidia-nccl-cu12", "2.27.3"}; an empty name: it is none.
[[nodiscard]] std::pair<std::string, std::string> parse_info_name(std::string_view file);
/// As PEP 503 compares names.
[[nodiscard]] std::string normal_name(std::string_view name);

/// Folders that a .pth file adds, as written; lines that Python would execute are left out.
[[nodiscard]] std::vector<std::string> parse_pth(std::string_view text);

/// One row of Requires-Dist.
struct Requirement {
  std::string name;
  std::string exact;   // of "==2.4.0"; "" no such pin
  std::string range;   // "<2.2,>=1.24"; "" any
  std::string marker;  // behind the semicolon
};
[[nodiscard]] Requirement parse_requirement(std::string_view text);
/// Whether a release is in such a range: "<2.2,>=1.24", "~=2.1", "==2.*", "!=2.0.1". What is
/// written otherwise allows all.
[[nodiscard]] bool allows(std::string_view range, std::string_view version);

}  // namespace berth::doctor
