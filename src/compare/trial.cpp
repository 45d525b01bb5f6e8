#include "compare/trial.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/descriptor.hpp"
#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

// The start and the end of the embedded Python file. berth_embed() in CMake defines these symbols.
extern "C" {
extern const char berth_compare_after_torch[];
extern const char berth_compare_after_torch_end[];
}

namespace berth::compare {
namespace {

using Json = nlohmann::json;
using model::RunFigures;
using model::RunSetting;

constexpr std::size_t kMostReport = 16U << 20;

Error not_started(int number) {
  return {ErrorCode::kUnavailable, "E0540",
          text("a run of the comparison cannot be started: {}", error_words(number)),
          "ulimit -u; ulimit -n"};
}

Error no_report() {
  return {ErrorCode::kUnavailable, "E0541", text("a run of the comparison wrote no report"),
          "berth run --report - -- COMMAND"};
}

sigset_t ending_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, number);
  return set;
}

template <typename T>
std::optional<T> known(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  return json_value<T>(*found);
}

/// The sum of a value over all devices; nullopt if it is unknown for one of them.
std::optional<double> sum_of(const Json& devices, const char* key) {
  if (devices.empty()) return std::nullopt;
  double sum = 0;
  for (const Json& device : devices) {
    const auto value = known<double>(device, key);
    if (!value) return std::nullopt;
    sum += *value;
  }
  return sum;
}

RunFigures figures_in(const Json& report) {
  RunFigures figures;
  figures.wall_seconds = report.at("wall_seconds").get<double>();
  figures.cpu_seconds = known<double>(report, "cpu_seconds");
  figures.memory_bytes = known<double>(report, "peak_rss_bytes");
  figures.threads = known<int>(report, "threads");
  figures.gpu_use = known<std::string>(report, "gpu_use").value_or("");
  const Json& devices = report.at("devices");
  figures.device_memory_bytes = sum_of(devices, "memory_peak_bytes");
  figures.energy_millijoules = sum_of(devices, "energy_millijoules");
  for (const Json& device : devices)
    figures.devices.push_back(known<std::string>(device, "name").value_or(""));
  return figures;
}

Error error_in(const Json& error) {
  const auto code = error_code(known<std::string>(error, "code").value_or(""));
  return {code.value_or(ErrorCode::kUnavailable), known<std::string>(error, "id").value_or(""),
          known<std::string>(error, "message").value_or(""),
          known<std::string>(error, "hint").value_or("")};
}

/// An empty file in memory. `berth run` can open it by its path while this process is alive.
struct MemoryFile {
  Descriptor file{::memfd_create("berth-report", MFD_CLOEXEC)};

  [[nodiscard]] std::string path() const {
    return fmt::format("/proc/{}/fd/{}", ::getpid(), file.get());
  }
  [[nodiscard]] std::string content() const {
    std::string all;
    std::array<char, 65536> part{};
    while (all.size() < kMostReport) {
      const ssize_t n =
          ::pread(file.get(), part.data(), part.size(), static_cast<off_t>(all.size()));
      if (n <= 0) break;
      all.append(part.data(), static_cast<std::size_t>(n));
    }
    return all;
  }
};

struct Pipe {
  Descriptor read, write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return not_started(errno);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

/// One process of `berth run`, with its standard output and standard error.
class Run {
 public:
  Run(std::vector<std::string> options, const RunSetting& setting,
      const std::vector<std::string>& command, const StatementFolder* folder = nullptr)
      : words_{"berth", "run", "--lang", language() == Language::kChinese ? "zh" : "en"} {
    for (auto& list : {run_options(setting), std::move(options)})
      words_.insert(words_.end(), list.begin(), list.end());
    words_.emplace_back("--");
    words_.insert(words_.end(), command.begin(), command.end());
    auto variables = whole_environment();
    for (const auto& [name, value] : setting.variables) variables[name] = value;
    if (folder != nullptr && !setting.statement.empty()) {
      std::string& python = variables["PYTHONPATH"];
      python = folder->path() + (python.empty() ? "" : ":" + python);
      variables["BERTH_AFTER_TORCH"] = setting.statement;
    }
    for (const auto& [name, value] : variables) environment_.push_back(name + "=" + value);
  }

  Status start() {
    auto out = make_pipe(), err = make_pipe();
    if (!out) return std::move(out).error();
    if (!err) return std::move(err).error();
    const auto words = pointers_to(words_), environment = pointers_to(environment_);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) return not_started(errno);
    if (pid_ == 0) become(words, environment, parent, out->write.get(), err->write.get());
    out_ = std::move(out->read);
    err_ = std::move(err->read);
    return Done{};
  }

  /// Waits until the process has ended. Returns its wait status.
  int finish(Trial& trial, const HeldSignals& signals) {
    const Descriptor ended(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    bool over = false;
    while (!over) {
      std::array<pollfd, 4> waits{{{out_.get(), POLLIN, 0},
                                   {err_.get(), POLLIN, 0},
                                   {signals.descriptor(), POLLIN, 0},
                                   {ended.get(), POLLIN, 0}}};
      if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) break;
      if (waits[2].revents != 0) pass_on(signals);
      take(trial);
      // Before Linux 5.3 there is no pidfd. There, the run counts as ended when both of its output
      // streams are closed.
      over = ended ? waits[3].revents != 0 : !out_ && !err_;
    }
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    take(trial);
    return status;
  }

  /// The signal that told this process to end; 0 if there was none.
  [[nodiscard]] int told_to_end() const { return told_to_end_; }

 private:
  [[noreturn]] static void become(const std::vector<char*>& words,
                                  const std::vector<char*>& environment, pid_t parent, int out,
                                  int err) {
    // If this process is killed, the kernel also kills `berth run`, whose job then ends.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kOwnFailure);
    const int empty = ::open("/dev/null", O_RDONLY);
    if (empty < 0 || ::dup2(empty, 0) < 0 || ::dup2(out, 1) < 0 || ::dup2(err, 2) < 0)
      ::_exit(kOwnFailure);
    if (empty > 2) ::close(empty);
    const sigset_t ours = ending_signals();
    ::sigprocmask(SIG_UNBLOCK, &ours, nullptr);
    ::execve("/proc/self/exe", words.data(), environment.data());
    ::_exit(kOwnFailure);
  }

  /// Reads a signal and passes it on to the run. A signal from the terminal is not passed on,
  /// because the run has received it from the terminal, too.
  void pass_on(const HeldSignals& signals) {
    signalfd_siginfo info{};
    if (::read(signals.descriptor(), &info, sizeof info) != static_cast<ssize_t>(sizeof info))
      return;
    told_to_end_ = static_cast<int>(info.ssi_signo);
    if (info.ssi_code != SI_KERNEL) ::kill(pid_, told_to_end_);
  }

  /// Reads the output that has arrived, and closes streams that have ended.
  void take(Trial& trial) {
    std::array<char, 65536> part{};
    const auto read_all = [&part](Descriptor& from, const auto& keep) {
      while (from) {
        const ssize_t n = ::read(from.get(), part.data(), part.size());
        if (n > 0)
          keep(std::string_view(part.data(), static_cast<std::size_t>(n)));
        else if (n == 0)
          from.reset();
        else if (errno != EINTR)
          return;
      }
    };
    read_all(out_, [&trial](std::string_view bytes) {
      trial.output_bytes += bytes.size();
      trial.output += bytes.substr(0, kMostOutput - trial.output.size());
    });
    read_all(err_, [&trial](std::string_view bytes) {
      trial.last_words += bytes;
      if (trial.last_words.size() > kMostLastWords)
        trial.last_words.erase(0, trial.last_words.size() - kMostLastWords);
    });
  }

  static constexpr int kOwnFailure = 125;
  std::vector<std::string> words_, environment_;
  pid_t pid_ = -1;
  Descriptor out_, err_;
  int told_to_end_ = 0;
};

/// Starts the run and waits for its end. If a signal told this process to end, it dies of that
/// signal instead of returning.
Result<int> run_to_end(Run& run, Trial& trial, const HeldSignals& signals) {
  if (auto started = run.start(); !started) return std::move(started).error();
  const int status = run.finish(trial, signals);
  int deadly = run.told_to_end();
  if (deadly == 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) deadly = SIGINT;
  if (deadly != 0) {
    ::signal(deadly, SIG_DFL);
    ::raise(deadly);
    const sigset_t ours = ending_signals();
    ::sigprocmask(SIG_UNBLOCK, &ours, nullptr);
  }
  constexpr int kSignalled = 128;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
}

}  // namespace

HeldSignals::HeldSignals() {
  const sigset_t ours = ending_signals();
  ::sigprocmask(SIG_BLOCK, &ours, nullptr);
  descriptor_ = ::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
}

HeldSignals::~HeldSignals() {
  if (descriptor_ >= 0) ::close(descriptor_);
  const sigset_t ours = ending_signals();
  ::sigprocmask(SIG_UNBLOCK, &ours, nullptr);
}

Result<StatementFolder> StatementFolder::make() {
  std::error_code problem;
  std::string pattern = std::filesystem::temp_directory_path(problem).string();
  pattern = (problem ? "/tmp" : pattern) + "/berth-compare-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) return not_started(errno);
  StatementFolder folder;
  folder.path_ = pattern;
  const std::string_view module(berth_compare_after_torch, berth_compare_after_torch_end);
  if (auto added = folder.add("sitecustomize.py", module); !added) return std::move(added).error();
  return folder;
}

Status StatementFolder::add(const std::string& name, std::string_view text) const {
  std::ofstream file(path_ + "/" + name, std::ios::binary);
  file << text;
  if (!file.flush()) return not_started(EIO);
  return Done{};
}

StatementFolder::~StatementFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

bool StatementFolder::take_applied() const {
  return ::unlink((path_ + "/applied").c_str()) == 0;
}

ResultFile::ResultFile(std::string path) : path_(std::move(path)), before_(stamp()) {}

ResultFile::Stamp ResultFile::stamp() const {
  struct stat status = {};
  if (::stat(path_.c_str(), &status) != 0) return {};
  return {status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

Result<std::optional<std::string>> ResultFile::read_if_written() const {
  const Stamp now = stamp();
  if (now == before_ || now.size < 0) return std::optional<std::string>();
  if (now.size > static_cast<std::int64_t>(kMostOutput)) return too_large();
  auto content = read_file(path_, kMostOutput);
  if (!content) return std::move(content).error();
  return std::optional(*std::move(content));
}

Error too_large() {
  return {ErrorCode::kInvalidArgument, "E0544",
          text("an output of more than {} cannot be compared", show_bytes(kMostOutput)),
          text("let the program print only its results, or use --output-lines TEXT")};
}

Result<Trial> read_report(std::string_view json) try {
  const Json report = Json::parse(json);
  Trial trial;
  if (const auto error = report.find("error"); error != report.end()) {
    trial.refusal = error_in(*error);
    return trial;
  }
  trial.exit_code = json_value<int>(report.at("outcome").at("exit_code"));
  const auto kind = json_value<std::string>(report.at("outcome").at("class"));
  if (kind != "not_found" && kind != "not_executable") trial.figures = figures_in(report);
  return trial;
} catch (const Json::exception&) {
  return no_report();
}

Result<Trial> run_once(const RunSetting& setting, const std::vector<std::string>& command,
                       const StatementFolder* folder, const HeldSignals& signals,
                       std::vector<std::string> options) {
  const MemoryFile file;
  if (!file.file) return not_started(errno);
  Trial streams;
  options.insert(options.end(), {"--report", file.path()});
  Run run(std::move(options), setting, command, folder);
  const auto code = run_to_end(run, streams, signals);
  if (!code) return code.error();
  auto trial = read_report(file.content());
  if (!trial) return trial;
  trial->exit_code = *code;
  trial->output = std::move(streams.output);
  trial->output_bytes = streams.output_bytes;
  trial->last_words = std::move(streams.last_words);
  return trial;
}

Result<int> threads_if_possible(const RunSetting& setting, const std::vector<std::string>& command,
                                const HeldSignals& signals) {
  Trial streams;
  Run run({"--dry-run", "--json"}, setting, command);
  const auto code = run_to_end(run, streams, signals);
  if (!code) return code.error();
  try {
    if (*code != 0) return error_in(Json::parse(streams.last_words).at("error"));
    return json_value<int>(Json::parse(streams.output).at("threads"));
  } catch (const Json::exception&) {
    return no_report();
  }
}

}  // namespace berth::compare
