// Where the target's pip, uv and conda get packages, according to variables and files. A fix must
// use the configured mirror and not a public index. Read only from files; passwords in addresses
// are removed on reading.
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
  std::string from;         // "PIP_INDEX_URL", "/etc/pip.conf"
  bool has_secret = false;  // the address contained credentials
};

struct PackageIndex {
  Fact<IndexAddress> main;          // absent: not configured, so PyPI is used
  std::vector<IndexAddress> extra;  // indices used in addition to the main one
  bool no_index = false;            // only local files

  /// PyPI is replaced by another index.
  [[nodiscard]] bool is_mirror() const;
  /// PyPI is replaced by indices that only have PyTorch builds, whose names tags() returns.
  [[nodiscard]] bool has_torch_alone() const;
  /// The address of the index of all PyTorch builds, "…/whl"; "" if it is another index.
  [[nodiscard]] std::string all_of_torch() const;
  /// The last components of the addresses; PyTorch's indices and their mirrors are named by build.
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

  /// The settings of the program that installs into this environment.
  [[nodiscard]] const PackageIndex& of(const PythonFacts& python) const;
};

/// Parses an address and removes users, passwords and tokens; `from` is where it was found.
[[nodiscard]] IndexAddress index_address(std::string_view text, const std::string& from);

}  // namespace berth::doctor
