#include <array>

#include "cli/exit_code.hpp"

namespace berth::cli {
namespace {

constexpr std::array<ExitCodeRow, 11> kRows{{
    {kDone, "done"},
    {kNothing, "a check failed, or nothing matched"},
    {kUsage, "wrong usage, or a bad input file"},
    {kNoDevice, "no device or driver, although one was requested"},
    {kUnreachable, "a service does not answer"},
    {kPermission, "permission denied"},
    {kRefused, "refused by a limit"},
    {kBug, "a bug in Berth"},
    {kOurFailure, "run, sim: Berth itself failed, not the command"},
    {kNotExecutable, "run, sim: the command could not be executed"},
    {kNotFound, "run, sim: the command was not found"},
}};

}  // namespace

std::span<const ExitCodeRow> exit_codes() {
  return kRows;
}

}  // namespace berth::cli
