// Prints a job's environment for a shell's eval, a .env file, the command line of docker or podman,
// or as JSON. Every value is quoted for its reader. Values such as a driver's uuid are untrusted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::output {

/// Lines "export NAME=value" and "unset NAME" for eval in any POSIX shell. Variables that are not
/// changed are left out.
[[nodiscard]] std::string environment_shell(const model::Environment& environment);
/// Lines NAME=value for dotenv readers, and for docker --env-file if no value needs quotes.
/// Variables to unset become comments.
[[nodiscard]] std::string environment_dotenv(const model::Environment& environment);

/// The arguments for `docker run` in one line, quoted for a shell.
[[nodiscard]] std::string environment_container(const std::vector<std::string>& words);
/// A Kubernetes Job with the resources of the request, for the user to complete. Devices that the
/// request names are left out, because the cluster chooses the devices.
[[nodiscard]] std::string kubernetes_job(const model::Request& request);
/// The document
/// {"schema":1,"devices":[…],"settings":[…],"cpus","threads","reasons":[…],"notes":[…]} on one
/// line.
[[nodiscard]] std::string environment_json(const model::Environment& environment,
                                           const model::Placement& placement,
                                           const model::Snapshot& snapshot);

}  // namespace berth::output
