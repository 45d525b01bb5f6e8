#include "sim/child.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::sim {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

/// Whether no folder of PATH has the command. If a folder in PATH is not searchable, execvp()
/// reports "permission denied" even for commands that do not exist.
bool is_nowhere(const std::string& command) {
  if (command.find('/') != std::string::npos) return false;
  const std::string path = env("PATH").value_or("/bin:/usr/bin");
  for (const std::string_view folder : split(path, ':'))
    if (::access((std::string(folder) + "/" + command).c_str(), F_OK) == 0) return false;
  return true;
}

Error cannot_run(const std::string& command, int number) {
  if (number == ENOENT || (number == EACCES && is_nowhere(command)))
    return {ErrorCode::kNotFound, "E0614", text("there is no command '{}'", printable(command)),
            "command -v " + printable(command) + "; echo \"$PATH\""};
  return {ErrorCode::kPermissionDenied, "E0615",
          text("cannot run '{}': {}", printable(command), error_words(number)),
          "ls -ld " + printable(command)};
}

}  // namespace

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& settings) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced = std::any_of(settings.begin(), settings.end(),
                                      [name](const auto& s) { return s.first == name; });
    if (!replaced) out.emplace_back(text);
  }
  for (const auto& [name, value] : settings) out.push_back(name + "=" + value);
  return out;
}

Result<pid_t> start_child(const std::vector<std::string>& command,
                          const std::vector<std::string>& environment, const sigset_t& mask) {
  std::vector<char*> argv = pointers(command), envp = pointers(environment);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return Error{ErrorCode::kUnavailable, "E0613",
                 text("cannot start a simulated process: {}", error_words(errno)), ""};
  Descriptor read_end(ends[0]), write_end(ends[1]);
  const pid_t pid = fork();
  if (pid < 0)
    return Error{ErrorCode::kUnavailable, "E0613",
                 text("cannot start a simulated process: {}", error_words(errno)), ""};
  if (pid == 0) {
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    environ = envp.data();
    execvp(argv[0], argv.data());
    const int number = errno;
    static_cast<void>(!write(write_end.get(), &number, sizeof(number)));
    _exit(127);
  }
  write_end.reset();
  int number = 0;
  ssize_t n = 0;
  do n = read(read_end.get(), &number, sizeof(number));
  while (n < 0 && errno == EINTR);
  if (n != sizeof(number)) return pid;  // exec closed the pipe, so the command runs
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return cannot_run(command.front(), number);
}

}  // namespace berth::sim
