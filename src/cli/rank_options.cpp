#include "cli/rank_options.hpp"

#include <filesystem>

#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "run/node_place.hpp"
#include "run/other_launcher.hpp"

namespace berth::cli {
namespace {

constexpr int kMostRanks = 1024;
constexpr int kMostNodes = 4096;

Result<run::RankWish> parse_ranks(const Arguments& arguments, const std::string& given) {
  run::RankWish wish;
  wish.own_cores = arguments.has("--cpus");
  wish.count = 0;
  wish.or_cores = given == "auto";
  if (given != "gpu" && given != "auto") {
    const auto colon = given.find(':');
    const auto least = parse_integer(given.substr(0, colon), 1, kMostRanks);
    const auto most =
        colon == std::string::npos ? least : parse_integer(given.substr(colon + 1), 1, kMostRanks);
    if (!least || !most || *most < *least)
      return Error{
          ErrorCode::kInvalidArgument, "E0104",
          text("--ranks: '{}' is not a number from 1 to {}, a range such as 2:4, gpu or auto",
               printable(given), kMostRanks),
          "--ranks 2, --ranks 2:4, --ranks gpu, --ranks auto"};
    wish.count = static_cast<int>(*most);
    if (*least < *most) wish.least = static_cast<int>(*least);
  }
  if (const auto each = arguments.value("--gpus-per-rank")) {
    const auto number = parse_integer(*each, 1, kMostRanks);
    if (!number) return Error(number.error()).during("--gpus-per-rank");
    wish.gpus_per_rank = static_cast<int>(*number);
  }
  wish.oversubscribe = arguments.has("--oversubscribe");
  if (wish.oversubscribe && (wish.count == 0 || wish.least || wish.gpus_per_rank))
    return Error{ErrorCode::kInvalidArgument, "E0013",
                 text("{} needs {}", "--oversubscribe", "--ranks N"),
                 "berth run --ranks 4 --oversubscribe -- python train.py"};
  return wish;
}

/// Parses the wait before a retry: "1s..60s" grows from 1 s to 60 s, "5s" is constant.
Status read_backoff(const std::string& given, job::SupervisionWish& wish) {
  const auto dots = given.find("..");
  const auto least = parse_duration(given.substr(0, dots));
  if (!least) return Error(least.error()).during("--backoff");
  const auto most = dots == std::string::npos ? least : parse_duration(given.substr(dots + 2));
  if (!most) return Error(most.error()).during("--backoff");
  if (*most < *least || *most > std::chrono::hours(24))
    return Error{
        ErrorCode::kInvalidArgument, "E0104",
        text("--backoff: '{}' must be MIN..MAX, with MAX at most one day", printable(given)),
        "--backoff 1s..60s"};
  wish.backoff_least = *least;
  wish.backoff_most = *most;
  return Done{};
}

Status read_retries(const Arguments& arguments, job::SupervisionWish& wish) {
  constexpr int kMostRetries = 1000;
  const auto retries = arguments.value("--retries");
  if (!retries && arguments.has("--backoff"))
    return Error{ErrorCode::kInvalidArgument, "E0013",
                 text("{} needs {}", "--backoff", "--retries"),
                 "berth run --retries 3 --backoff 1s..60s -- python train.py"};
  if (!retries) return Done{};
  const auto number = parse_integer(*retries, 0, kMostRetries);
  if (!number) return Error(number.error()).during("--retries");
  wish.retries = static_cast<int>(*number);
  const auto backoff = arguments.value("--backoff");
  return backoff ? read_backoff(*backoff, wish) : Status(Done{});
}

/// Rejects a command that is itself a launcher (such as torchrun), because each rank would start
/// more ranks.
Status check_command(const Arguments& arguments, const run::RankWish& wish) {
  const auto launcher = run::other_launcher(arguments.command);
  if (!launcher || wish.count == 1) return Done{};
  std::string instead;
  for (const std::string& word : launcher->instead) instead += (instead.empty() ? "" : " ") + word;
  return Error{
      ErrorCode::kInvalidArgument, "E0537",
      text("--ranks: {} starts the ranks itself; with --ranks, each rank would start it again",
           launcher->name),
      instead.empty() ? "berth run --ranks 2 -- python train.py" : printable(instead)};
}

Status read_places(const Arguments& arguments, job::SupervisionWish& wish) {
  std::optional<int> nodes;
  if (const auto given = arguments.value("--nodes")) {
    const auto number = parse_integer(*given, 1, kMostNodes);
    if (!number) return Error(number.error()).during("--nodes");
    nodes = static_cast<int>(*number);
  }
  // Not for a queued job. It reads the variables when it starts.
  if (!arguments.has("--queue")) {
    auto place = run::node_place(whole_environment(), nodes, slurp("/etc/hosts").value_or(""));
    if (!place) return std::move(place).error();
    wish.node = *std::move(place);
  }
  if (wish.ranks->least && wish.node.count > 1)
    return Error{ErrorCode::kInvalidArgument, "E0950",
                 text("--ranks MIN:MAX is for one node, and this job has {}", wish.node.count),
                 "berth run --ranks gpu -- python train.py"};
  wish.ranks->node = wish.node.rank;
  wish.ranks->nodes = wish.node.count;
  const auto given = arguments.value("--stdin-rank");
  if (!given) return Done{};
  const auto rank = parse_integer(*given, 0, kMostRanks * kMostNodes - 1);
  if (!rank) return Error(rank.error()).during("--stdin-rank");
  wish.input_rank = static_cast<int>(*rank);
  return Done{};
}

Status read_hang_action(const Arguments& arguments, job::SupervisionWish& wish) {
  const std::string action = arguments.value("--hang-action").value_or("report");
  if (action == "retry")
    wish.hang_action = run::HangAction::kRetry;
  else if (action == "kill")
    wish.hang_action = run::HangAction::kKill;
  else if (action != "report")
    return Error{ErrorCode::kInvalidArgument, "E0104",
                 text("--hang-action: '{}' is not report, retry or kill", printable(action)),
                 "berth run --ranks 2 --retries 3 --hang-action retry -- python train.py"};
  if (wish.hang_action == run::HangAction::kRetry && wish.retries == 0)
    return Error{ErrorCode::kInvalidArgument, "E0013",
                 text("{} needs {}", "--hang-action retry", "--retries"),
                 "berth run --ranks 2 --retries 3 --hang-action retry -- python train.py"};
  const auto given = arguments.value("--hang-timeout");
  if (!given) return Done{};
  if (wish.hang_action == run::HangAction::kReport)
    return Error{
        ErrorCode::kInvalidArgument, "E0013",
        text("{} needs {}", "--hang-timeout", "--hang-action kill"),
        fmt::format("berth run --ranks 2 --hang-action kill --hang-timeout {} -- python train.py",
                    printable(*given))};
  const auto timeout = parse_duration(*given);
  if (!timeout) return Error(timeout.error()).during("--hang-timeout");
  wish.hang_timeout = *timeout;
  return Done{};
}

Status read_log(const Arguments& arguments, job::SupervisionWish& wish) {
  wish.log_folder = arguments.value("--log-dir").value_or("");
  const auto given = arguments.value("--log-limit");
  if (!given) return Done{};
  if (wish.log_folder.empty())
    return Error{ErrorCode::kInvalidArgument, "E0013",
                 text("{} needs {}", "--log-limit", "--log-dir"),
                 fmt::format("berth run --ranks 2 --log-dir logs --log-limit {} -- python train.py",
                             printable(*given))};
  constexpr std::uint64_t kLeast = 1U << 20U;
  auto limit = parse_size(*given);
  if (!limit) return std::move(limit).error().during("--log-limit");
  if (*limit < kLeast)
    return Error{ErrorCode::kInvalidArgument, "E1062",
                 text("--log-limit is at least 1 MiB, not {}", printable(*given)),
                 "berth run --ranks 2 --log-dir logs --log-limit 1MiB -- python train.py"};
  wish.log_limit = *limit;
  return Done{};
}

}  // namespace

Result<job::SupervisionWish> parse_supervision(const Arguments& arguments) {
  job::SupervisionWish wish;
  const auto ranks = arguments.value("--ranks");
  for (const char* option :
       {"--gpus-per-rank", "--oversubscribe", "--nodes", "--tee", "--stdin-rank", "--log-dir",
        "--log-limit", "--hang-action", "--hang-timeout", "--preflight", "--nccl-debug"})
    if (!ranks && arguments.has(option))
      return Error{ErrorCode::kInvalidArgument, "E0013", text("{} needs {}", option, "--ranks"),
                   fmt::format("berth run --ranks 2 {} {} -- python train.py", option,
                               printable(arguments.value(option).value_or("")))};
  if (auto read = read_retries(arguments, wish); !read) return std::move(read).error();
  if (!ranks) return wish;
  auto parsed = parse_ranks(arguments, *ranks);
  if (!parsed) return std::move(parsed).error();
  wish.ranks = *parsed;
  if (auto sound = check_command(arguments, *parsed); !sound) return std::move(sound).error();
  if (auto read = read_places(arguments, wish); !read) return std::move(read).error();
  if (auto read = read_hang_action(arguments, wish); !read) return std::move(read).error();
  wish.preflight = arguments.has("--preflight");
  wish.nccl_debug = arguments.has("--nccl-debug");
  if (auto read = read_log(arguments, wish); !read) return std::move(read).error();
  const auto shown = arguments.value("--tee");
  if (!shown || *shown == "all") return wish;
  for (const std::string_view word : split(*shown, ',')) {
    const auto rank = parse_integer(word, 0, kMostRanks * kMostNodes - 1);
    if (!rank) return Error(rank.error()).during("--tee");
    wish.shown.push_back(static_cast<int>(*rank));
  }
  return wish;
}

std::vector<std::string> command_in_queue(const Arguments& arguments,
                                          const model::Request& request) {
  std::error_code problem;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", problem);
  std::vector<std::string> command{problem ? "berth" : program.string(), "run"};
  // The broker starts jobs without a guard. So the queued command is a `berth run` with the guard's
  // options, which sets the guard up.
  if (request.gpus == 0)
    command.emplace_back("--cpu");
  else if (request.gpus || request.all_gpus || !request.devices.empty())
    command.insert(command.end(), {"--gpus", "all"});
  for (const char* option : {"--memory", "--share", "--cap", "--slice", "--turn", "--isolation"})
    for (const std::string& value : arguments.values(option))
      command.insert(command.end(), {option, value});
  for (const char* option : {"--latency", "--best-effort", "--spill", "--strict"})
    if (arguments.has(option)) command.emplace_back(option);
  for (const char* option :
       {"--cpus", "--ranks", "--gpus-per-rank", "--nodes", "--tee", "--stdin-rank", "--log-dir",
        "--log-limit", "--retries", "--backoff", "--hang-action", "--hang-timeout", "--report",
        "--grace", "--checkpoint-signal"})
    if (const auto value = arguments.value(option)) command.insert(command.end(), {option, *value});
  for (const char* option : {"--container", "--engine", "--mount", "--engine-option"})
    for (const std::string& value : arguments.values(option))
      command.push_back(fmt::format("{}={}", option, value));
  for (const char* option : {"--preflight", "--nccl-debug", "--oversubscribe"})
    if (arguments.has(option)) command.emplace_back(option);
  command.emplace_back("--");
  command.insert(command.end(), arguments.command.begin(), arguments.command.end());
  return command;
}

}  // namespace berth::cli
