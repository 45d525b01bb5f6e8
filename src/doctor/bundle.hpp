// A bundle: a machine recorded in a folder, for replay on any other (docs/bundle.md has the
// format).
#pragma once

#include <string>

#include "base/result.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

/// The recorded machine's files: DIR/root with DIR/nodes.jsonl over them. Fails with kNotFound
/// (E0801: no bundle there) or kInvalidArgument (E0802: a file of it is malformed, with its line).
[[nodiscard]] Result<Tree> bundle_tree(const std::string& folder);

/// One row of nodes.jsonl, without the end of line.
[[nodiscard]] std::string special_to_json(const std::string& path, const Special& special);

}  // namespace berth::doctor
