// `berth serve`: runs the broker of this machine or of this user, until it is stopped or idle.
// `berth run` starts one automatically; start one by hand to see its output.
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/descriptor.hpp"
#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/verbs.hpp"
#include "cli/version.hpp"
#include "client/reach.hpp"
#include "inventory/observe.hpp"
#include "output/json_writer.hpp"
#include "serve/daemon.hpp"
#include "serve/foreign_processes.hpp"
#include "serve/refusal.hpp"
#include "serve/token.hpp"
#include "system/device_locks.hpp"
#include "system/process.hpp"
#include "system/runtime_folder.hpp"

namespace berth::cli {
namespace {

bool has_user(const std::string& name) {
  std::vector<char> buffer(1U << 16U);
  passwd entry{};
  passwd* found = nullptr;
  return ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
         found != nullptr;
}

Result<serve::DaemonOptions> for_this_user(const Arguments& arguments) {
  const auto runtime = system::runtime_folder();
  if (!runtime) return runtime.error();
  serve::DaemonOptions options;
  if (const auto file = arguments.value("--config")) {
    auto settings = serve::read_settings(*file, true, serve::Audience::kOneUser);
    if (!settings) return std::move(settings).error();
    options.settings = *std::move(settings);
  }
  options.state_folder = system::state_folder();
  options.socket = options.state_folder + "/berth.sock";
  // If the user's session has ended, its runtime folder no longer exists, so make no link in it.
  const std::string session = runtime->substr(0, std::max<std::size_t>(1, runtime->rfind('/')));
  if (::access(session.c_str(), F_OK) != 0) return options;
  bool made = false;
  if (auto folder = system::make_private_folder(*runtime, made); !folder)
    return std::move(folder).error();
  // The two folders may be the same, or one may be a link to the other. In this case, no link to
  // the socket is needed.
  std::error_code ignored;
  if (!std::filesystem::equivalent(*runtime, options.state_folder, ignored))
    options.link = *runtime + "/berth.sock";
  return options;
}

Result<serve::DaemonOptions> for_all_users(const Arguments& arguments) {
  if (::geteuid() != 0)
    return Error{ErrorCode::kPermissionDenied, "E0924",
                 text("only root may run the broker for all users"), "sudo berth serve --system"};
  // Folders that variables name take precedence, because the broker of a simulated machine must not
  // use the real broker's files.
  std::string runtime(system::kSystemSocket, std::string_view(system::kSystemSocket).rfind('/'));
  if (env_nonempty("BERTH_RUNTIME_DIR")) {
    auto named = system::runtime_folder();
    if (!named) return std::move(named).error();
    runtime = *std::move(named);
  }
  bool made = false;
  if (auto folder = system::make_private_folder(runtime, made); !folder)
    return std::move(folder).error();
  if (made)
    static_cast<void>(
        ::chmod(runtime.c_str(), 0755));  // so that all users can reach the socket in this folder
  serve::DaemonOptions options;
  options.socket = runtime + "/berth.sock";
  options.state_folder =
      env_nonempty("BERTH_STATE_DIR") ? system::state_folder() : system::kSystemState;
  options.for_all = true;
  // A simulated machine shares the kernel's control groups. So the jobs of its broker go into a
  // group of their own, apart from those of the real broker.
  if (const auto simulated = env_nonempty("BERTH_SIM_DIR"))
    options.groups = std::filesystem::path(*simulated).filename().string();
  auto settings = serve::read_settings(arguments.value("--config").value_or(serve::kSettingsFile),
                                       arguments.has("--config"));
  if (!settings) return std::move(settings).error();
  options.settings = *std::move(settings);
  for (const std::string& group : options.settings.admins) {
    const auto gid = system::group_id(group);
    if (!gid)
      return Error{ErrorCode::kInvalidArgument, "E0927",
                   text("admins: there is no group {}", printable(group)), "getent group"};
    options.admin_gids.push_back(*gid);
  }
  for (const auto& [name, rules] : options.settings.users)
    // A table for one user is named by the user's name or uid, because some users have no name.
    if (!has_user(name) && !to_number(name))
      return Error{ErrorCode::kInvalidArgument, "E0927",
                   text("[user.{0}]: there is no user {0}", printable(name)), "getent passwd"};
  return options;
}

/// Sets the options that only the system broker has.
Status take_mode(const Context& context, serve::DaemonOptions& options) {
  const auto mode = context.arguments.value("--mode");
  const auto group = context.arguments.value("--enforce-on");
  if (!options.for_all)
    for (const char* option : {"--mode", "--enforce-on"})
      if (const auto given = context.arguments.value(option))
        return Error{ErrorCode::kInvalidArgument, "E0010",
                     text("{} only applies to the broker for all users", option),
                     fmt::format("sudo berth serve --system {} {}", option, printable(*given))};
  if (mode) options.settings.mode = *mode;
  const auto known = serve::mode_named(options.settings.mode);
  if (!known)
    return Error{ErrorCode::kInvalidArgument, "E0003",
                 text("--mode must be observe, warn or enforce, not '{}'", printable(*mode)), ""};
  options.enforce_on = group.value_or("");
  if (group && *known != serve::Mode::kEnforce)
    return Error{ErrorCode::kInvalidArgument, "E0010",
                 text("--enforce-on only applies to --mode enforce"), ""};
  return Done{};
}

/// The process id of the broker whose state is in this folder; nullopt if none runs.
std::optional<pid_t> broker_of(const std::string& state_folder) {
  return system::holder_of(state_folder + "/berth.sock.lock");
}

/// Asks the broker with this state folder to end. Returns its process id. Returns nullopt if the
/// broker does not answer, because it is starting or ending. Fails with E1089 if it refuses.
Result<std::optional<pid_t>> replace(const std::string& state_folder) {
  const auto broker = broker_of(state_folder);
  const auto asked = client::ask_to_hand_over(state_folder);
  if (asked) return broker;
  const Error& error = asked.error();
  if (error.id == "E0920" || client::went_away(error)) return std::optional<pid_t>();
  // A broker of an earlier release does not know this API call and returns E0911.
  if (error.id == "E0911" && broker) return serve::another_serves(state_folder, *broker);
  return error;
}

/// Locks the file that marks which process becomes the next broker of this folder. `how` is as for
/// flock(2).
Descriptor next_lock(const std::string& state_folder, int how) {
  const std::string path = state_folder + "/berth.sock.next";
  Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock && ::flock(lock.get(), how) != 0) lock.reset();
  return lock;
}

/// Whether another process holds the lock of next_lock() and so becomes the next broker. When the
/// old broker ends, waiting clients may start further brokers. These must leave the journal to the
/// process with the lock.
bool is_another_next(const std::string& state_folder) {
  const std::string path = state_folder + "/berth.sock.next";
  return ::access(path.c_str(), F_OK) == 0 && !next_lock(state_folder, LOCK_SH | LOCK_NB);
}

/// Runs the broker. If a broker that `berth run` started uses the folder, replaces that broker.
Status serve_here(const Context& context, const serve::DaemonOptions& options,
                  const std::function<void()>& ready) {
  constexpr std::chrono::seconds kMost(20);
  const auto end = std::chrono::steady_clock::now() + kMost;
  std::optional<pid_t> before;
  Descriptor next;
  bool is_said = false;
  if (options.idle_seconds > 0 && is_another_next(options.state_folder))
    return Error{ErrorCode::kUnavailable, "E0906",
                 text("another broker has the journal {}", printable(options.state_folder)),
                 "berth jobs"};
  const auto begun = [&] {
    if (before)
      context.err(text("note: this broker replaced the one that was started automatically (process "
                       "{}); the jobs of that broker continue",
                       *before) +
                  "\n");
    // Unlock explicitly. Closing the descriptor would not release the lock if the fork server
    // inherited a copy.
    if (next) ::flock(next.get(), LOCK_UN);
    next.reset();
    ready();
  };
  for (;;) {
    auto ended = serve::run_daemon(options, begun);
    const bool is_taken = !ended && ended.error().id == "E0906";
    if (!is_taken || options.for_all || options.idle_seconds > 0) return ended;
    if (!next) next = next_lock(options.state_folder, LOCK_EX);
    auto asked = replace(options.state_folder);
    if (!asked) return std::move(asked).error();
    // Keep the first process id. A later one may be a broker that a client started just before this
    // process got the lock.
    if (!before) before = *asked;
    const auto left = end - std::chrono::steady_clock::now();
    if (left.count() < 0) return ended;
    if (left < kMost - std::chrono::seconds(1) && !std::exchange(is_said, true))
      client::say_wait(text("another broker has the journal in {}; waiting for it",
                            printable(options.state_folder)));
    ::poll(nullptr, 0, 20);
  }
}

}  // namespace

Result<int> run_serve(const Context& context) {
  if (auto checked = inventory::Sources::check_environment(); !checked)
    return std::move(checked).error();
  auto options = context.arguments.has("--system") ? for_all_users(context.arguments)
                                                   : for_this_user(context.arguments);
  if (!options) return options.error();
  if (auto taken = take_mode(context, *options); !taken) return std::move(taken).error();
  options->note = [&](const std::string& sentence) {
    context.err(text("note: {}", sentence) + "\n");
  };
  options->tcp = context.arguments.value("--tcp").value_or("");
  options->version = version_number();
  options->watches = true;
  if (const auto endpoint = env_nonempty("OTEL_EXPORTER_OTLP_ENDPOINT");
      endpoint && options->settings.otlp.endpoint.empty())
    options->settings.otlp.endpoint = *endpoint;
  if (const auto list = env_nonempty("OTEL_EXPORTER_OTLP_HEADERS");
      list && options->settings.otlp.headers.empty()) {
    auto headers = serve::otlp_headers(*list);
    if (!headers)
      return Error{
          ErrorCode::kInvalidArgument, "E1087",
          text("OTEL_EXPORTER_OTLP_HEADERS has characters that HTTP headers may not contain"),
          "OTEL_EXPORTER_OTLP_HEADERS=NAME=VALUE,NAME=VALUE"};
    options->settings.otlp.headers = *std::move(headers);
  }
  if (const auto idle = context.arguments.value("--idle")) {
    auto duration = parse_duration(*idle);
    if (!duration) return std::move(duration).error().during("--idle");
    // `berth run` started this broker only for its jobs, so it does not record the state of the
    // devices.
    options->watches = false;
    options->idle_seconds =
        static_cast<int>(std::chrono::ceil<std::chrono::seconds>(*duration).count());
  }
  options->lock_folder = system::lock_folder();
  // On a simulated machine with its own folders, do not give way to the real system broker.
  options->gives_way =
      !options->for_all && !(env_nonempty("BERTH_SIM_DIR") && env_nonempty("BERTH_RUNTIME_DIR"));
  options->sources = inventory::Sources::from_environment();
  const std::string& shown = options->link.empty() ? options->socket : options->link;
  const auto ended = serve_here(context, *options, [&] {
    const std::string token = serve::token_file(options->state_folder);
    if (!context.json) {
      context.out(text("serving at {}", shown) + "\n");
      if (!options->tcp.empty())
        context.out(text("serving also at http://{}, with the token in {}", options->tcp, token) +
                    "\n");
      // Print the token only on a terminal. If the output went to a log, other users might read it
      // there.
      if (options->tcp.empty() || !context.out_terminal.tty) return;
      if (const auto word = serve::token_in(token))
        context.out(text("in a browser: http://{}/#{}", options->tcp, *word) + "\n");
      return;
    }
    output::JsonWriter json;
    json.open('{');
    json.field("schema", 1);
    json.field("socket", shown);
    json.field("state_folder", options->state_folder);
    if (!options->tcp.empty()) {
      json.field("tcp", options->tcp);
      json.field("token_file", token);
    }
    json.close('}');
    context.out(json.finish());
  });
  if (!ended) return ended.error();
  return 0;
}

}  // namespace berth::cli
