// The package indices that the target's pip, uv and conda use, according to variables and files.
// Fixes use the configured mirror instead of a public index. The readers remove passwords from the
// addresses.
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
  /// True if all configured indices have only PyTorch builds. tags() then returns the names of the
  /// builds.
  [[nodiscard]] bool has_torch_alone() const;
  /// The address of the main index, "…/whl", if has_torch_alone() and this index has all builds of
  /// PyTorch. Otherwise "".
  [[nodiscard]] std::string all_of_torch() const;
  /// The last component of each index's address. For PyTorch's indices and their mirrors, this is
  /// the name of a build: "cu124".
  [[nodiscard]] std::vector<std::string> tags() const;
  /// The mirror's address, or the file that configures it: "https://mirror.lab/simple",
  /// "/etc/pip.conf".
  [[nodiscard]] std::string named() const;
};

struct CondaChannels {
  std::vector<std::string> channels;  // the configured channels; empty if there are none
  std::string from;
};

struct PackageSources {
  PackageIndex pip, uv;
  CondaChannels conda;

  /// The settings of the program that installs packages into this environment.
  [[nodiscard]] const PackageIndex& of(const PythonFacts& python) const;
};

/// Parses an address, and removes users, passwords and tokens from it. `from` names the file or
/// variable that has the address.
[[nodiscard]] IndexAddress index_address(std::string_view text, const std::string& from);

}  // namespace berth::doctor
