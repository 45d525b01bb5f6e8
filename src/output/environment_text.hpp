// A job's environment as text for others to take in: a shell's eval, a .env file, docker's or
// podman's command line, JSON. Values are quoted for their reader, whatever they hold: a uuid comes
// from a driver, and a driver is not trusted.
#pragma once

#include <string>
#include <string_view>

#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::output {

/// "export NAME=value" and "unset NAME" lines; what is kept is not printed. For eval in any POSIX
/// shell.
[[nodiscard]] std::string environment_shell(const model::Environment& environment);
/// NAME=value lines, for docker --env-file where nothing needs quotes, for dotenv readers always.
/// Variables to unset are comments.
[[nodiscard]] std::string environment_dotenv(const model::Environment& environment);

enum class ContainerTool { kDocker, kCdi };
/// Arguments for `docker run` (--gpus '"device=0,1"'), or with CDI names for docker 25 and podman
/// (--device nvidia.com/gpu=0): one line.
[[nodiscard]] std::string environment_container(const model::Environment& environment,
                                                const model::Placement& placement,
                                                const model::Snapshot& snapshot,
                                                ContainerTool tool);
/// {"schema":1,"devices":[…],"settings":[…],"cpus","threads","reasons":[…],"notes":[…]}, one line.
[[nodiscard]] std::string environment_json(const model::Environment& environment,
                                           const model::Placement& placement,
                                           const model::Snapshot& snapshot);

}  // namespace berth::output
