// Where the target's pip, uv and conda get packages, according to variables and files. A fix must
// use a lab's mirror and not a public index. Read only from files; passwords in addresses are
// removed on reading.
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
  Fact<IndexAddress> main;          // absent: not configured, so PyPI
  std::vector<IndexAddress> extra;  // in addition to it
  bool no_index = false;            // only local files

  /// PyPI is replaced by another index.
  [[nodiscard]] bool is_mirror() const;
  /// PyPI is replaced by indices that only have PyTorch builds: those of `tags()`.
  [[nodiscard]] bool has_torch_alone() const;
  /// The index of all PyTorch builds, "…/whl"; "" if it is not that.
  [[nodiscard]] std::string all_of_torch() const;
  /// The last components of the addresses; PyTorch's indices and their mirrors are named by build.
  [[nodiscard]] std::vector<std::string> tags() const;
  /// The mirror, or what is known about it: "https://mirror.lab/simple", "/etc/pip.conf".
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

/// Parses an address without users, passwords and tokens; `from` is where it was found.
[[nodiscard]] IndexAddress index_address(std::string_view text, const std::string& from);

}  // namespace berth::doctor
