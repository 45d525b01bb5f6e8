#include "run/job_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/environment_variables.hpp"
#include "base/text.hpp"

namespace berth::run {
namespace {

/// A folder only this user can look into, made where it is not there; errno says why not.
bool private_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return true;
  if (errno != EEXIST) return false;
  struct stat status = {};
  // lstat: in a shared temporary folder a link of someone else's must not lead us away.
  if (::lstat(path.c_str(), &status) != 0) return false;
  errno = S_ISDIR(status.st_mode) ? EACCES : ENOTDIR;
  return S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() && (status.st_mode & 022) == 0;
}

bool is_folder(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string absolute(const std::string& path) {
  if (!path.empty() && path[0] == '/') return path;
  std::array<char, PATH_MAX> here;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  return ::getcwd(here.data(), here.size()) == nullptr ? path
                                                       : std::string(here.data()) + "/" + path;
}

}  // namespace

std::string runtime_folder() {
  if (const auto given = env_nonempty("BERTH_RUNTIME_DIR")) return absolute(*given);
  const std::string uid = std::to_string(::geteuid());
  if (const auto session = env_nonempty("XDG_RUNTIME_DIR")) return absolute(*session) + "/berth";
  if (is_folder("/run/user/" + uid)) return "/run/user/" + uid + "/berth";
  return absolute(env_nonempty("TMPDIR").value_or("/tmp")) + "/berth-" + uid;
}

Result<std::string> make_job_folder() {
  const std::string runtime = runtime_folder();
  std::string folder = runtime + "/jobs";
  for (const std::string& path : {runtime, folder}) {
    if (private_folder(path)) continue;
    return Error{ErrorCode::kUnavailable, "E0514",
                 text("cannot use the folder {}: {}", path, ::strerrordesc_np(errno)), ""};
  }
  folder += "/" + std::to_string(::getpid());
  remove_job_folder(folder);  // of a front that was killed together with its keeper
  if (::mkdir(folder.c_str(), 0700) == 0) return folder;
  return Error{ErrorCode::kUnavailable, "E0514",
               text("cannot use the folder {}: {}", folder, ::strerrordesc_np(errno)), ""};
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
