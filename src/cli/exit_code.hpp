// The exit codes, and what help, man page and docs say about them.
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
