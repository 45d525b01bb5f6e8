// Where pip, uv and conda of the target take packages from, as its variables and files say: a lab
// behind a mirror wants its mirror, and no public index beside it. From files alone; passwords in
// addresses are left out when they are read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/fact.hpp"
#include "doctor/facts/process.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

struct PythonFacts;

struct IndexAddress {
  std::string url;          // "https://mirror.lab/simple", without a user and password
  std::string from;         // "PIP_INDEX_URL", "/etc/pip.conf"
  bool has_secret = false;  // there was a user or password in it
};

struct PackageIndex {
  Fact<IndexAddress> main;          // absent: PyPI, as nobody said otherwise
  std::vector<IndexAddress> extra;  // beside it
  bool no_index = false;            // only local files

  /// Something else takes PyPI's place.
  [[nodiscard]] bool is_mirror() const;
  /// In its place stand builds of PyTorch's alone: those of `tags()`.
  [[nodiscard]] bool has_torch_alone() const;
  /// The address is that of all of them, "…/whl"; "" it is not.
  [[nodiscard]] std::string all_of_torch() const;
  /// What their addresses end in: PyTorch's own indices, and mirrors of them, are named by a build.
  [[nodiscard]] std::vector<std::string> tags() const;
  /// The mirror, or what is known of it: "https://mirror.lab/simple", "/etc/pip.conf".
  [[nodiscard]] std::string named() const;
};

struct CondaChannels {
  std::vector<std::string> channels;  // as configured; empty: nobody said
  std::string from;
};

struct PackageSources {
  PackageIndex pip, uv;
  CondaChannels conda;

  /// Of the program that installs into this environment.
  [[nodiscard]] const PackageIndex& of(const PythonFacts& python) const;
};

/// An address as it is written, without users, passwords and tokens; `from` says where it stands.
[[nodiscard]] IndexAddress index_address(std::string_view text, const std::string& from);
/// Of their settings what rules ask: that an index is configured, and how its address ends; no host
/// that is not everybody's, no user, password or token, and no other key's value.
[[nodiscard]] std::string told_settings(std::string_view settings);
/// A text with its addresses told so.
[[nodiscard]] std::string without_hosts(std::string_view text);
/// Whether a file is one of theirs.
[[nodiscard]] bool is_package_settings(std::string_view path);

[[nodiscard]] PackageSources collect_package_sources(const Tree& tree,
                                                     const Fact<Environment>& environment,
                                                     const PythonFacts& python);

}  // namespace berth::doctor
