// `--host a,b`: runs the same verb on other machines through the user's ssh, and shows their
// answers one after another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/verb.hpp"

namespace berth::cli {

/// Whether --host was given, so that on_hosts() does the work.
[[nodiscard]] inline bool is_for_hosts(const Arguments& arguments) {
  return arguments.has("--host");
}

/// The machines of --host. Fails with kInvalidArgument (E0965) for a name that ssh could take for
/// an option.
[[nodiscard]] Result<std::vector<std::string>> host_names(const Arguments& arguments);

/// Whether a document has only a few levels, like all of Berth's documents. Writing a document
/// needs stack space for each level.
[[nodiscard]] bool is_shallow(std::string_view json);

/// Runs the verb on all machines at the same time. The exit code is 1 if one gave no answer. Fails
/// with kInvalidArgument (E0965) for a name that ssh could take for an option.
[[nodiscard]] Result<int> on_hosts(const Context& context, const std::string& verb);

}  // namespace berth::cli
