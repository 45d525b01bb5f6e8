#include "run/job_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "system/runtime_folder.hpp"

namespace berth::run {
namespace {

/// Creates RUNTIME/jobs/PID and returns its path. Adds the folders that it created to `made`.
Result<std::string> make_below(const std::string& runtime, std::vector<std::string>& made) {
  std::string folder = runtime;
  for (const char* below : {"", "/jobs"}) {
    folder += below;
    bool is_new = false;
    const Status done = system::make_private_folder(folder, is_new);
    if (!done) return done.error();
    if (is_new) made.push_back(folder);
  }
  folder += "/" + std::to_string(::getpid());
  // An earlier `berth run` with the same pid may have left the folder, if it was killed together
  // with its keeper process.
  remove_job_folder(folder);
  if (::mkdir(folder.c_str(), 0700) != 0)
    return Error{ErrorCode::kUnavailable, "E0514",
                 text("cannot use the folder {}: {}", printable(folder), error_words(errno)), ""};
  return folder;
}

}  // namespace

Result<std::string> make_job_folder() {
  const auto runtime = system::runtime_folder();
  if (!runtime) return runtime.error();
  std::vector<std::string> made;
  auto folder = make_below(*runtime, made);
  // On a full disk only the first folder may fit; remove it, because it is useless alone.
  if (!folder)
    for (auto one = made.rbegin(); one != made.rend(); ++one) ::rmdir(one->c_str());
  return folder;
}

std::string status_line(pid_t pid, int wait_status) {
  const bool by_signal = WIFSIGNALED(wait_status);
  const std::string signal = by_signal ? std::to_string(WTERMSIG(wait_status)) : "null";
  const int code = by_signal ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
  return "{\"schema\":1,\"pid\":" + std::to_string(pid) + ",\"exit_code\":" + std::to_string(code) +
         ",\"signal\":" + signal + "}\n";
}

void write_status(const std::string& folder, pid_t pid, int wait_status) {
  if (folder.empty()) return;
  const std::string bytes = status_line(pid, wait_status);
  const std::string path = folder + "/status";
  const std::string draft = path + ".new";
  const Descriptor file(
      ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return;
  if (::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) ||
      ::rename(draft.c_str(), path.c_str()) != 0)
    ::unlink(draft.c_str());
}

void remove_job_folder(const std::string& folder) {
  if (folder.empty()) return;
  for (const char* name : {"/status", "/status.new", "/container"})
    ::unlink((folder + name).c_str());
  ::rmdir(folder.c_str());
}

}  // namespace berth::run
