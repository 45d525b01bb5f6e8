#include "cli/request_options.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "base/units.hpp"
#include "model/cpu_list.hpp"
#include "policy/visible.hpp"

namespace berth::cli {
namespace {

constexpr int kMostGpus =
    1024;  // far more than any machine has, but small enough that no calculation overflows
constexpr int kMostCpus = 8192;  // the limit of CPU numbers in model/cpu_list.hpp

/// Adds the option's name to an error: "'many' is not … (E0104)" → "--gpus: 'many' is not …".
Error about(const char* option, Error error) {
  return std::move(error).during(option);
}

Result<std::optional<int>> parse_gpus(const Arguments& arguments) {
  const auto given = arguments.value("--gpus");
  if (!given) return std::optional<int>();
  if (*given == "none") return std::optional<int>(0);
  if (*given == "all") return std::optional<int>();
  const auto number = parse_integer(*given, 0, kMostGpus);
  if (!number)
    return Error{
        ErrorCode::kInvalidArgument, "E0104",
        text("--gpus: '{}' is neither a number from 0 to {} nor all or none", *given, kMostGpus),
        "--gpus 2, --gpus all, --gpus none"};
  return std::optional<int>(static_cast<int>(*number));
}

/// Parses a number of cores ("4"), which may be any cores, or a list of certain cores ("0-3",
/// "0,2").
Status read_cpus(const std::string& given, model::Request& request) {
  if (given.find_first_of(",-") != std::string::npos && given.front() != '-') {
    const auto list = model::parse_cpu_list(given);
    if (list && !list->empty()) {
      request.cpus = static_cast<int>(list->size());
      request.cpu_list = model::show_cpu_list(*list);
      return Done{};
    }
  }
  const auto number = parse_integer(given, 1, kMostCpus);
  if (!number)
    return Error{
        ErrorCode::kInvalidArgument, "E0104",
        text("--cpus: '{}' is neither a number from 1 to {} nor a list of cores", given, kMostCpus),
        "--cpus 4, --cpus 0-3, --cpus 0,2"};
  request.cpus = static_cast<int>(*number);
  return Done{};
}

/// Fails if --cpu or "--gpus none" is combined with an option that needs a GPU, such as --memory.
Status check_cpu(const Arguments& arguments, model::Request& request) {
  if (arguments.has("--cpu")) {
    if (request.gpus.value_or(0) > 0 || request.all_gpus) return contradiction("--cpu", "--gpus");
    request.gpus = 0;
  }
  if (request.gpus != 0) return Done{};
  const char* cpu = arguments.has("--cpu") ? "--cpu" : "--gpus none";
  if (!request.devices.empty()) return contradiction(cpu, "--devices");
  if (request.memory_bytes) return contradiction(cpu, "--memory");
  if (request.share_permille) return contradiction(cpu, "--share");
  return Done{};
}

Result<int> read_share(const Arguments& arguments, const char* option) {
  const auto share = parse_share(*arguments.value(option));
  if (!share) return about(option, share.error());
  return std::max(1, static_cast<int>(std::lround(*share * model::kWholePermille)));
}

Error unclear_turns(std::string message, const char* hint) {
  return {ErrorCode::kInvalidArgument, "E0963", std::move(message), hint};
}

Status read_turn_length(const Arguments& arguments, model::TurnRules& turns) {
  using namespace std::chrono_literals;
  if (arguments.has("--slice") && arguments.has("--turn"))
    return contradiction("--slice", "--turn");
  const char* option = arguments.has("--turn") ? "--turn" : "--slice";
  const auto given = arguments.value(option);
  if (!given) return Done{};
  const auto length = parse_duration(*given);
  if (!length) return about(option, length.error());
  if (*length < 1ms || *length > 24h)
    return unclear_turns(text("{}: a turn must be between {} and {}", option, "1ms", "24h"),
                         "--slice 100ms");
  turns.slice_milliseconds = static_cast<int>(length->count());
  if (arguments.has("--turn")) turns.keeps_turn = true;
  return Done{};
}

/// Reads --latency, --best-effort, --slice, --turn and --cap. The share must have been read before.
Status read_turns(const Arguments& arguments, model::Request& request) {
  model::TurnRules& turns = request.turns;
  if (arguments.has("--latency") && arguments.has("--best-effort"))
    return contradiction("--latency", "--best-effort");
  if (arguments.has("--latency")) turns.latency = true;
  if (arguments.has("--best-effort")) turns.best_effort = true;
  if (auto length = read_turn_length(arguments, turns); !length) return length;
  if (arguments.value("--cap")) {
    const auto cap = read_share(arguments, "--cap");
    if (!cap) return cap.error();
    if (request.share_permille.value_or(0) > *cap)
      return unclear_turns(text("{} is more than {}", "--share", "--cap"), "--share 30% --cap 50%");
    turns.cap_permille = *cap;
    // If only --cap is given, the job's share equals the cap.
    if (!request.share_permille && !turns.best_effort) request.share_permille = *cap;
  }
  if (turns.any() && !request.memory_bytes)
    return Error{ErrorCode::kInvalidArgument, "E0013",
                 text("only jobs on a shared GPU take turns: add {}", "--memory"), "--memory 8GiB"};
  return Done{};
}

Status read_numbers(const Arguments& arguments, model::Request& request) {
  const auto gpus = parse_gpus(arguments);
  if (!gpus) return gpus.error();
  request.gpus = *gpus;
  if (arguments.value("--gpus") == "all") request.all_gpus = true;
  if (const auto given = arguments.value("--memory")) {
    const auto size = parse_size(*given);
    if (!size) return about("--memory", size.error());
    if (*size == 0)
      return Error{ErrorCode::kInvalidArgument, "E0011", text("--memory: 0 bytes were requested"),
                   text("to run on the CPU: {}", "--cpu")};
    request.memory_bytes = *size;
  }
  if (arguments.value("--share")) {
    const auto share = read_share(arguments, "--share");
    if (!share) return share.error();
    request.share_permille = *share;
  }
  if (const auto given = arguments.value("--cpus")) {
    if (auto cpus = read_cpus(*given, request); !cpus) return cpus;
  }
  return Done{};
}

}  // namespace

Result<model::Request> parse_request(const Arguments& arguments,
                                     const std::map<std::string, std::string>& environment) {
  model::Request request;
  const auto numbers = read_numbers(arguments, request);
  if (!numbers) return numbers.error();
  request.devices = arguments.values("--devices");
  const auto sound = check_cpu(arguments, request);
  if (!sound) return sound.error();
  if (auto turns = read_turns(arguments, request); !turns) return turns.error();
  policy::inherit_visibility(request, environment);
  return request;
}

policy::EnvironmentOptions environment_options(const Arguments& arguments) {
  return {arguments.has("--override"), arguments.has("--quiet")};
}

}  // namespace berth::cli
