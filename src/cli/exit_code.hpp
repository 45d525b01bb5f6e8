// The exit codes and their descriptions for help, man page and docs.
#pragma once

#include <span>

#include "base/exit_code.hpp"

namespace berth::cli {

struct ExitCodeRow {
  ExitCode code;
  const char* meaning;  // msgid
};
[[nodiscard]] std::span<const ExitCodeRow> exit_codes();

}  // namespace berth::cli
