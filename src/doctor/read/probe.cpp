#include "doctor/read/probe.hpp"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "doctor/read/collectors.hpp"
#include "doctor/read/probe_child.hpp"

extern "C" {
extern const char berth_doctor_python_probe[];
extern const char berth_doctor_python_probe_end[];
}

namespace berth::doctor {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr std::size_t kLongestMessage = 700;
constexpr auto kFrameworks = std::to_array<const char*>(
    {"torch", "tensorflow", "jax", "cupy", "pycuda", "numba", "onnxruntime"});

std::string word(const json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_string()
             ? printable(found->get_ref<const std::string&>().substr(0, kLongestMessage))
             : "";
}

/// The target's variables, and settings that keep frameworks from reserving all GPU memory and from
/// writing caches.
std::vector<std::string> variables_for(Environment variables) {
  for (const char* name : {"PYTHONINSPECT", "PYTHONSTARTUP", "PYTHONVERBOSE", "PYTHONDEBUG"})
    variables.erase(name);
  variables.insert_or_assign("TF_FORCE_GPU_ALLOW_GROWTH", "true");
  variables.insert_or_assign("XLA_PYTHON_CLIENT_PREALLOCATE", "false");
  variables.insert_or_assign("CUPY_CACHE_IN_MEMORY", "1");
  variables.emplace("CUDA_MODULE_LOADING", "LAZY");
  std::vector<std::string> rows;
  for (const auto& [name, value] : variables) rows.push_back(name + "=" + value);
  return rows;
}

struct Running {
  std::string framework;
  ProbeChild child;
  bool had_turn = false, finished = false;
  Clock::time_point turn_began{};

  [[nodiscard]] bool waits() const {
    return !had_turn && child.lines().find("\"waits\"") != std::string::npos;
  }
};

class Round {
 public:
  Round(const std::string& interpreter, const Environment& environment,
        const std::vector<std::string>& frameworks, const ProbeOptions& options)
      : options_(options), begin_(Clock::now()) {
    const std::string script(berth_doctor_python_probe, berth_doctor_python_probe_end);
    const auto variables = variables_for(environment);
    running_.reserve(frameworks.size());
    for (const std::string& one : frameworks)
      running_.push_back(
          {one, ProbeChild({interpreter, "-B", "-c", script, one}, variables), false, false, {}});
  }

  std::vector<ProbeAnswer> answers() {
    bool said = false;
    while (awaited() > 0 && Clock::now() < begin_ + options_.deadline) {
      wait();
      step();
      if (!said && options_.on_slow && Clock::now() > begin_ + std::chrono::seconds(1)) {
        said = true;
        if (awaited() > 0) options_.on_slow(names());
      }
    }
    std::vector<ProbeAnswer> all;
    for (Running& one : running_) {
      one.child.read();
      all.push_back(answer_from(one.framework, one.child.lines(), one.child.status().value_or(-1),
                                one.had_turn || !one.waits(), one.child.last_words()));
    }
    return all;
  }

 private:
  [[nodiscard]] std::ptrdiff_t awaited() const {
    return std::count_if(running_.begin(), running_.end(),
                         [](const Running& one) { return !one.finished; });
  }

  [[nodiscard]] std::string names() const {
    std::string all;
    for (const Running& one : running_)
      if (!one.finished) all += (all.empty() ? "" : ", ") + one.framework;
    return all;
  }

  void wait() {
    std::vector<pollfd> fds;
    for (const Running& one : running_)
      if (!one.finished)
        for (const int fd : {one.child.answers(), one.child.noise(), one.child.life()})
          fds.push_back({fd, POLLIN, 0});
    ::poll(fds.data(), fds.size(), 50);
  }

  void step() {
    Running* on_turn = nullptr;
    std::ptrdiff_t waiting = 0;
    for (Running& one : running_) {
      if (one.finished) continue;
      one.child.read();
      if (one.child.status() || !one.child.started()) {
        // The process has ended. Read once more, because it may have written something before its
        // end.
        one.child.read();
        finish(one);
        continue;
      }
      if (one.had_turn) on_turn = &one;
      waiting += one.waits() ? 1 : 0;
    }
    if (on_turn != nullptr && waiting > 0 && Clock::now() > on_turn->turn_began + options_.turn) {
      finish(*on_turn);
      on_turn = nullptr;
    }
    if (on_turn != nullptr) return;
    for (Running& one : running_) {
      if (one.finished || !one.waits()) continue;
      one.had_turn = true;
      one.turn_began = Clock::now();
      one.child.say_go();
      return;
    }
  }

  static void finish(Running& one) {
    one.finished = true;
    one.child.end();
  }

  const ProbeOptions& options_;
  Clock::time_point begin_;
  std::vector<Running> running_;
};

/// The last line that is not empty. For a program that failed, it is usually the error message.
std::string last_line(std::string_view noise) {
  std::string last;
  for (const std::string_view line : split(noise, '\n'))
    if (!trim(line).empty()) last = printable(trim(line).substr(0, 300));
  return last;
}

void read_row(const json& row, ProbeAnswer& answer, bool& done) {
  using enum ProbeState;
  if (row.contains("version")) answer.version = word(row, "version");
  if (row.contains("device")) {
    ProbedDevice device;
    if (row["device"].is_number_unsigned() && row["device"] < 1000)
      device.index = row["device"].get<int>();
    device.name = word(row, "name");
    device.ran = row.contains("ran") && row["ran"] == true;
    device.message = word(row, "message");
    if (answer.devices.size() < 16) answer.devices.push_back(std::move(device));
  }
  const auto end = [&](const char* key, ProbeState state) {
    if (!row.contains(key)) return;
    done = true;
    answer.state = state;
    answer.message = word(row, key);
  };
  end("done", kRan);
  end("failed", kFailed);
  end("not_imported", kNotImported);
  if (row.contains("cpu_build")) answer.state = kCpuBuild;
}

/// Sets the state of an interpreter that gave no final answer. `status` is that of wait(), or
/// negative if it was killed at the deadline or did not start.
void tell_end(ProbeAnswer& answer, int status, bool had_turn, std::string_view noise) {
  using enum ProbeState;
  answer.state = status >= 0 ? kCrashed : had_turn ? kNoAnswer : kNotReached;
  if (status < 0) return;
  if (WIFSIGNALED(status)) {
    const char* name = ::sigdescr_np(WTERMSIG(status));
    answer.message =
        text("ended by signal {} ({})", WTERMSIG(status), name == nullptr ? "?" : name);
  } else {
    answer.message = text("ended with exit code {} and no answer", WEXITSTATUS(status));
  }
  if (const std::string last = last_line(noise); !last.empty()) answer.message += "; " + last;
}

}  // namespace

std::string_view name(ProbeState state) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"ran", "failed", "no_device", "cpu_build", "not_imported",
                                       "crashed", "no_answer", "not_reached"});
  return kNames[static_cast<std::size_t>(state)];
}

ProbeAnswer answer_from(const std::string& framework, std::string_view lines, int status,
                        bool had_turn, std::string_view noise) {
  using enum ProbeState;
  ProbeAnswer answer;
  answer.framework = framework;
  bool done = false;
  for (const std::string_view line : split(lines, '\n')) {
    const auto shallow = [](int depth, json::parse_event_t, json&) { return depth <= 3; };
    const json row = json::parse(line, shallow, false);
    if (row.is_object() && !done) {
      const ProbeState before = answer.state;
      read_row(row, answer, done);
      if (before == kCpuBuild && answer.state == kRan) answer.state = kCpuBuild;
    }
  }
  const auto bad = std::find_if(answer.devices.begin(), answer.devices.end(),
                                [](const ProbedDevice& one) { return !one.ran; });
  if (!done) {
    tell_end(answer, status, had_turn, noise);
  } else if (bad != answer.devices.end()) {
    answer.state = kFailed;
    answer.message = bad->message;
  } else if (answer.state == kRan && answer.devices.empty()) {
    answer.state = kNoDevice;
    answer.message = last_line(noise);
  }
  return answer;
}

std::vector<std::string> frameworks_of(const Tree& tree, const PythonFacts& python) {
  std::vector<std::string> found;
  for (const char* framework : kFrameworks)
    for (const PathEntry& entry : python.path.value_or({}))
      if (tree.exists(entry.folder + "/" + framework + "/__init__.py") ||
          tree.exists(entry.folder + "/" + framework + ".py")) {
        found.emplace_back(framework);
        break;
      }
  return found;
}

ProbeFacts probe_target(const Sources& sources, const ProbeOptions& options) {
  const Environment environment = sources.process.environment.value_or({});
  const std::string interpreter = python_of_program(sources.tree, environment, sources.python);
  // Only probe a Python among this machine's own files. In a container, the same path names another
  // file.
  if (!sources.tree.is_this_machine())
    return Unreadable{
        std::string(tr("no trial kernel was run: the target is in another container")), 0};
  // With another user's variables, this user would run code that the other user chose, through
  // PYTHONPATH for example. That would be a security hole.
  if (const auto& who = sources.process.identity; who && who->uid != ::geteuid())
    return Unreadable{std::string(tr("no trial kernel was run: the process belongs to another "
                                     "user, who must run berth doctor --deep")),
                      0};
  if (sources.process.environment.is_unreadable()) return sources.process.environment.why();
  if (interpreter.empty()) return std::vector<ProbeAnswer>{};
  const PythonFacts python = collect_python(sources.tree, environment, interpreter);
  if (::access(python.interpreter->c_str(), X_OK) != 0)
    return Unreadable{*python.interpreter, errno};
  std::vector<std::string> asked = frameworks_of(sources.tree, python);
  std::vector<ProbeAnswer> answers;
  const Fact<TorchBuild>& torch = python.torch;
  if (torch && torch->cuda.is_absent() && torch->hip.is_absent() && torch->xpu.is_absent()) {
    std::erase(asked, "torch");
    ProbeAnswer& answer = answers.emplace_back();
    answer.framework = "torch";
    answer.version = torch->version;
    answer.state = ProbeState::kCpuBuild;
  }
  for (ProbeAnswer& one : Round(*python.interpreter, environment, asked, options).answers())
    answers.push_back(std::move(one));
  return answers;
}

}  // namespace berth::doctor
