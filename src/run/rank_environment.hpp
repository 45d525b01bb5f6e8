// The environment variables of one rank in one try.
#pragma once

#include <string>
#include <vector>

#include "run/rank.hpp"
#include "run/rank_plan.hpp"

namespace berth::run {

struct RankStart {
  const Supervision& plan;
  const RankSpec& spec;
  const Rank& rank;
  int world_size = 1;
  int try_number = 1;
  const Meeting& meeting;           // not used without ranks
  const std::string& stack_folder;  // for `berth stacks`; "": none
  const std::string& flight_stem;   // start of the names of the flight recorder's files; "": none
};

/// NAME=value: the variables of the job, and those of the rank. A few are set only if the job has
/// none of that name.
[[nodiscard]] std::vector<std::string> environment_of(const RankStart& start,
                                                      const std::vector<std::string>& of_job);

}  // namespace berth::run
