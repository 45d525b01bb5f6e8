#include "output/jobs_text.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <ctime>

#include "base/language_for_tests.hpp"
#include "output/samples_for_tests.hpp"

using namespace berth;
using namespace berth::output;
using model::Job;
using model::JobState;

namespace {

constexpr std::int64_t kNow = 1'789'000'000'123;  // 2026-09-10T00:26:40Z
constexpr std::int64_t kMinute = 60'000;

model::Snapshot machine(const char* name) {
  for (auto& [known, snapshot] : sample_machines())
    if (known == name) return snapshot;
  return {};
}

Job job(model::JobId id, const char* user, JobState state) {
  Job one;
  one.id = id;
  one.uid = 1000;
  one.user = user;
  one.state = state;
  one.submitted_unix_milliseconds = kNow - 10 * kMinute;
  return one;
}

Job running(model::JobId id, const char* user, std::vector<model::Grant> grants) {
  Job one = job(id, user, JobState::kRunning);
  one.started_unix_milliseconds = kNow - 5 * kMinute;
  one.grants = std::move(grants);
  return one;
}

Job ended(model::JobId id, JobState state, int exit_code, std::optional<int> signal = {}) {
  Job one = running(id, "lin", {});
  one.state = state;
  one.ended_unix_milliseconds = kNow - kMinute;
  one.outcome = model::Outcome{model::OutcomeClass::kFailed, exit_code, signal};
  return one;
}

/// Sets the time zone to UTC, because texts for people have local time.
struct Utc {
  Utc() {
    ::setenv("TZ", "UTC0", 1);
    ::tzset();
  }
};

Terminal plain() {
  const Utc utc;
  return Terminal{};
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Job 3 of user lin waits for two GPUs. One GPU is free; job 1 has the other one until its time
/// limit.
JobStory busy_story() {
  JobStory story;
  story.job = job(3, "lin", JobState::kWaiting);
  story.job.request.gpus = 2;
  story.others = {running(1, "zhao", {{"GPU-1", 0}}), job(2, "wei", JobState::kWaiting), story.job};
  story.others[0].time_limit = std::chrono::minutes(65);
  story.others[1].request.gpus = 4;
  story.outlook.obstruction = "busy";
  story.outlook.before = {2};
  story.outlook.fits_at = kNow + 60 * kMinute;
  story.outlook.releases = {{1, kNow + 60 * kMinute, true}};
  story.free = {"GPU 3"};
  story.holders = {{"GPU 0", 1, ""}, {"GPU 1", 0, "zhao (pid 4121) 34.0 GiB, no lease"}};
  story.sooner = {{"berth run --gpus 1 …", "GPU 3"},
                  {"berth run --gpus 2 --memory 30GiB …", "GPU 1, GPU 3"}};
  return story;
}

}  // namespace

TEST_CASE("each job is one row: running, waiting, then ended jobs, the latest first") {
  const model::Snapshot snapshot = machine("mig");
  Job shared = running(4, "zhao", {{snapshot.devices[0].partitions[1].uuid, 4ULL << 30}});
  Job waiting = job(5, "lin", JobState::kWaiting);
  waiting.request.gpus = 2;
  waiting.name = "tune";
  Job gone = running(6, "lin", {{"GPU-ffffffff-0000-1111-2222-333333333333", 0}});
  gone.command = {"/usr/bin/python3", "train.py", "--name", "b"};
  Job killed = ended(3, JobState::kFailed, 137, 9);
  killed.ended_unix_milliseconds = kNow - 2 * kMinute;
  const JobsView view{kNow, 1000, &snapshot};
  CHECK(jobs_text({ended(2, JobState::kFailed, 3), killed, shared, waiting, gone}, view, plain()) ==
        "job  user  state    devices          memory    waited      ran     exit  what\n"
        "  4  zhao  running  GPU 0:1        4.00 GiB   5 m 0 s  5 m 0 s\n"
        "  6  lin   running  GPU-ffffffff…             5 m 0 s  5 m 0 s           python3 train.py "
        "--name b\n"
        "  5  lin   waiting  2 GPUs                   10 m 0 s                    tune\n"
        "  2  lin   failed   CPU                       5 m 0 s  4 m 0 s        3\n"
        "  3  lin   failed   CPU                       5 m 0 s  3 m 0 s  SIGKILL\n"
        "\nberth why 5   what job 5 waits for\n");
}

TEST_CASE("similar jobs of an array are one row with what they have in common") {
  const model::Snapshot snapshot = machine("eight-busy");
  std::vector<Job> jobs;
  for (int i = 1; i <= 3; ++i) {
    jobs.push_back(ended(static_cast<model::JobId>(10 + i), JobState::kDone, 0));
    jobs.back().task = {10, i, 0};
    jobs.back().grants = {{snapshot.devices[i == 2 ? 1 : 0].uuid, 4ULL << 30}};
  }
  std::string text = jobs_text(jobs, {kNow, 1000, &snapshot}, plain());
  CHECK(holds(text, "10_[1-3]  lin   done   4.00 GiB     0\n"));
  CHECK(!holds(text, "GPU"));
  jobs[1].grants = jobs[0].grants;
  text = jobs_text(jobs, {kNow, 1000, &snapshot}, plain());
  CHECK(holds(text, "10_[1-3]  lin   done   GPU 0    4.00 GiB"));
}

TEST_CASE("text of other users is printed without control characters") {
  Job named = job(1, "lin\x1b[31m", JobState::kWaiting);
  named.name = "a\nb\x1b";
  const std::string text = jobs_text({named}, {kNow, 1, nullptr}, plain());
  CHECK(!holds(text, "\x1b"));
  CHECK(!holds(text, "a\nb"));
}

TEST_CASE("a narrow terminal leaves memory and waiting out before it clips") {
  Terminal narrow = plain();
  narrow.width = 60;
  Job one = running(4, "zhao", {{"GPU-1", 4ULL << 30}});
  one.name = "training";
  const std::string text = jobs_text({one}, {kNow, 1000, nullptr}, narrow);
  CHECK(holds(text, "training"));
  CHECK(!holds(text, "waited"));
}

TEST_CASE("requests are described in words") {
  model::Request request;
  CHECK(wish_words(request) == "1 GPU");
  request.cpus = 4;
  CHECK(wish_words(request) == "1 GPU, 4 cores");
  request.gpus = 0;
  CHECK(wish_words(request) == "4 cores");
  request = {};
  request.gpus = 2;
  request.memory_bytes = 8ULL << 30;
  CHECK(wish_words(request) == "8.00 GiB on each of 2 GPUs");
  request = {};
  request.devices = {"2,3"};
  CHECK(wish_words(request) == "devices 2,3");
}

TEST_CASE("why: what the job waits for, until when, who has it, who is first, what fits now") {
  const model::Snapshot snapshot = machine("eight-busy");
  CHECK(why_text(busy_story(), {kNow, 1000, &snapshot}, plain()) ==
        "job 3 waits for 2 GPUs: 1 is free (GPU 3)\n"
        "when        at about 01:26, when the time limit of job 1 (zhao) expires\n"
        "            later, if an earlier job in the queue starts first\n"
        "held by     GPU 0: job 1 (zhao), since 00:21:40, until 01:26:40 at the latest\n"
        "            GPU 1: zhao (pid 4121) 34.0 GiB, no lease\n"
        "before it   job 2 (wei): 4 GPUs\n"
        "sooner      berth run --gpus 1 …                  fits now, on GPU 3\n"
        "            berth run --gpus 2 --memory 30GiB …   fits now, on GPU 1, GPU 3\n");
}

TEST_CASE("why: estimates and unknown values are marked as such") {
  const model::Snapshot snapshot = machine("eight-busy");
  JobStory story = busy_story();
  story.outlook.releases[0].by_limit = false;
  story.outlook.fits_at = kNow + 20'000;
  story.outlook.releases[0].unix_milliseconds = kNow + 20'000;
  CHECK(holds(why_text(story, {kNow, 1000, &snapshot}, plain()),
              "in about 20 s; a guess, because job 1 (zhao) has no time limit"));
  story.outlook.fits_at.reset();
  CHECK(holds(why_text(story, {kNow, 1000, &snapshot}, plain()), "unknown: something other"));
}

TEST_CASE("why: of jobs that end at the same time the one is named that is in the way") {
  const model::Snapshot snapshot = machine("eight-busy");
  JobStory story = busy_story();
  story.outlook.releases.push_back({9, kNow + 60 * kMinute, true});
  CHECK(holds(why_text(story, {kNow, 1000, &snapshot}, plain()), "limit of job 1 (zhao) expires"));
}

TEST_CASE("why: when it takes the CPU instead") {
  const model::Snapshot snapshot = machine("eight-busy");
  JobStory story = busy_story();
  story.job.or_cpu_after = std::chrono::minutes(30);
  CHECK(holds(why_text(story, {kNow, 1000, &snapshot}, plain()),
              "\nor          at about 00:46 on the CPU, after a wait of 30 m 0 s\nheld by"));
  story.job.or_cpu_after = std::chrono::minutes(5);
  CHECK(holds(why_text(story, {kNow, 1000, &snapshot}, plain()),
              "on the CPU, as soon as the job fits there: it has waited 5 m 0 s\n"));
}

TEST_CASE("why: a job that waits for another job is not blocked by holders of devices") {
  const model::Snapshot snapshot = machine("eight-busy");
  JobStory story = busy_story();
  story.job.or_cpu_after = std::chrono::minutes(30);
  story.job.after = {1};
  CHECK(why_text(story, {kNow, 1000, &snapshot}, plain()) ==
        "job 3 waits for the end of job 1\n"
        "before it   job 2 (wei): 4 GPUs\n"
        "sooner      berth run --gpus 1 …                  fits now, on GPU 3\n"
        "            berth run --gpus 2 --memory 30GiB …   fits now, on GPU 1, GPU 3\n"
        "see also    berth why 1\n");
  story = busy_story();
  story.outlook.obstruction = "array_limit";
  CHECK(!holds(why_text(story, {kNow, 1000, &snapshot}, plain()), "held by"));
}

TEST_CASE("why: drained devices are what is in the way") {
  const model::Snapshot snapshot = machine("eight-busy");
  JobStory story = busy_story();
  story.outlook.obstruction = "never";
  story.outlook.fits_at.reset();
  story.drained = 3;
  story.possible = 4;
  const std::string said = why_text(story, {kNow, 1000, &snapshot}, plain());
  CHECK(
      said.starts_with("job 3 waits for 2 GPUs: 3 of the 4 suitable devices are drained\n"
                       "when        after `berth undrain` on one of these devices\n"));
}

TEST_CASE("why: how often it was restarted, whether it would be, and when it no longer is") {
  const JobsView view{kNow, 1000, nullptr};
  JobStory story;
  story.job = running(7, "lin", {});
  CHECK(!holds(why_text(story, view, plain()), "restart"));
  story.job.requeue = true;
  CHECK(holds(why_text(story, view, plain()), "if the machine restarts while it runs\n"));
  CHECK(!holds(why_text(story, view, plain()), "because"));
  story.job.restarts = 2;
  CHECK(holds(why_text(story, view, plain()),
              "restarts   restarted 2 times, because the machine was restarted\n"));
  story.job.state = JobState::kLost;
  story.job.ended_unix_milliseconds = kNow;
  story.job.why = "the job's processes ended, but their exit status is unknown";
  CHECK(!holds(why_text(story, view, plain()), "not restarted again"));
  story.job.restarts = 5;
  story.job.why = "the machine was restarted while it ran";
  CHECK(holds(
      why_text(story, view, plain()),
      "restarted 5 times, because the machine was restarted\n"
      "           not restarted again after 5 times: the job may be what crashes the machine\n"));
}

TEST_CASE("why: of an array how many ended well, and which did not") {
  const JobsView view{kNow, 1000, nullptr};
  JobStory story;
  for (int i = 1; i <= 6; ++i) {
    story.array.push_back(ended(static_cast<model::JobId>(20 + i),
                                i < 3 ? JobState::kDone : JobState::kFailed, i < 3 ? 0 : 1));
    story.array.back().task = {20, i, 0};
    story.array.back().log = "/var/lib/berth/1.log";
  }
  story.array[4].outcome = model::Outcome{model::OutcomeClass::kSignal, 137, 9};
  story.array[5].state = JobState::kCancelled;
  story.job = story.array.front();
  CHECK(why_text(story, view, plain()) ==
        "array 20 ended at 00:25:40: 2 done, 3 failed, 1 cancelled\n"
        "failed      20_5: ended by SIGKILL\n"
        "            20_[3-4]: exit code 1\n"
        "cancelled   20_6\n"
        "output      berth logs 20_5\n");
  story.array[1] = job(22, "lin", JobState::kWaiting);
  story.array[1].task = {20, 2, 0};
  story.job = story.array[1];
  story.outlook.obstruction = "busy";
  CHECK(holds(why_text(story, view, plain()), "job 20_2 waits for 1 GPU: none is free\n"));
  CHECK(holds(why_text(story, view, plain()),
              "its array   1 done, 3 failed, 1 cancelled, 1 waiting\n"
              "failed      20_5: ended by SIGKILL\n"));
  story.job.state = JobState::kHeld;
  CHECK(holds(why_text(story, {kNow, 1000, nullptr}, plain()), "berth release 20\n"));
}

TEST_CASE("why: each obstruction has its sentence") {
  const model::Snapshot snapshot = machine("eight-busy");
  const JobsView view{kNow, 1000, &snapshot};
  JobStory story = busy_story();
  story.outlook.obstruction = "reserved";
  CHECK(holds(why_text(story, view, plain()), "reserved for a job that comes first"));
  story.kept_for = 2;
  CHECK(holds(why_text(story, view, plain()),
              "2 GPUs: enough is free, but reserved for job 2 (wei), which comes first\n"));
  story.outlook.obstruction = "user_limit";
  CHECK(holds(why_text(story, view, plain()), "lin has reached the limit"));
  story.outlook.obstruction = "never";
  CHECK(holds(why_text(story, view, plain()), "even if all other jobs ended"));
  story.outlook.obstruction = "a word of tomorrow";
  CHECK(holds(why_text(story, view, plain()), "is next"));
  story.job.after = {1, 99};
  CHECK(why_text(story, view, plain()).starts_with("job 3 waits for the end of job 1\n"));
  story.job.state = JobState::kHeld;
  const std::string held = why_text(story, view, plain());
  CHECK(held.starts_with("job 3 is held: it does not start until it is released\n"));
  CHECK(holds(held, "berth release 3"));
  CHECK(!holds(held, "held by"));
}

TEST_CASE("why: where a job runs, and how one ended") {
  const model::Snapshot snapshot = machine("eight-busy");
  const JobsView view{kNow, 1000, &snapshot};
  JobStory story;
  story.job = running(7, "lin", {{snapshot.devices[4].uuid, 0}, {snapshot.devices[6].uuid, 0}});
  story.job.time_limit = std::chrono::hours(1);
  CHECK(why_text(story, view, plain()) ==
        "job 7 has been running on GPU 4, 6 since 00:21:40 (5 m 0 s)\n"
        "until   01:21:40 at the latest: its time limit is 1 h 0 m\n");
  story.job = ended(8, JobState::kFailed, 3);
  story.job.log = "/var/lib/berth/8.log";
  CHECK(why_text(story, view, plain()) ==
        "job 8 ended at 00:25:40 after 4 m 0 s on CPU: exit code 3\n"
        "output   berth logs 8\n");
  story.job = ended(8, JobState::kCancelled, 143, 15);
  CHECK(why_text(story, view, plain()) ==
        "job 8 ended at 00:25:40 after 4 m 0 s on CPU: cancelled\n");
  story.job = job(9, "lin", JobState::kCancelled);
  story.job.ended_unix_milliseconds = kNow - 24 * 60 * kMinute;
  story.job.why = "job 8, which it was to come after, did not end well";
  CHECK(why_text(story, view, plain()) ==
        "job 9 ended at 2026-09-09 00:26:40 without having started: cancelled\n"
        "because   job 8, which it was to come after, did not end well\n");
}

TEST_CASE("the same in Chinese") {
  const model::Snapshot snapshot = machine("eight-busy");
  const InLanguage chinese(Language::kChinese);
  const std::string text = why_text(busy_story(), {kNow, 1000, &snapshot}, plain());
  CHECK(text.starts_with("作业 3 在等 2 个 GPU：1 个空闲（GPU 3）\n"));
  CHECK(holds(text, "约 01:26：届时作业 1（zhao）的时限已到"));
  CHECK(holds(text, "GPU 0：作业 1（zhao），自 00:21:40，最晚到 01:26:40\n"));
  CHECK(holds(text, "作业 2（wei）：4 个 GPU\n"));
  JobStory story = busy_story();
  story.job.after = {1};
  CHECK(why_text(story, {kNow, 1000, &snapshot}, plain()).starts_with("作业 3 在等作业 1 结束\n"));
  model::Request& request = story.job.request;
  request.memory_bytes = 8ULL << 30;
  request.devices = {"0,1"};
  CHECK(wish_words(request) == "2 个 GPU，每个 8.00 GiB（0,1）");
  JobsView view{kNow, 1000, &snapshot};
  story.job = running(7, "lin", {});
  story.job.log = "/var/lib/berth/7.log";
  view.output_bytes[7] = 7;
  CHECK(holds(why_text(story, view, plain()), "berth logs -f 7（目前 7 B）\n"));
}
