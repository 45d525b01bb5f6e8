// Exit codes (docs/exit-codes.md): the same for every verb, and for libberth.
#pragma once

#include "base/result.hpp"

namespace berth {

enum ExitCode : int {
  kDone = 0,
  kNothing = 1,      // a check failed or nothing matched
  kUsage = 2,        // wrong usage, and bad input files
  kNoDevice = 3,     // there is no device or no driver, but the operation needs one
  kUnreachable = 4,  // daemon unreachable
  kPermission = 5,
  kRefused = 6,  // the request exceeds a limit
  kBug = 70,
  // The verbs run, lease and sim return the exit code of the command they started. The codes below
  // are for failures of Berth itself:
  kOurFailure = 125,
  kNotExecutable = 126,
  kNotFound = 127,
};

[[nodiscard]] ExitCode exit_code_of(const Error& error);

}  // namespace berth
