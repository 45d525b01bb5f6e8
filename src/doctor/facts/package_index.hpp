// Where the target's pip, uv and conda get packages, according to variables and files. Fixes use
// the configured mirror instead of a public index. Passwords are removed from addresses when these
// are read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/fact.hpp"
#include "doctor/facts/process.hpp"

namespace berth::doctor {

struct PythonFacts;

struct IndexAddress {
  std::string url;          // "https://mirror.lab/simple", without credentials
  std::string from;         // where the address was found: "PIP_INDEX_URL", "/etc/pip.conf"
  bool has_secret = false;  // the address contained credentials
};

struct PackageIndex {
  Fact<IndexAddress> main;          // absent: not configured, so PyPI is used
  std::vector<IndexAddress> extra;  // indices used in addition to the main one
  bool no_index = false;            // installs only from local files

  /// True if another index replaces PyPI.
  [[nodiscard]] bool is_mirror() const;
  /// True if all configured indices have only PyTorch builds. tags() then returns the builds'
  /// names.
  [[nodiscard]] bool has_torch_alone() const;
  /// In that case, the address of the index that has all PyTorch builds, "…/whl"; otherwise "".
  [[nodiscard]] std::string all_of_torch() const;
  /// The last components of the addresses. PyTorch's indices and their mirrors have the build
  /// there: "cu124".
  [[nodiscard]] std::vector<std::string> tags() const;
  /// The mirror's address, or the file that configures it: "https://mirror.lab/simple",
  /// "/etc/pip.conf".
  [[nodiscard]] std::string named() const;
};

struct CondaChannels {
  std::vector<std::string> channels;  // as configured; empty: none
  std::string from;
};

struct PackageSources {
  PackageIndex pip, uv;
  CondaChannels conda;

  /// The settings of the program that installs packages into this environment.
  [[nodiscard]] const PackageIndex& of(const PythonFacts& python) const;
};

/// Parses an address and removes users, passwords and tokens from it; `from` is where it was found.
[[nodiscard]] IndexAddress index_address(std::string_view text, const std::string& from);

}  // namespace berth::doctor
