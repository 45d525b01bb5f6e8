// Prints jobs for people: `berth jobs` and `berth why`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/job.hpp"
#include "model/ledger.hpp"
#include "model/snapshot.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// What a list of jobs needs besides the jobs: the current time, the user, the machine.
struct JobsView {
  std::int64_t unix_milliseconds = 0;
  std::uint32_t own_uid = 0;
  const model::Snapshot* snapshot =
      nullptr;  // null if the machine was not read, because no job has a device
  model::ClosedUnits closed = {};
  std::map<model::JobId, std::uint64_t> output_bytes =
      {};  // bytes of output of some running jobs, by job
};

/// One row per job: running jobs first, then waiting jobs, then ended jobs with the latest first.
/// Names of devices come from the current snapshot.
[[nodiscard]] std::string jobs_text(const std::vector<model::Job>& jobs, const JobsView& view,
                                    const Terminal& terminal);

using model::job_number;
/// Which part of a device a job has: "8.00 GiB, 30 %"; "" for the whole device.
[[nodiscard]] std::string part_words(const model::Grant& grant);
/// A job's devices, numbered as in `berth ls`: "GPU 0, 2:1"; "CPU" if it has none.
[[nodiscard]] std::string has_words(const model::Job& job, const model::Snapshot* snapshot);
/// A line below the list: "drained: GPU 1, 3", "lent to Slurm: GPU 0"; "" if no device is drained
/// or lent.
[[nodiscard]] std::string drained_words(const JobsView& view);
/// The resources that a request asks for: "2 GPUs", "8.00 GiB on a GPU", "4 cores".
[[nodiscard]] std::string wish_words(const model::Request& request);
/// The translated word for a state: "waiting", "done", …
[[nodiscard]] std::string_view state_word(model::JobState state);
/// The numbers of several jobs of an array: "7_[4-100%4]". For a single job, its job_number().
[[nodiscard]] std::string numbers_of(const std::vector<const model::Job*>& jobs);
/// How a job ended: "exit code 3", "ended by SIGKILL", "done", ….
[[nodiscard]] std::string ending_words(const model::Job& job);
/// When something will happen, in local time: "in about 20 s", "at about 16:40".
[[nodiscard]] std::string soon_words(std::int64_t then, std::int64_t now);
/// A time of day such as "14:03:12", with the date if it is not today.
[[nodiscard]] std::string clock_words(std::int64_t then, std::int64_t now);

/// What `berth why` knows about a job.
struct JobStory {
  /// Something that keeps the job from using a device: a job or a foreign process.
  struct Holder {
    std::string device;    // the device "GPU 2", or "cores 0-3"
    model::JobId job = 0;  // the job that has the device; 0 if it is not a job
    std::string says;  // for a user without a job: a translated text such as "zhao (pid 4121) 34.0
                       // GiB, no lease"
  };
  /// A smaller or changed request that could start now.
  struct Sooner {
    std::string command;
    std::string where;  // the device, such as "GPU 2"; "" for the CPU
  };

  model::Job job;
  model::JobOutlook outlook;
  std::vector<model::Job> others;  // other jobs that the text may name
  std::vector<model::Job> array;   // all jobs of the array, if the user asked for an array
  model::JobId kept_for = 0;  // the earlier job for which devices are kept free; 0 if not known
  // `possible`: how many devices the job may use. `drained`: how many of these are drained.
  int drained = 0, possible = 0;
  std::vector<std::string> free;  // devices that the job could use now
  // The devices to which the user's environment variables limit the job; "" if they do not limit
  // it.
  std::string narrowed;
  std::vector<Holder> holders;
  std::vector<Sooner> sooner;
};

[[nodiscard]] std::string why_text(const JobStory& story, const JobsView& view,
                                   const Terminal& terminal);

/// The text of `berth report`: what one job used.
[[nodiscard]] std::string job_report_text(const model::Job& job, const JobsView& view,
                                          const Terminal& terminal);

}  // namespace berth::output
