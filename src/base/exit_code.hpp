// Exit codes (docs/exit-codes.md): the same for every verb, and for libberth.
#pragma once

#include "base/result.hpp"

namespace berth {

enum ExitCode : int {
  kDone = 0,
  kNothing = 1,      // a check failed or nothing matched
  kUsage = 2,        // wrong usage, and bad input files
  kNoDevice = 3,     // no device or driver, but one was required
  kUnreachable = 4,  // daemon unreachable
  kPermission = 5,
  kRefused = 6,  // exceeds a limit
  kBug = 70,
  // run, lease and sim return the exit code of their child; these are for their own errors:
  kOurFailure = 125,
  kNotExecutable = 126,
  kNotFound = 127,
};

[[nodiscard]] ExitCode exit_code_of(const Error& error);

}  // namespace berth
