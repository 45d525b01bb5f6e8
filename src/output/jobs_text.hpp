// Jobs as people read them: `berth jobs` and `berth why`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/job.hpp"
#include "model/snapshot.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// What a list of jobs is seen with: when, by whom, on which machine.
struct JobsView {
  std::int64_t unix_milliseconds = 0;
  std::uint32_t own_uid = 0;
  const model::Snapshot* snapshot = nullptr;  // nullptr: was not looked at, as no job has a device
  std::vector<std::string> drained = {};      // units that get no new jobs
  std::map<model::JobId, std::uint64_t> output_bytes = {};  // of some that run
};

/// One row a job: what runs, then what waits, then what ended, the latest first. What an ended job
/// had is looked up on the machine of now.
[[nodiscard]] std::string jobs_text(const std::vector<model::Job>& jobs, const JobsView& view,
                                    const Terminal& terminal);

using model::job_number;
/// What it has of a device: "8.00 GiB, 30 %"; "" all of it.
[[nodiscard]] std::string part_words(const model::Grant& grant);
/// What a job has, as `berth ls` counts devices: "GPU 0, 2:1"; "CPU" where it has none.
[[nodiscard]] std::string has_words(const model::Job& job, const model::Snapshot* snapshot);
/// "drained: GPU 1, 3" on a line below a list; "" where there is none.
[[nodiscard]] std::string drained_words(const JobsView& view);
/// What it asked for: "2 GPUs", "8.00 GiB on a GPU", "4 cores".
[[nodiscard]] std::string wish_words(const model::Request& request);
/// "waiting", "done", …
[[nodiscard]] std::string_view state_word(model::JobState state);
/// Of jobs of one array: "7_[4-100%4]"; of one job as job_number.
[[nodiscard]] std::string numbers_of(const std::vector<const model::Job*>& jobs);
/// "exit code 3", "ended by SIGKILL", "done", …: how it ended.
[[nodiscard]] std::string ending_words(const model::Job& job);
/// A moment for people, in local time: "in about 20 s", "at about 16:40".
[[nodiscard]] std::string soon_words(std::int64_t then, std::int64_t now);
/// "14:03:12"; with the date where that is not today's.
[[nodiscard]] std::string clock_words(std::int64_t then, std::int64_t now);

/// What `berth why` found out about a job.
struct JobStory {
  /// Somebody on a device that the job could have had.
  struct Holder {
    std::string device;    // "GPU 2"; "cores 0-3"
    model::JobId job = 0;  // 0: none
    std::string says;      // of who is no job, translated: "zhao (pid 4121) 34.0 GiB, no lease"
  };
  /// Other words that fit now.
  struct Sooner {
    std::string command;
    std::string where;  // "GPU 2"; "" on the CPU
  };

  model::Job job;
  model::JobOutlook outlook;
  std::vector<model::Job> others;  // every job that may have to be named
  std::vector<model::Job> array;   // where it was asked for as a whole: all its jobs
  model::JobId kept_for = 0;       // who comes first and gets what is free; 0: not known
  int drained = 0, possible = 0;   // of the devices that it could have: so many get no new jobs
  std::vector<std::string> free;   // devices that it could have now
  std::string narrowed;            // what its user's variables leave of them; "" all
  std::vector<Holder> holders;
  std::vector<Sooner> sooner;
};

[[nodiscard]] std::string why_text(const JobStory& story, const JobsView& view,
                                   const Terminal& terminal);

}  // namespace berth::output
