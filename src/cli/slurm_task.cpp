// `berth slurm task`: the SPANK plugin runs it as the task's user, when a task begins and after it
// has ended. No process of Berth runs in between. A folder named after the task keeps the data for
// the second call.
#include "cli/slurm_task.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "cli/request_options.hpp"
#include "cli/slurm_hang.hpp"
#include "engines/allocation.hpp"
#include "guard/setup.hpp"
#include "inventory/observe.hpp"
#include "output/report.hpp"
#include "policy/placement.hpp"
#include "run/stacks.hpp"
#include "system/runtime_folder.hpp"

namespace berth::cli {
namespace {

using Json = nlohmann::json;
using engines::Variables;

constexpr const char* kHangs = "/hangs";

Error wrong(std::string message) {
  return {ErrorCode::kInvalidArgument, "E1002", std::move(message), "berth help slurm"};
}

/// The folder for a task. The plugin passes a name such as "7.0.3", so only digits and dots are
/// allowed.
Result<std::string> folder_of(const std::string& task) {
  const bool sound = !task.empty() && task.size() < 64 && task.front() != '.' &&
                     task.find_first_not_of("0123456789.") == std::string::npos;
  if (!sound) return wrong(text("'{}' is not a Slurm task", printable(task)));
  const auto runtime = system::runtime_folder();
  if (!runtime) return runtime.error();
  bool made = false;
  if (auto usable = system::make_private_folder(*runtime, made); !usable)
    return std::move(usable).error();
  return *runtime + "/slurm-" + task;
}

std::int64_t milliseconds_of(clockid_t clock) {
  timespec now = {};
  ::clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

/// Replaces %j by the job's number and %t by the task's number. If there is no %t and the job has
/// several tasks, appends the task's number.
std::string report_path(std::string path, const model::EngineJob& job, const Variables& variables) {
  const auto fill = [&](const std::string& mark, const std::string& with) {
    for (std::size_t at = 0; (at = path.find(mark, at)) != std::string::npos; at += with.size())
      path.replace(at, mark.size(), with);
  };
  const auto tasks = variables.find("SLURM_STEP_NUM_TASKS");
  const std::string rank = std::to_string(job.rank.value_or(0));
  if (tasks != variables.end() && tasks->second != "1" && path.find("%t") == std::string::npos)
    path += ".%t";
  fill("%j", job.job);
  fill("%t", rank);
  std::error_code ignored;
  return std::filesystem::absolute(path, ignored).lexically_normal().string();
}

/// Data from the beginning of the task that are needed at its end.
struct Begun {
  model::Report report;
  std::string report_file;
  std::vector<model::GuardedDevice> guarded;
  std::string not_enforced;  // why no limit is enforced, translated; "" if limits are enforced
  bool is_guarded = false;
  std::int64_t started = 0;  // start of the task: CLOCK_BOOTTIME in milliseconds
  std::string stack_folder;  // the folder for stacks; "" without --hang-timeout
};

Json record_of(const Begun& begun) {
  Json devices = Json::array();
  for (const model::DeviceUse& use : begun.report.devices)
    devices.push_back({{"index", use.device}, {"name", use.name}, {"uuid", use.uuid}});
  Json guarded = Json::array();
  for (const model::GuardedDevice& one : begun.guarded)
    guarded.push_back({{"index", one.device},
                       {"memory", one.memory_limit_bytes.value_or(0)},
                       {"share", one.share_permille.value_or(0)}});
  const model::EngineJob& job = *begun.report.engine;
  return {{"command", begun.report.command},
          {"job", job.job},
          {"step", job.step},
          {"node", job.node},
          {"rank", job.rank.value_or(-1)},
          {"reasons", begun.report.reasons},
          {"started_unix_milliseconds", begun.report.started_unix_milliseconds},
          {"started", begun.started},
          {"report", begun.report_file},
          {"devices", devices},
          {"guarded", guarded},
          {"is_guarded", begun.is_guarded},
          {"not_enforced", begun.not_enforced},
          {"stack_folder", begun.stack_folder},
          {"gpus_here", begun.report.gpus_here}};
}

Begun begun_of(const Json& record) {
  Begun begun;
  begun.report.command = record.at("command").get<std::vector<std::string>>();
  model::EngineJob job;
  job.engine = "slurm";
  job.job = record.at("job");
  job.step = record.at("step");
  job.node = record.at("node");
  if (const int rank = record.at("rank"); rank >= 0) job.rank = rank;
  begun.report.engine = job;
  begun.report.reasons = record.at("reasons").get<std::vector<std::string>>();
  begun.report.started_unix_milliseconds = record.at("started_unix_milliseconds");
  begun.started = record.at("started");
  begun.report_file = record.at("report");
  for (const Json& one : record.at("devices")) {
    model::DeviceUse use;
    use.device = one.at("index");
    use.name = one.at("name");
    use.uuid = one.at("uuid");
    begun.report.devices.push_back(std::move(use));
  }
  for (const Json& one : record.at("guarded")) {
    model::GuardedDevice device;
    device.device = one.at("index");
    if (const std::uint64_t memory = one.at("memory"); memory > 0)
      device.memory_limit_bytes = memory;
    if (const int share = one.at("share"); share > 0) device.share_permille = share;
    begun.guarded.push_back(std::move(device));
  }
  begun.is_guarded = record.at("is_guarded");
  begun.not_enforced = record.at("not_enforced");
  begun.stack_folder = record.at("stack_folder");
  begun.report.gpus_here = record.at("gpus_here");
  return begun;
}

/// Places the task on the devices that Slurm gave it. The limits apply to each of these devices.
Result<model::Placement> place_task(const model::Request& request, const model::EngineJob& job,
                                    const Variables& variables, const model::Snapshot& snapshot) {
  model::Request whole = request;
  whole.memory_bytes.reset();
  whole.share_permille.reset();
  const auto inside =
      engines::within(engines::allocation_of(job, variables, whole, snapshot), whole);
  if (!inside) return inside.error();
  return policy::place(*inside, snapshot);
}

void set_up_guard(Begun& begun, const std::string& folder, const model::Request& request,
                  const model::Placement& placement, const model::Snapshot& snapshot,
                  Variables& set) {
  if (!request.memory_bytes && !request.share_permille) return;
  if (!guard::Setup::is_wanted(request, placement, snapshot)) {
    begun.not_enforced = placement.devices.empty()
                             ? text("Slurm gave the task no GPU")
                             : text("the guard does not support this kind of device");
    return;
  }
  const auto setup =
      guard::Setup::make(folder, 0, request, placement, snapshot, guard::Keep::kInFile);
  if (!setup) {
    begun.not_enforced = fmt::format("{} ({})", setup.error().message, setup.error().id);
    return;
  }
  begun.is_guarded = true;
  begun.guarded = setup->devices();
  setup->set_variables(set);
}

/// Starts the process that watches the task for hangs, if --hang-timeout was given.
Status set_up_watch(const Context& context, const model::EngineJob& job, const std::string& folder,
                    const Variables& variables, Begun& begun, Variables& set) {
  const auto given = context.arguments.value("--hang-timeout");
  if (!given) return Done{};
  const auto timeout = parse_duration(*given);
  if (!timeout) return Error(timeout.error()).during("--berth-hang-timeout");
  begun.stack_folder = run::make_stack_folder();
  const auto path = variables.find("PYTHONPATH");
  if (!begun.stack_folder.empty())
    run::add_stack_variables(begun.stack_folder, set, path == variables.end() ? "" : path->second);
  // The plugin runs this program from the process that becomes the task, so the task is our parent.
  const bool is_watched = watch_task(
      {::getppid(), job.rank.value_or(0), begun.stack_folder, folder + kHangs, *timeout});
  if (!is_watched)
    context.err(
        text("note: {}", text("hangs of the task cannot be detected: {}", error_words(errno))) +
        "\n");
  return Done{};
}

void remove_folder(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

void describe(Begun& begun, const model::Placement& placement, const model::Snapshot& snapshot) {
  begun.report.reasons = placement.reasons;
  for (std::size_t i = 0; i < placement.devices.size(); ++i)
    for (const model::Device& device : snapshot.devices) {
      if (device.index != placement.devices[i]) continue;
      model::DeviceUse use;
      use.device = device.index;
      use.name = device.name;
      use.uuid = placement.partitions[i].empty() ? device.uuid : placement.partitions[i];
      begun.report.devices.push_back(std::move(use));
    }
  begun.report.gpus_here =
      std::any_of(snapshot.devices.begin(), snapshot.devices.end(),
                  [](const model::Device& one) { return one.kind == model::DeviceKind::kGpu; });
}

model::Snapshot look_at_devices() {
  inventory::Options options;
  options.opencl = inventory::OpenCl::kNever;
  options.process_details = false;
  options.holders = false;
  return inventory::observe(inventory::Sources::from_environment(), options);
}

/// The variables to set for the task, and a note for the user ("" if there is none).
struct Start {
  Variables set;
  std::string note;
};

Result<Start> start_task(const Context& context, const std::string& task,
                         const Variables& variables, const std::function<model::Snapshot()>& look) {
  const auto job = engines::slurm_job(variables);
  if (!job)
    return Error{ErrorCode::kNotFound, "E1011", text("this is not a Slurm task"),
                 "srun --berth-memory=8G …"};
  const auto request = parse_request(context.arguments, variables);
  if (!request) return request.error();
  if (auto checked = inventory::Sources::check_environment(); !checked)
    return std::move(checked).error();
  const model::Snapshot snapshot = look();
  const auto placement = place_task(*request, *job, variables, snapshot);
  if (!placement) return placement.error();
  const auto folder = folder_of(task);
  if (!folder) return folder.error();
  // Slurm's job numbers may have been reset. Then an earlier job with the same number may have left
  // a folder.
  remove_folder(*folder);
  if (::mkdir(folder->c_str(), 0700) != 0)
    return Error{ErrorCode::kUnavailable, "E1012",
                 text("cannot create {}: {}", *folder, error_words(errno)), ""};

  Begun begun;
  begun.report.engine = job;
  begun.report.command = {context.arguments.value("--command").value_or("")};
  begun.report.started_unix_milliseconds = milliseconds_of(CLOCK_REALTIME);
  begun.started = milliseconds_of(CLOCK_BOOTTIME);
  describe(begun, *placement, snapshot);
  if (const auto path = context.arguments.value("--report"))
    begun.report_file = report_path(*path, *job, variables);
  Start start;
  Variables& set = start.set;
  set_up_guard(begun, *folder, *request, *placement, snapshot, set);
  if (auto watched = set_up_watch(context, *job, *folder, variables, begun, set); !watched)
    return std::move(watched).error();
  std::ofstream file(*folder + "/task.json");
  file << record_of(begun).dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  file.close();
  if (!file)
    return Error{ErrorCode::kUnavailable, "E1012",
                 text("{} cannot be written", *folder + "/task.json"), ""};
  if (!begun.not_enforced.empty()) start.note = text("limits not enforced: {}", begun.not_enforced);
  return start;
}

void print(const Context& context, const Start& start) {
  if (!start.note.empty()) context.err(text("note: {}", start.note) + "\n");
  for (const auto& [name, value] : start.set) context.out(fmt::format("{}={}\n", name, value));
}

Result<int> begin_task(const Context& context, const std::string& task) {
  const auto start = start_task(context, task, whole_environment(), look_at_devices);
  if (!start) return start.error();
  print(context, *start);
  return 0;
}

/// Reads the task's name, its folder and its variables from stdin. Each word ends with a NUL; a
/// further NUL ends the list. Returns an empty list if the input does not arrive in time.
std::vector<std::string> read_task() {
  constexpr std::chrono::seconds kPatience(30);
  constexpr std::size_t kMost = 4 << 20;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  std::string all;
  while (!all.ends_with(std::string_view("\0\0", 2))) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    pollfd in{0, POLLIN, 0};
    char buffer[65'536];
    if (left.count() <= 0 || ::poll(&in, 1, static_cast<int>(left.count())) <= 0) return {};
    const ssize_t n = ::read(0, buffer, sizeof buffer);
    if (n <= 0 || all.size() > kMost) return {};
    all.append(buffer, static_cast<std::size_t>(n));
  }
  std::vector<std::string> words;
  for (const std::string_view word : split(std::string_view(all).substr(0, all.size() - 2), '\0'))
    words.emplace_back(word);
  return words;
}

/// Reads the state of the GPUs while slurmstepd still prepares the task, and then the task's name
/// from stdin. If anything fails, the plugin runs `--begin TASK` instead, which reports the error.
Result<int> begin_later(const Context& context) {
  const model::Snapshot snapshot = look_at_devices();
  const auto words = read_task();
  if (words.size() < 2 || ::chdir(words[1].c_str()) != 0) return 1;
  ::clearenv();
  for (std::size_t i = 2; i < words.size(); ++i)
    if (const auto equals = words[i].find('='); equals != std::string::npos && equals > 0)
      ::setenv(words[i].substr(0, equals).c_str(),  // NOLINT(concurrency-mt-unsafe)
               words[i].c_str() + equals + 1, 1);
  const auto start =
      start_task(context, words.front(), whole_environment(), [&] { return snapshot; });
  if (!start || !start->note.empty()) return 1;
  print(context, *start);
  context.out(".\n");
  return 0;
}

model::Outcome outcome_of(int status) {
  model::Outcome outcome;
  if (WIFSIGNALED(status)) {
    outcome.kind = model::OutcomeClass::kSignal;
    outcome.signal = WTERMSIG(status);
    outcome.exit_code = 128 + WTERMSIG(status);
    return outcome;
  }
  outcome.exit_code = WEXITSTATUS(status);
  outcome.kind = outcome.exit_code == 0 ? model::OutcomeClass::kOk : model::OutcomeClass::kFailed;
  return outcome;
}

void fill(Begun& begun, const std::string& folder) {
  model::Report& report = begun.report;
  if (begun.is_guarded) {
    const auto setup = guard::Setup::made_before(folder, begun.guarded);
    report.guarded = setup.outcome();
    const auto& devices = report.guarded->devices;
    if (std::any_of(devices.begin(), devices.end(), [](const model::GuardedDevice& one) {
          return one.allocations + one.launches > 0;
        })) {
      report.gpu_use = model::GpuUse::kSeen;
      report.gpu_use_method = text("the guard counted the job's calls to the driver");
    }
  } else if (!begun.not_enforced.empty()) {
    report.guarded.emplace();
    report.guarded->not_enforced = begun.not_enforced;
  }
}

/// Adds the recorded hangs to the report. If the task failed after a hang, the hang is reported as
/// the reason.
void add_hangs(Begun& begun, const std::string& folder) {
  if (begun.stack_folder.empty()) return;
  remove_folder(begun.stack_folder);
  model::Tries seen = hangs_of_task(folder + kHangs);
  if (seen.all.empty()) return;
  model::Try& task = seen.all.front();
  const model::Outcome& outcome = begun.report.outcome;
  task.kind = outcome.exit_code == 0 ? model::TryClass::kOk : model::TryClass::kHang;
  task.wall = begun.report.wall;
  if (outcome.signal)
    task.signal = outcome.signal;
  else
    task.exit_code = outcome.exit_code;
  begun.report.tries = std::make_shared<const model::Tries>(std::move(seen));
}

Result<int> end_task(const Context& context, const std::string& task) {
  const auto folder = folder_of(task);
  if (!folder) return folder.error();
  const auto status = to_number(context.arguments.value("--status").value_or(""));
  if (!status) return wrong(text("--status is not a number"));
  const auto written = read_file(*folder + "/task.json");
  if (!written) return written.error();
  Begun begun;
  try {
    begun = begun_of(Json::parse(*written));
  } catch (const Json::exception&) {
    remove_folder(*folder);
    return Error{ErrorCode::kUnavailable, "E1012",
                 text("{} cannot be read", *folder + "/task.json"), ""};
  }
  begun.report.wall = std::chrono::milliseconds(milliseconds_of(CLOCK_BOOTTIME) - begun.started);
  begun.report.cpu_known = false;
  begun.report.outcome = outcome_of(static_cast<int>(*status));
  fill(begun, *folder);
  add_hangs(begun, *folder);
  remove_folder(*folder);
  if (begun.report_file.empty()) return 0;
  std::ofstream file(begun.report_file);
  file << output::report_json(begun.report);
  file.close();
  if (!file)
    return Error{ErrorCode::kUnavailable, "E0515",
                 text("the report cannot be written to {}: {}", printable(begun.report_file),
                      error_words(errno)),
                 ""};
  return 0;
}

}  // namespace

Result<int> slurm_task(const Context& context) {
  const auto begin = context.arguments.value("--begin"), end = context.arguments.value("--end");
  if (begin && end) return contradiction("--begin", "--end");
  if (begin == "-") return begin_later(context);
  if (begin) return begin_task(context, *begin);
  if (end) return end_task(context, *end);
  return wrong(text("only Slurm's plugin calls this command, with --begin or --end"));
}

}  // namespace berth::cli
