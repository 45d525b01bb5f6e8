// `--host a,b`: runs the same verb on other machines through the user's ssh, and shows their
// answers one after another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/verb.hpp"

namespace berth::cli {

/// Whether --host was given. Then on_hosts() runs the verb on the other machines.
[[nodiscard]] inline bool is_for_hosts(const Arguments& arguments) {
  return arguments.has("--host");
}

/// The names that --host lists. Fails with kInvalidArgument (E0965) if ssh could take a name for an
/// option.
[[nodiscard]] Result<std::vector<std::string>> host_names(const Arguments& arguments);

/// Whether a JSON document is nested only a few levels deep, as all documents of Berth are.
/// Printing a document recurses once per level, so a deep one could overflow the stack.
[[nodiscard]] bool is_shallow(std::string_view json);

/// Runs the verb on all machines at the same time. Returns exit code 1 if a machine gave no answer.
/// Fails with kInvalidArgument (E0965) if ssh could take a name for an option.
[[nodiscard]] Result<int> on_hosts(const Context& context, const std::string& verb);

}  // namespace berth::cli
