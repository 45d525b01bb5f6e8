// `berth stacks JOB|PID`: shows where each process of a job is in its code, without stopping the
// process.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "cli/job_calls.hpp"
#include "cli/verbs.hpp"
#include "client/jobs.hpp"
#include "client/lease.hpp"
#include "client/reach.hpp"
#include "run/descendants.hpp"
#include "run/native_stack.hpp"
#include "run/stacks.hpp"

namespace berth::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Seen {
  pid_t pid = 0;
  std::string command, rank, stack;
  std::vector<run::ThreadState> threads;
  // The native call stacks: one for each thread, or only that of the main thread.
  std::vector<std::vector<run::NativeFrame>> native;
};

Error no_process(const std::string& word) {
  return {ErrorCode::kNotFound, "E0532",
          text("there is no running job or process {}", printable(word)), "berth jobs"};
}

Error not_yours(pid_t pid) {
  return {ErrorCode::kPermissionDenied, "E0533", text("process {} is another user's", pid),
          fmt::format("sudo berth stacks {}", pid)};
}

/// The error for a job that is not running. If the job's number is also the pid of a process, the
/// hint names that process.
Error no_running_job(const model::Job& job) {
  const std::string number = model::job_number(job);
  const bool has_ended = model::has_ended(job.state);
  std::string hint = fmt::format("berth {} {}", has_ended ? "report" : "why", number);
  if (!job.task && run::read_stat("/proc", static_cast<pid_t>(job.id)))
    hint += fmt::format("\nberth stacks --pid {}", job.id);
  return {ErrorCode::kNotFound, "E0995",
          has_ended ? text("job {} has ended, so it has no stacks", number)
                    : text("job {} does not run yet, so it has no stacks", number),
          hint};
}

std::vector<pid_t> owners_of(const model::Job& job) {
  std::vector<pid_t> found;
  for (const model::ProcessId& one : job.owners) found.push_back(static_cast<pid_t>(one.pid));
  return found;
}

Result<std::vector<pid_t>> process_named(const std::string& word) {
  const auto number = to_number(word);
  if (!number || *number < 1)
    return Error{ErrorCode::kInvalidArgument, "E0104",
                 text("'{}' is not the number of a process", printable(word)),
                 "berth stacks --pid 4121"};
  if (!run::read_stat("/proc", static_cast<pid_t>(*number)))
    return Error{ErrorCode::kNotFound, "E0532", text("there is no process {}", printable(word)),
                 "ps -e"};
  return std::vector<pid_t>{static_cast<pid_t>(*number)};
}

/// The top processes of the given job or pid. If a number is both, it means the job, even one that
/// has ended.
Result<std::vector<pid_t>> roots_of(const Context& context) {
  const auto& words = context.arguments.positional;
  if (const auto pid = context.arguments.value("--pid"))
    return words.empty() ? process_named(*pid)
                         : Result<std::vector<pid_t>>(contradiction("--pid", "JOB"));
  const auto number = words.empty() ? std::nullopt : to_number(words.front());
  if (number && *number > 0) {
    auto client = client::broker_here(client::IfNone::kGlance);
    const auto answer = client ? client->call("GET", job_path(static_cast<model::JobId>(*number)))
                               : Result<client::Response>(no_process(words.front()));
    if (answer && answer->status == 200)
      if (const auto job = client::job_in(*answer)) {
        if (job->state == model::JobState::kRunning) return owners_of(*job);
        return no_running_job(*job);
      }
    if (!run::read_stat("/proc", static_cast<pid_t>(*number)))
      return answer ? no_process(words.front()) : answer.error();
    if (!answer && answer.error().id == "E0922")
      client::say_wait(
          text("{}; {} is treated as a process number", answer.error().message, *number));
    return std::vector<pid_t>{static_cast<pid_t>(*number)};
  }
  auto found = find_job(context, "stacks");
  if (!found) return std::move(found).error();
  const auto job = found->calls.job(found->id);
  if (!job) return job.error();
  if (job->state != model::JobState::kRunning) return no_running_job(*job);
  return owners_of(*job);
}

std::string variable_of(pid_t pid, std::string_view name) {
  const std::string all = slurp("/proc/" + std::to_string(pid) + "/environ").value_or("");
  for (const std::string_view one : split(all, '\0'))
    if (one.starts_with(name) && one.substr(name.size()).starts_with('='))
      return std::string(one.substr(name.size() + 1));
  return {};
}

/// Whether the process is one of Berth's own helpers, which do not belong to the user's program.
bool is_ours(const std::string& command) {
  return command.starts_with("job-keeper") || command.starts_with("berth") ||
         command.find("/berth run ") != std::string::npos;
}

void add_native(std::vector<Seen>& all, bool of_all_threads) {
  constexpr std::chrono::milliseconds kPatience(3'000);
  std::vector<run::NativeThread> threads;
  for (Seen& one : all) {
    one.native.resize(of_all_threads ? one.threads.size() : 1);
    for (std::size_t i = 0; i < one.native.size(); ++i)
      threads.push_back({one.pid, one.threads[i].id});
  }
  auto found = run::native_stacks(threads, kPatience);
  auto next = found.begin();
  for (Seen& one : all)
    for (auto& frames : one.native) frames = std::move(*next++);
}

std::vector<Seen> look_at(const std::vector<pid_t>& roots, bool of_all_threads) {
  std::vector<Seen> all;
  std::map<std::string, std::vector<pid_t>> by_folder;
  for (const pid_t root : roots) {
    std::vector<pid_t> processes{root};
    for (const run::Relative& one : run::descendants(root)) processes.push_back(one.pid);
    for (const pid_t pid : processes) {
      Seen seen{pid, run::command_of(pid), variable_of(pid, "RANK"), "", run::threads_of(pid), {}};
      if (seen.threads.empty() || (is_ours(seen.command) && processes.size() > 1)) continue;
      by_folder[run::stack_folder_of(pid)].push_back(pid);
      all.push_back(std::move(seen));
    }
  }
  for (const auto& [folder, processes] : by_folder) {
    const auto stacks = run::ask_for_stacks(folder, processes);
    for (Seen& one : all)
      if (const auto found = stacks.find(one.pid); found != stacks.end()) one.stack = found->second;
  }
  add_native(all, of_all_threads);
  return all;
}

Json native_json(const std::vector<run::NativeFrame>& frames) {
  Json out = Json::array();
  for (const run::NativeFrame& one : frames)
    out.push_back(
        {{"library", printable(one.library)},
         {"function", one.function.empty() ? Json(nullptr) : Json(printable(one.function))},
         {"exact", one.is_exact}});
  return out;
}

/// The native call stack of the main thread as text, innermost function first. Its callers are
/// estimated.
std::string native_text(const Seen& seen) {
  constexpr std::size_t kMost = 8;
  auto frames = seen.native.front();
  frames.resize(std::min(frames.size(), kMost));
  if (frames.empty()) return "";
  std::string out = "  " + text("native stack (callers are estimated):") + "\n";
  const std::string lines = run::native_lines(frames);
  for (const std::string_view one : split(lines, '\n')) out += "    " + printable(one) + "\n";
  return out;
}

Json json_of(const Seen& seen) {
  Json threads = Json::array();
  for (std::size_t i = 0; i < seen.threads.size(); ++i) {
    const auto& one = seen.threads[i];
    threads.push_back({{"id", one.id},
                       {"name", printable(one.name)},
                       {"state", std::string(1, one.state)},
                       {"waits_in", one.waits_in.empty() ? Json(nullptr) : Json(one.waits_in)},
                       {"native", native_json(seen.native[i])}});
  }
  Json python = nullptr;
  if (!seen.stack.empty()) {
    python = Json::array();
    for (const auto& thread : run::parse_stacks(seen.stack)) {
      Json frames = Json::array();
      for (const auto& frame : thread.frames)
        frames.push_back({{"file", printable(frame.file)},
                          {"line", frame.line},
                          {"function", printable(frame.function)}});
      python.push_back({{"frames", std::move(frames)}});
    }
  }
  const auto rank = to_number(seen.rank);
  return {{"pid", seen.pid},
          {"rank", rank ? Json(*rank) : Json(nullptr)},
          {"command", seen.command.empty() ? Json(nullptr) : Json(printable(seen.command))},
          {"threads", std::move(threads)},
          {"python", std::move(python)}};
}

std::string text_of(const Seen& seen) {
  const auto& first = seen.threads.front();
  std::string out = text("process {}", seen.pid);
  if (!seen.rank.empty()) out += "   " + text("rank {}", printable(seen.rank));
  out += "   " + printable(seen.command) + "\n  ";
  out += text_n("{} thread", "{} threads", static_cast<long long>(seen.threads.size()),
                seen.threads.size());
  out += first.waits_in.empty()
             ? text("; the first thread is in state {}", std::string(1, first.state))
             : text("; the first thread sleeps in {}", first.waits_in);
  out += "\n";
  const auto python = run::parse_stacks(seen.stack);
  if (python.empty())
    return out + "  " +
           text("no Python stack: this process does not provide one; Python started with {} does",
                "berth run --retries 1") +
           "\n" + native_text(seen);
  for (auto thread = python.rbegin(); thread != python.rend(); ++thread) {
    if (thread != python.rbegin()) out += "  " + text("another thread:") + "\n";
    for (const auto& frame : thread->frames)
      out += fmt::format("    {}:{}  {}\n", printable(frame.file), frame.line,
                         printable(frame.function));
  }
  return out + native_text(seen);
}

}  // namespace

Result<int> run_stacks(const Context& context) {
  const auto roots = roots_of(context);
  if (!roots) return roots.error();
  for (const pid_t pid : *roots) {
    struct stat about = {};
    if (::geteuid() != 0 && ::stat(("/proc/" + std::to_string(pid)).c_str(), &about) == 0 &&
        about.st_uid != ::geteuid())
      return not_yours(pid);
  }
  const auto all = look_at(*roots, context.json);
  if (context.json) {
    Json processes = Json::array();
    for (const Seen& one : all) processes.push_back(json_of(one));
    context.out(Json{{"schema", 1}, {"processes", std::move(processes)}}.dump() + "\n");
    return 0;
  }
  std::string out;
  for (const Seen& one : all) out += (out.empty() ? "" : "\n") + text_of(one);
  context.out(context.out_terminal.spell(out));
  return 0;
}

}  // namespace berth::cli
