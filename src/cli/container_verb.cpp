// `berth container`: containers that users start with podman or docker directly also take a lease.
// `--install` adds a hook for podman and a runtime for docker. The hook calls `berth container
// prestart`; docker calls `berth container runtime`.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/write_file.hpp"
#include "cli/look.hpp"
#include "cli/verbs.hpp"
#include "client/lease.hpp"
#include "engines/container_hook.hpp"
#include "output/json_writer.hpp"
#include "run/descendants.hpp"

namespace berth::cli {
namespace {

constexpr std::size_t kMostBytes = 8U << 20U;  // largest size of a container's config.json
constexpr const char* kHookFile = "/etc/containers/oci/hooks.d/berth.json";
constexpr const char* kDaemonFile = "/etc/docker/daemon.json";

engines::HookCall own_call() {
  std::error_code ignored;
  engines::HookCall call{std::filesystem::read_symlink("/proc/self/exe", ignored).string(), {}};
  // An engine starts hooks without environment variables, so the hook's file sets these. They give
  // the location of the broker and its files.
  for (const char* name :
       {"BERTH_RUNTIME_DIR", "BERTH_STATE_DIR", "BERTH_SIM_DIR", "LD_LIBRARY_PATH"})
    if (const auto value = env_nonempty(name);
        value && (name[0] == 'B' || env_nonempty("BERTH_SIM_DIR")))
      call.variables.push_back(std::string(name) + "=" + *value);
  return call;
}

Error not_written(const std::string& path, int problem) {
  return {problem == EACCES || problem == EPERM || problem == EROFS ? ErrorCode::kPermissionDenied
                                                                    : ErrorCode::kUnavailable,
          "E1107", text("{} cannot be written: {}", printable(path), error_words(problem)),
          "sudo berth container --install"};
}

/// Replaces the file with `bytes`, or removes the file if `bytes` is empty.
Status put(const std::string& path, const std::string& bytes) {
  if (bytes.empty()) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return not_written(path, errno);
    return Done{};
  }
  std::error_code problem;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), problem);
  if (problem) return not_written(path, problem.value());
  struct stat before = {};
  const mode_t mode = ::stat(path.c_str(), &before) == 0 ? before.st_mode & 07777U : 0644;
  if (!replace_file(path, bytes, mode)) return not_written(path, errno);
  return Done{};
}

Result<int> change(const Context& context, bool install) {
  const std::string root = context.arguments.value("--root").value_or("");
  std::error_code problem;
  // Do not create the folder. If its name is misspelled, no engine would read the files in it.
  if (!root.empty() && !std::filesystem::is_directory(root, problem))
    return Error{
        ErrorCode::kInvalidArgument, "E1079",
        text("--root: {} is not a folder, so no system is installed there", printable(root)),
        fmt::format("ls -ld {}", shell_word(root))};
  const std::string hook = root + kHookFile, daemon = root + kDaemonFile;
  const engines::HookCall call = own_call();
  const std::string before = slurp(daemon, kMostBytes).value_or("");
  const bool has_docker =
      install && (!before.empty() || ::access((root + "/etc/docker").c_str(), F_OK) == 0 ||
                  ::access((root + "/usr/bin/dockerd").c_str(), X_OK) == 0);
  auto after =
      has_docker ? engines::with_runtime(before, call.program) : engines::without_runtime(before);
  if (!after) return std::move(after).error();
  if (auto written = put(hook, install ? engines::podman_hook(call) : ""); !written)
    return std::move(written).error();
  const bool changes_docker =
      *after != before && (install || before.find("\"berth\"") != std::string::npos);
  if (changes_docker)
    if (auto written = put(daemon, *after); !written) return std::move(written).error();
  if (context.json) {
    output::JsonWriter json;
    json.open('{');
    json.field("schema", 1);
    json.field("installed", install);
    json.field("podman", hook);
    json.text_field("docker", changes_docker || has_docker ? daemon : "");
    json.close('}');
    context.out(json.finish());
    return 0;
  }
  context.out(
      (install ? text("podman: {} is written", hook) : text("podman: {} is removed", hook)) + "\n");
  if (changes_docker) {
    context.out((install ? text("docker: {} now has Berth's runtime as the default", daemon)
                         : text("docker: {} was restored", daemon)) +
                "\n");
    context.err(text("hint: {}", "sudo systemctl reload docker") + "\n");
  }
  return 0;
}

std::string read_stdin() {
  std::string all;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t n = ::read(0, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || all.size() > kMostBytes) return all;
    all.append(part.data(), static_cast<std::size_t>(n));
  }
}

/// Whether `berth run --container` started the container, and its job has a lease on the devices.
/// Docker's daemon starts any user's container as root, so the container's own variables prove
/// nothing. Instead, one of the job's processes must have the token, which only its user and root
/// can read.
bool is_of_job_with(const engines::GivenGpus& given, const std::vector<std::string>& devices) {
  constexpr std::size_t kMost = 4U << 20U;
  if (given.job == 0) return false;
  auto client = client::broker_here(client::IfNone::kGlance);
  if (!client) return false;
  const auto answer = client->call("GET", fmt::format("/v1/jobs/{}", given.job));
  if (!answer) return false;
  const auto job = client::job_in(*answer);
  if (!job || !engines::has_lease_on(*job, devices)) return false;
  for (const model::ProcessId& owner : job->owners)
    for (const run::Relative& one : run::descendants(static_cast<pid_t>(owner.pid)))
      if (engines::has_token(slurp(fmt::format("/proc/{}/environ", one.pid), kMost).value_or(""),
                             given))
        return true;
  return false;
}

/// Called by the hook before a container starts. If it fails, the engine does not start the
/// container, and shows the error to the user.
Result<int> prestart(const Context& context) {
  const auto state = engines::parse_hook_state(read_stdin());
  if (!state) return state.error();
  const auto config = read_file(state->bundle + "/config.json", kMostBytes);
  if (!config) return config.error();
  const auto given = engines::gpus_given(*config, context.arguments.has("--nvidia"));
  if (!given) return given.error();
  if (!given->any()) return 0;
  const auto snapshot = look(context, Processes::kUsers, false);
  if (!snapshot) return snapshot.error();
  client::Lease::Wishes wishes;
  wishes.job.request.devices = engines::devices_of(*given, *snapshot);
  if (wishes.job.request.devices.empty()) return 0;
  if (is_of_job_with(*given, wishes.job.request.devices)) return 0;
  wishes.job.name = "container " + printable(state->id.substr(0, 12));
  wishes.job.command = {"container", state->id};
  wishes.may_wait = false;
  auto lease = client::Lease::take(wishes, *snapshot, client::IfNone::kStart);
  if (!lease) return std::move(lease).error();
  lease->share_with(static_cast<pid_t>(state->pid));
  return 0;
}

/// The folder of the container, from runc's arguments: "--bundle DIR", "--bundle=DIR" or "-b DIR".
std::string bundle_in(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with("--bundle=")) return words[i].substr(9);
    if ((words[i] == "--bundle" || words[i] == "-b") && i + 1 < words.size()) return words[i + 1];
  }
  return "";
}

/// Docker calls this program in place of its runtime (runc). If the container has no GPU, runc is
/// called with the same arguments.
Result<int> runtime(const Context& context) {
  const std::vector<std::string>& words = context.arguments.command;
  const std::string next = context.arguments.value("--next").value_or("runc");
  const bool creates = std::any_of(words.begin(), words.end(), [](const std::string& one) {
    return one == "create" || one == "run";
  });
  const std::string bundle = creates ? bundle_in(words) : "";
  const std::string path = (bundle.empty() ? "." : bundle) + "/config.json";
  const bool nvidia = next.find("nvidia") != std::string::npos;
  if (const auto config = creates ? slurp(path, kMostBytes) : std::nullopt) {
    const auto given = engines::gpus_given(*config, nvidia);
    if (!given) return given.error();
    if (given->any()) {
      auto changed = engines::with_hook(*config, own_call(), nvidia);
      if (!changed) return std::move(changed).error();
      if (auto written = put(path, *changed); !written) return std::move(written).error();
    }
  }
  std::vector<char*> all{const_cast<char*>(next.c_str())};
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  ::execvp(all.front(), all.data());
  return Error{ErrorCode::kNotFound, "E1108",
               text("the runtime {} cannot be started: {}", printable(next), error_words(errno)),
               "sudo berth container --remove"};
}

}  // namespace

Result<int> run_container(const Context& context) {
  const bool install = context.arguments.has("--install"),
             remove = context.arguments.has("--remove");
  const auto& words = context.arguments.positional;
  if (install && remove) return contradiction("--install", "--remove");
  if (words.empty() && (install || remove)) return change(context, install);
  if (words == std::vector<std::string>{"prestart"}) return prestart(context);
  if (words == std::vector<std::string>{"runtime"}) return runtime(context);
  return Error{ErrorCode::kInvalidArgument, "E1109",
               text("berth container needs --install or --remove"), "berth help container"};
}

}  // namespace berth::cli
