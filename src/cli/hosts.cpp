#include "cli/hosts.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "base/error_words.hpp"
#include "base/json.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "cli/end_signals.hpp"
#include "cli/host_streams.hpp"
#include "system/child_run.hpp"

namespace berth::cli {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostHosts = 64, kMostBytes = 16 << 20;

struct Host {
  std::string name;
  system::ChildResult result;
  bool has_answered = false;  // berth ran on the machine, even if its exit code is not 0
  std::string problem;        // why berth did not run on the machine
};

bool is_name(std::string_view name) {
  return !name.empty() && name.front() != '-' && std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == 127;
  });
}

/// The command for the other machine: the same options without --host.
std::string command_of(const Context& context, const std::string& verb) {
  const Verb& called = *find_verb(verb);
  std::string command = "berth " + verb;
  for (const auto& [name, values] : context.arguments.options) {
    if (name == "--host" || name == "--json" || name == "--color") continue;
    const Option* const option = find_option(called, name);
    const bool is_switch = option == nullptr || option->value == nullptr;
    for (const std::string& value : values)
      command += " " + name + (is_switch ? "" : "=" + shell_word(value));
  }
  return command + (context.json ? " --json" : "");
}

void ask(Host& host, const std::string& command, const std::atomic<bool>& is_stopped) {
  const system::ChildRun run{.program = "ssh",
                             .words = ssh_words(host.name, command),
                             .longest = std::chrono::seconds(30),
                             .most_bytes = kMostBytes};
  host.result = system::run_child(run, is_stopped);
  const system::ChildResult& result = host.result;
  constexpr int kSshFailed = 255, kNotFound = 127;
  const int code = WIFEXITED(result.status) ? WEXITSTATUS(result.status) : kSshFailed;
  if (result.problem != 0)
    host.problem = "ssh: " + error_words(result.problem);
  else if (!result.is_over)
    host.problem = text("no answer within {} seconds", run.longest.count());
  else if (code == kNotFound || code == kSshFailed || result.output.empty())
    host.problem = why_no_answer(result.status, result.errors);
  host.has_answered = host.problem.empty();
}

/// Runs the command on all machines at the same time.
void ask_all(std::vector<Host>& hosts, const std::string& command) {
  EndSignals signals;
  std::atomic<bool> is_stopped = false;
  std::atomic<std::size_t> left = hosts.size();
  std::vector<std::thread> threads;
  threads.reserve(hosts.size());
  for (Host& host : hosts)
    threads.emplace_back([&] {
      ask(host, command, is_stopped);
      --left;
    });
  while (left > 0 && !is_stopped)
    if (signals.has_come(std::chrono::milliseconds(20))) is_stopped = true;
  for (std::thread& thread : threads) thread.join();
}

std::string json_of(const std::vector<Host>& hosts) {
  Json all = {{"schema", 1}, {"hosts", Json::array()}};
  for (const Host& host : hosts) {
    Json document = host.has_answered && is_shallow(host.result.output)
                        ? Json::parse(host.result.output, nullptr, false)
                        : Json();
    if (document.is_discarded()) document = nullptr;
    const bool is_read = document.is_object();
    std::string problem = host.problem;
    if (host.has_answered && !is_read) problem = text("its answer is not JSON");
    all["hosts"].push_back({{"host", printable(host.name)},
                            {"answered", is_read},
                            {"problem", problem.empty() ? Json() : Json(problem)},
                            {"document", is_read ? document : Json()}});
  }
  return all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Result<std::vector<std::string>> host_names(const Arguments& arguments) {
  std::vector<std::string> hosts;
  for (const std::string& list : arguments.values("--host"))
    for (const std::string_view name : split(list, ',')) {
      if (!is_name(name))
        return Error{ErrorCode::kInvalidArgument, "E0965",
                     text("--host: '{}' is not the name of a machine", printable(name)),
                     "berth ls --host lab1,lab2"};
      hosts.emplace_back(name);
    }
  if (hosts.size() > kMostHosts)
    return Error{ErrorCode::kInvalidArgument, "E0965",
                 text("--host: more than {} machines", kMostHosts), ""};
  return hosts;
}

bool is_shallow(std::string_view json) {
  constexpr int kMostDepth = 64;
  int depth = 0;
  bool is_in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (is_in_text && c == '\\') ++i;
    if (c == '"') is_in_text = !is_in_text;
    if (is_in_text) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMostDepth) return false;
  }
  return true;
}

Result<int> on_hosts(const Context& context, const std::string& verb) {
  const auto names = host_names(context.arguments);
  if (!names) return names.error();
  std::vector<Host> hosts;
  for (const std::string& name : *names) hosts.emplace_back().name = name;
  const std::string command = command_of(context, verb);
  ask_all(hosts, command);
  const bool have_all =
      std::all_of(hosts.begin(), hosts.end(), [](const Host& one) { return one.has_answered; });
  if (context.json) {
    context.out(json_of(hosts));
    return have_all ? 0 : 1;
  }
  for (const Host& host : hosts) {
    const std::string name = context.out_terminal.paint(output::Style::kBold, printable(host.name));
    if (!host.has_answered) {
      context.out(name + "  " + context.out_terminal.paint(output::Style::kYellow, host.problem) +
                  "\n");
      continue;
    }
    context.out(name + "\n");
    for (const std::string_view line : split(std::string_view(host.result.output), '\n'))
      if (!line.empty()) context.out("  " + printable(line) + "\n");
  }
  return have_all ? 0 : 1;
}

}  // namespace berth::cli
