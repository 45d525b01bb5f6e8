#include "run/job_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/descriptor.hpp"
#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::run {
namespace {

Error unusable(const std::string& path, const std::string& why, std::string hint = {}) {
  return {ErrorCode::kUnavailable, "E0514",
          text("cannot use the folder {}: {}", printable(path), why), std::move(hint)};
}

Error unusable(const std::string& path, int problem) {
  return unusable(path, ::strerrordesc_np(problem));
}

/// What speaks against a folder that is there already: only this user may write to it.
Status check_private(const std::string& path) {
  struct stat status = {};
  // lstat: in a shared temporary folder a link of someone else's must not lead us away.
  if (::lstat(path.c_str(), &status) != 0) return unusable(path, errno);
  const std::string shown = printable(path);
  if (!S_ISDIR(status.st_mode)) return unusable(path, text("it is no folder"), "ls -ld " + shown);
  if (status.st_uid != ::geteuid())
    return unusable(path, text("it belongs to another user (uid {})", status.st_uid),
                    "ls -ld " + shown);
  if ((status.st_mode & 022) == 0) return Done{};
  // A sticky folder is meant to be shared.
  const bool shared = (status.st_mode & S_ISVTX) != 0;
  return unusable(path, text("others can write to it"),
                  shared ? "export BERTH_RUNTIME_DIR=" + shown + "/berth" : "chmod go-w " + shown);
}

/// `made`: it was not there before.
Status make_private(const std::string& path, bool& made) {
  made = ::mkdir(path.c_str(), 0700) == 0;
  if (made) return Done{};
  return errno == EEXIST ? check_private(path) : Status(unusable(path, errno));
}

bool is_folder(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// "" where it is relative: the same words would mean another folder after the next cd.
std::string absolute(const char* name) {
  const std::string path = env_nonempty(name).value_or("");
  return path.substr(0, 1) == "/" ? path : "";
}

/// RUNTIME/jobs/PID, of which `made` are new.
Result<std::string> make_below(const std::string& runtime, std::vector<std::string>& made) {
  std::string folder = runtime;
  for (const char* below : {"", "/jobs"}) {
    folder += below;
    bool is_new = false;
    const Status done = make_private(folder, is_new);
    if (!done) return done.error();
    if (is_new) made.push_back(folder);
  }
  folder += "/" + std::to_string(::getpid());
  remove_job_folder(folder);  // of a front that was killed together with its keeper
  if (::mkdir(folder.c_str(), 0700) != 0) return unusable(folder, errno);
  return folder;
}

}  // namespace

Result<std::string> runtime_folder() {
  if (const auto given = env_nonempty("BERTH_RUNTIME_DIR")) {
    if (given->front() == '/') return *given;
    return unusable(*given, text("BERTH_RUNTIME_DIR must begin with a slash"),
                    "export BERTH_RUNTIME_DIR=\"$PWD\"/" + printable(*given));
  }
  const std::string uid = std::to_string(::geteuid());
  const std::string session = absolute("XDG_RUNTIME_DIR");
  if (!session.empty()) return session + "/berth";
  if (is_folder("/run/user/" + uid)) return "/run/user/" + uid + "/berth";
  const std::string temporary = absolute("TMPDIR");
  return (temporary.empty() ? "/tmp" : temporary) + "/berth-" + uid;
}

Result<std::string> make_job_folder() {
  const auto runtime = runtime_folder();
  if (!runtime) return runtime.error();
  std::vector<std::string> made;
  auto folder = make_below(*runtime, made);
  // A full disk may have room for the first folder alone: what is of no use does not stay.
  if (!folder)
    for (auto one = made.rbegin(); one != made.rend(); ++one) ::rmdir(one->c_str());
  return folder;
}

void write_status(const std::string& folder, pid_t pid, int wait_status) {
  if (folder.empty()) return;
  const bool by_signal = WIFSIGNALED(wait_status);
  const std::string signal = by_signal ? std::to_string(WTERMSIG(wait_status)) : "null";
  const int code = by_signal ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
  const std::string bytes = "{\"schema\":1,\"pid\":" + std::to_string(pid) +
                            ",\"exit_code\":" + std::to_string(code) + ",\"signal\":" + signal +
                            "}\n";
  const std::string path = folder + "/status";
  const std::string draft = path + ".new";
  const Descriptor file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return;
  if (::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) ||
      ::rename(draft.c_str(), path.c_str()) != 0)
    ::unlink(draft.c_str());
}

void remove_job_folder(const std::string& folder) {
  if (folder.empty()) return;
  for (const char* name : {"/status", "/status.new"}) ::unlink((folder + name).c_str());
  ::rmdir(folder.c_str());
}

}  // namespace berth::run
