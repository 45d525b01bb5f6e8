#include "cli/setup_environment.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "cli/install_failure.hpp"
#include "system/spawn.hpp"

namespace berth::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP};
std::atomic<int> ended_by = 0;
std::atomic<pid_t> running = 0;

extern "C" void pass_on(int signal) {
  ended_by = signal;
  if (const pid_t child = running; child > 0) ::kill(child, SIGTERM);
}

/// During its lifetime, records signals that would end this process, and passes them on to the
/// child.
class NotedSignals {
 public:
  NotedSignals() {
    ended_by = 0;
    struct sigaction note = {};
    note.sa_handler = pass_on;
    for (std::size_t i = 0; i < kEnding.size(); ++i) {
      ::sigaction(kEnding[i], nullptr, &before_[i]);
      // Leave ignored signals ignored (nohup ignores SIGHUP).
      if (before_[i].sa_handler != SIG_IGN) ::sigaction(kEnding[i], &note, nullptr);
    }
  }
  ~NotedSignals() {
    for (std::size_t i = 0; i < kEnding.size(); ++i) ::sigaction(kEnding[i], &before_[i], nullptr);
    if (const int signal = ended_by; signal != 0) ::raise(signal);
  }
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;

 private:
  std::array<struct sigaction, kEnding.size()> before_{};
};

/// A folder in which an environment is created. The complete environment is moved out by renaming.
/// The destructor removes the folder.
struct UnfinishedFolder {
  std::string path;
  ~UnfinishedFolder() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

Error no_place(const std::string& folder, int problem) {
  return {ErrorCode::kPermissionDenied, "E0842",
          text("cannot create {}: {}", printable(folder), error_words(problem)),
          "berth setup … --venv DIR"};
}

/// In the environment's scripts, replaces the temporary path with the final path.
Status name_new_place(const std::string& unfinished, const std::string& folder) {
  constexpr std::uintmax_t kLargest = 1 << 20;
  std::vector<std::string> files{unfinished + "/pyvenv.cfg"};
  for (const std::string& name : list_folder(unfinished + "/bin"))
    files.push_back(unfinished + "/bin/" + name);
  for (const std::string& path : files) {
    struct stat about {};
    if (::lstat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode) ||
        static_cast<std::uintmax_t>(about.st_size) > kLargest)
      continue;
    auto bytes = read_file(path, kLargest);
    if (!bytes) return bytes.error();
    const bool is_text = bytes->find('\0') == std::string::npos;
    bool changed = false;
    for (std::size_t at = 0; is_text && (at = bytes->find(unfinished, at)) != std::string::npos;
         at += folder.size()) {
      bytes->replace(at, unfinished.size(), folder);
      changed = true;
    }
    if (!changed) continue;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << *bytes;
    file.close();
    if (!file) return no_place(folder, EIO);
  }
  return Done{};
}

/// Reports a full disk; empty if no disk is full. venv does not say why its pip failed, so this
/// checks the free space for `folder` and for TMPDIR.
InstallFailure full_disk(const std::string& folder) {
  constexpr std::uintmax_t kFew = 64 << 20;       // less than an empty environment takes
  const char* temporary = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  for (const std::string& one : {folder, std::string(temporary == nullptr ? "/tmp" : temporary)}) {
    std::error_code problem;
    const fs::space_info space = fs::space(one, problem);
    if (!problem && space.available < kFew)
      return {text("a disk is full: {} MiB are free in {}", space.available >> 20, printable(one)),
              "df -h " + shell_word(one)};
  }
  return {};
}

Error step_failed(const std::vector<std::string>& words, int code, const SetupEnvironment& wanted,
                  std::string_view last_words) {
  const std::string parent = fs::path(wanted.folder).parent_path().string();
  InstallFailure failure = install_failure(last_words, parent);
  if (failure.says.empty()) failure = full_disk(parent);
  std::string program = words[0].substr(words[0].rfind('/') + 1);
  if (words.size() > 2 && words[1] == "-m") program += " -m " + words[2];
  const bool is_venv = words.size() > 2 && words[2] == "venv";
  std::string says =
      failure.says.empty()
          ? text("{} failed with exit code {}; the lines above say why", program, code)
          : text("{} failed: {}", program, failure.says);
  says += "\n  " + (wanted.is_upgrade ? text("{} is unchanged", printable(wanted.folder))
                                      : text("{} was not created", printable(wanted.folder)));
  if (failure.hint.empty())
    failure.hint = is_venv ? "sudo apt install python3-venv   " + text("(on Debian and Ubuntu)")
                           : text("check the network, or name your mirror: {}", "--index URL");
  return {ErrorCode::kUnavailable, "E0845", std::move(says), std::move(failure.hint)};
}

constexpr std::size_t kLastWords = 64 * 1024;
constexpr std::size_t kMostOutput = 8 << 20;

/// Reads a pipe until the child has ended. Calls `more` with each part that was read.
void read_until_end(int pipe, pid_t child, std::optional<int>& status,
                    const std::function<void(std::string_view)>& more) {
  std::array<char, 4096> buffer{};
  for (;;) {
    pollfd wait{pipe, POLLIN, 0};
    if (::poll(&wait, 1, 200) > 0) {
      const ssize_t count = ::read(pipe, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;
      more({buffer.data(), static_cast<std::size_t>(count)});
      continue;
    }
    // A process that the child started may keep the pipe open, so do not wait for the end of the
    // pipe.
    if (status) return;
    int ended = 0;
    if (::waitpid(child, &ended, WNOHANG) == child) status = ended;
  }
}

/// Runs a program and returns its exit code. If `last_words` is given, it receives the end of
/// stderr, which is also copied to our stderr. If only `output` is given, it receives stdout.
int run(const std::vector<std::string>& words, std::string* last_words, std::string* output) {
  const bool is_captured = last_words != nullptr || output != nullptr;
  std::array<int, 2> pipe{-1, -1};
  if (is_captured && ::pipe2(pipe.data(), O_CLOEXEC) != 0) return 127;
  std::vector<std::string> all = words;
  // /usr/bin/env finds the program in PATH.
  if (words[0].find('/') == std::string::npos) all.insert(all.begin(), "/usr/bin/env");
  const auto child = system::spawn({.program = all[0],
                                    .words = all,
                                    .out = output == nullptr ? 2 : pipe[1],
                                    .err = last_words == nullptr ? 2 : pipe[1]});
  if (is_captured) ::close(pipe[1]);
  std::optional<int> status;
  if (child.pid >= 0) {
    running = child.pid;
    if (ended_by != 0) ::kill(child.pid, SIGTERM);
    if (is_captured)
      read_until_end(pipe[0], child.pid, status, [&](std::string_view more) {
        if (output != nullptr) {
          if (output->size() < kMostOutput) output->append(more);
          return;
        }
        if (::write(2, more.data(), more.size()) < 0) return;
        last_words->append(more);
        if (last_words->size() > 2 * kLastWords)
          last_words->erase(0, last_words->size() - kLastWords);
      });
    for (int ended = 0; !status;)
      if (::waitpid(child.pid, &ended, 0) >= 0 || errno != EINTR) status = ended;
    running = 0;
  }
  if (is_captured) ::close(pipe[0]);
  if (child.pid < 0) return 127;
  return WIFSIGNALED(*status) ? 128 + WTERMSIG(*status) : WEXITSTATUS(*status);
}

/// Swaps the new environment in `made` with the old one in `folder`.
Status exchange(const std::string& made, const std::string& folder) {
  if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) == 0)
    return Done{};
  // Some file systems cannot swap two folders in one step. There, rename twice, and undo the first
  // renaming if the second fails.
  const std::string old = made + ".old";
  if (::rename(folder.c_str(), old.c_str()) != 0) return no_place(folder, errno);
  if (::rename(made.c_str(), folder.c_str()) == 0) return Done{};
  const int problem = errno;
  if (::rename(old.c_str(), folder.c_str()) != 0)
    return Error{ErrorCode::kPermissionDenied, "E0842",
                 text("{} could not be replaced, and is now at {}: {}", printable(folder),
                      printable(old), error_words(problem)),
                 "mv " + shell_word(old) + " " + shell_word(folder)};
  return no_place(folder, problem);
}

/// Adds an option that writes a log file to the command. pip's log contains more than the lines
/// that pip prints.
std::vector<std::string> with_log(std::vector<std::string> words, const std::string& log) {
  if (words.size() > 3 && words[2] == "pip" && words[3] == "install")
    words.insert(words.begin() + 4, {"--log", log});
  return words;
}

Status run_steps(const SetupEnvironment& wanted, const std::string& folder,
                 const SetupSteps& steps) {
  const std::string log = folder + ".log";
  for (const auto& words : commands_for(wanted, folder)) {
    steps.before(words);
    std::string last_words;
    const int code = run_program(with_log(words, log), &last_words);
    if (code == 0 && ended_by == 0) continue;
    if (const auto more = read_file(log, std::size_t{8} << 20)) last_words += *more;
    return step_failed(words, code, wanted, last_words);
  }
  return Done{};
}

/// Creates a conda environment in its final place, because it contains its own path and cannot be
/// moved.
Status make_in_place(const SetupEnvironment& wanted, const SetupSteps& steps) {
  UnfinishedFolder unfinished{wanted.folder};
  if (auto made = run_steps(wanted, wanted.folder, steps); !made) {
    std::error_code ignored;
    fs::remove(wanted.folder + ".log", ignored);
    return made;
  }
  std::error_code ignored;
  fs::remove(wanted.folder + ".log", ignored);
  unfinished.path.clear();
  return Done{};
}

}  // namespace

const char* word_of(Installer installer) {
  return installer == Installer::kPip ? "pip" : installer == Installer::kUv ? "uv" : "conda";
}

std::vector<std::vector<std::string>> commands_for(const SetupEnvironment& wanted,
                                                   const std::string& folder) {
  const std::string name = wanted.folder.substr(wanted.folder.rfind('/') + 1);
  const std::string python = folder + "/bin/python";
  const bool by_uv = wanted.installer == Installer::kUv;
  std::vector<std::vector<std::string>> commands;
  if (wanted.is_upgrade)
    commands.push_back({"cp", "-a", "--reflink=auto", wanted.folder, folder});
  else if (wanted.installer == Installer::kConda)
    commands.push_back(
        {wanted.program, "create", "--yes", "--prefix", folder,
         wanted.python_version.empty() ? "python" : "python=" + wanted.python_version, "pip"});
  else if (by_uv)
    commands.push_back(
        {wanted.program, "venv", "--python", wanted.python, "--prompt", name, folder});
  else
    commands.push_back({wanted.python, "-m", "venv", "--prompt", name, folder});
  if (!wanted.removed.empty()) {
    commands.push_back(
        by_uv ? std::vector<std::string>{wanted.program, "pip", "uninstall", "--python", python}
              : std::vector<std::string>{python, "-m", "pip", "uninstall", "--yes"});
    commands.back().insert(commands.back().end(), wanted.removed.begin(), wanted.removed.end());
  }
  for (const InstallStep& step : wanted.steps) {
    std::vector<std::string> install =
        by_uv ? std::vector<std::string>{wanted.program, "pip", "install", "--python", python}
              : std::vector<std::string>{python,    "-m",         "pip",
                                         "install", "--no-input", "--disable-pip-version-check"};
    if (wanted.is_upgrade) install.emplace_back("--upgrade");
    install.insert(install.end(), step.packages.begin(), step.packages.end());
    if (!step.index_url.empty()) {
      install.emplace_back("--index-url");
      install.push_back(step.index_url);
    }
    commands.push_back(std::move(install));
  }
  return commands;
}

Status check_place(const std::string& folder) {
  struct stat about {};
  if (::lstat(folder.c_str(), &about) == 0)
    return Error{ErrorCode::kInvalidArgument, "E0841",
                 text("{} exists already and was not changed", printable(folder)),
                 "berth setup --check --venv " + shell_word(folder) + "\n" +
                     text("change this environment: {}", "--upgrade") + "\n" +
                     text("or create a new one: {}", "--venv DIR")};
  if (errno != ENOENT) return no_place(folder, errno);
  const std::string parent = fs::path(folder).parent_path().string();
  if (::access(parent.c_str(), W_OK | X_OK) != 0) return no_place(folder, errno);
  return Done{};
}

Status check_existing(const std::string& folder) {
  const auto has = [&](const char* name) { return ::access((folder + name).c_str(), F_OK) == 0; };
  const bool is_environment = has("/pyvenv.cfg") || has("/conda-meta");
  // /condabin exists only in conda's own installation, which contains all other environments.
  if (!is_environment || !has("/bin/python") || has("/condabin"))
    return Error{ErrorCode::kInvalidArgument, "E0848",
                 text("{} is not a Python environment that can be changed", printable(folder)),
                 "berth setup torch --venv DIR"};
  const std::string parent = fs::path(folder).parent_path().string();
  for (const std::string& one : {parent, folder})
    if (::access(one.c_str(), W_OK | X_OK) != 0) return no_place(one, errno);
  return Done{};
}

int run_program(const std::vector<std::string>& words, std::string* last_words) {
  return run(words, last_words, nullptr);
}

int run_for_output(const std::vector<std::string>& words, std::string& output) {
  return run(words, nullptr, &output);
}

Status make_environment(const SetupEnvironment& wanted, const SetupSteps& steps) {
  if (auto fit = wanted.is_upgrade ? check_existing(wanted.folder) : check_place(wanted.folder);
      !fit)
    return fit;
  // Declared before `unfinished`, so destroyed after it: the folder is removed before a signal ends
  // this process.
  const NotedSignals signals;
  if (wanted.installer == Installer::kConda && !wanted.is_upgrade)
    return make_in_place(wanted, steps);
  std::string name = wanted.folder + ".part-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) return no_place(wanted.folder, errno);
  const UnfinishedFolder unfinished{name};
  const std::string made = name + "/env";
  if (auto done = run_steps(wanted, made, steps); !done) return done;
  if (auto named = name_new_place(made, wanted.folder); !named) return named;
  if (wanted.is_upgrade)
    return steps.may_replace(made) ? exchange(made, wanted.folder) : Status(Done{});
  if (::rename(made.c_str(), wanted.folder.c_str()) != 0) return no_place(wanted.folder, errno);
  return Done{};
}

}  // namespace berth::cli
