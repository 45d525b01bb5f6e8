#include "cli/setup_environment.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
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

/// While it exists, signals that would end this process are recorded and passed on to the child.
class NotedSignals {
 public:
  NotedSignals() {
    ended_by = 0;
    struct sigaction note = {};
    note.sa_handler = pass_on;
    for (std::size_t i = 0; i < kEnding.size(); ++i) {
      ::sigaction(kEnding[i], nullptr, &before_[i]);
      // Keep ignored signals ignored (nohup).
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

/// Removes the folder unless it was renamed.
struct UnfinishedFolder {
  std::string path;
  ~UnfinishedFolder() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

Error no_place(const std::string& folder, int problem) {
  return {ErrorCode::kPermissionDenied, "E0842",
          text("{} cannot be made: {}", printable(folder), error_words(problem)),
          "berth setup … --venv DIR"};
}

/// Corrects the interpreter's path in the environment's scripts, which is absolute.
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

Error step_failed(const std::vector<std::string>& words, int code, const std::string& folder) {
  std::string command;
  for (const std::string& word : words) command += (command.empty() ? "" : " ") + shell_word(word);
  const bool is_venv = words[1] == "-m" && words[2] == "venv";
  return {ErrorCode::kUnavailable, "E0845",
          (is_venv ? text("the environment could not be made: exit code {}", code)
                   : text("pip could not install the packages: exit code {}", code)) +
              "\n  " + text("the lines above say why; {} was not made", printable(folder)),
          is_venv ? text("install Python's venv module, as {} on Debian and Ubuntu",
                         "sudo apt install python3-venv")
                  : text("check the network, or name your mirror: {}", "--index URL")};
}

}  // namespace

std::vector<std::vector<std::string>> commands_for(const NewEnvironment& wanted,
                                                   const std::string& folder) {
  const std::string name = wanted.folder.substr(wanted.folder.rfind('/') + 1);
  std::vector<std::string> install{
      folder + "/bin/python", "-m", "pip", "install", "--no-input", "--disable-pip-version-check"};
  install.insert(install.end(), wanted.install.begin(), wanted.install.end());
  return {{wanted.python, "-m", "venv", "--prompt", name, folder}, install};
}

Status check_place(const std::string& folder) {
  struct stat about {};
  if (::lstat(folder.c_str(), &about) == 0)
    return Error{ErrorCode::kInvalidArgument, "E0841",
                 text("{} is there already, and is left as it is", printable(folder)),
                 "berth doctor --deep --venv " + shell_word(folder) + "   " +
                     text("(check it), or {} for a new one", "--venv DIR")};
  if (errno != ENOENT) return no_place(folder, errno);
  const std::string parent = fs::path(folder).parent_path().string();
  if (::access(parent.c_str(), W_OK | X_OK) != 0) return no_place(folder, errno);
  return Done{};
}

int run_program(const std::vector<std::string>& words) {
  const auto child = system::spawn({.program = words[0], .words = words, .out = 2, .err = 2});
  if (child.pid < 0) return 127;
  running = child.pid;
  if (ended_by != 0) ::kill(child.pid, SIGTERM);
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0)
    if (errno != EINTR) return 127;
  running = 0;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Status make_environment(const NewEnvironment& wanted,
                        const std::function<void(const std::vector<std::string>&)>& before) {
  if (const auto fit = check_place(wanted.folder); !fit) return fit.error();
  const NotedSignals
      signals;  // outlives `unfinished`, so that the folder is removed before this process ends
  std::string name = wanted.folder + ".part-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) return no_place(wanted.folder, errno);
  UnfinishedFolder unfinished{name};
  for (const auto& words : commands_for(wanted, unfinished.path)) {
    before(words);
    if (const int code = run_program(words); code != 0 || ended_by != 0)
      return step_failed(words, code, wanted.folder);
  }
  if (const auto named = name_new_place(unfinished.path, wanted.folder); !named)
    return named.error();
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::chmod(unfinished.path.c_str(), 0777 & ~mask) != 0 ||
      ::rename(unfinished.path.c_str(), wanted.folder.c_str()) != 0)
    return no_place(wanted.folder, errno);
  unfinished.path.clear();
  return Done{};
}

}  // namespace berth::cli
