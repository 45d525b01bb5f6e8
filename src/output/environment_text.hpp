// Prints a job's environment for a shell's eval, a .env file, docker's or podman's command line, or
// as JSON. Quotes every value for its reader, because values are untrusted: a uuid comes from a
// driver.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::output {

/// Lines "export NAME=value" and "unset NAME", for eval in any POSIX shell. Unchanged variables are
/// omitted.
[[nodiscard]] std::string environment_shell(const model::Environment& environment);
/// Lines NAME=value for dotenv readers, and for docker --env-file if no value needs quotes.
/// Variables to unset become comments.
[[nodiscard]] std::string environment_dotenv(const model::Environment& environment);

/// The arguments for `docker run` in one line, quoted for a shell.
[[nodiscard]] std::string environment_container(const std::vector<std::string>& words);
/// A Kubernetes Job with the resources of the request, which the user has to complete. The cluster
/// chooses the devices, so the devices that the request names are left out.
[[nodiscard]] std::string kubernetes_job(const model::Request& request);
/// The document
/// {"schema":1,"devices":[…],"settings":[…],"cpus","threads","reasons":[…],"notes":[…]} in one
/// line.
[[nodiscard]] std::string environment_json(const model::Environment& environment,
                                           const model::Placement& placement,
                                           const model::Snapshot& snapshot);

}  // namespace berth::output
