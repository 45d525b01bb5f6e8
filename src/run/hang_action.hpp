// What to do about a hang, besides reporting it: the values of --hang-action.
#pragma once

namespace berth::run {

enum class HangAction {
  kReport,
  kRetry,  // end all ranks, and start them again while tries are left
  kKill    // end all ranks and the job, even if tries are left
};

}  // namespace berth::run
