// A bundle: a machine that was recorded in a folder, for a diagnosis on any other machine (format:
// docs/bundle.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {

/// The files of the recorded machine: the folder root/, together with the rows of nodes.jsonl.
/// Fails with kNotFound (E0801: no bundle) or kInvalidArgument (E0802: a malformed file, with the
/// line).
[[nodiscard]] Result<Tree> bundle_tree(const std::string& folder);

/// E0802: an error in a line of a recorded machine's file.
[[nodiscard]] Error malformed_bundle(const std::string& file, std::size_t line,
                                     const std::string& what);

/// Conversions between names and numbers: "EACCES" for an errno, "char" for a node type.
[[nodiscard]] std::optional<int> error_named(std::string_view name);
[[nodiscard]] std::string error_name(int number);
[[nodiscard]] std::optional<NodeType> node_type_named(std::string_view name);
[[nodiscard]] std::string node_type_name(NodeType type);

/// A row of nodes.jsonl, without the newline.
[[nodiscard]] std::string special_to_json(const std::string& path, const Special& special);

}  // namespace berth::doctor
