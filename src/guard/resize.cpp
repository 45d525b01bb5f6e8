#include "guard/resize.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "system/runtime_folder.hpp"
#include "wire/guard.hpp"

namespace berth::guard {
namespace {

namespace wire = berth::wire::guard;

bool read_whole(const std::string& path, void* into, std::size_t bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  for (std::size_t done = 0; file && done < bytes;) {
    const ssize_t n = ::pread(file.get(), static_cast<char*>(into) + done, bytes - done,
                              static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return static_cast<bool>(file);
}

/// One aligned word, so that the job's processes see the old or the new value.
template <typename Word>
bool put_word(int file, std::size_t at, Word value) {
  return ::pwrite(file, &value, sizeof value, static_cast<off_t>(at)) ==
         static_cast<ssize_t>(sizeof value);
}

}  // namespace

Result<LiveLimits> limits_of(std::uint64_t job) {
  const auto runtime = system::runtime_folder();
  if (!runtime) return runtime.error();
  const std::string jobs = *runtime + "/jobs";
  for (const std::string& name : list_folder(jobs)) {
    const std::string folder = jobs + "/" + name + "/guard";
    wire::Limits limits{};
    if (!read_whole(folder + "/limits", &limits, sizeof limits) || !wire::valid(limits) ||
        limits.job != job || limits.devices == 0)
      continue;
    return LiveLimits{folder, limits.device[0].memory_bytes,
                      static_cast<int>(limits.device[0].permille)};
  }
  return Error{ErrorCode::kNotFound, "E0522",
               text("the guard does not limit job {}: it was started without --memory and --share, "
                    "with --isolation none, or by another user",
                    job),
               "berth jobs"};
}

Status set_limits(const LiveLimits& of, const NewLimits& to) {
  const std::string path = of.folder + "/limits";
  const auto failed = [&] {
    return Error{ErrorCode::kUnavailable, "E0520",
                 text("the guard cannot use {}: {}", printable(path), error_words(errno)), ""};
  };
  wire::Limits limits{};
  if (!read_whole(path, &limits, sizeof limits) || !wire::valid(limits)) return failed();
  // The file is read-only, so that neither the job nor its user changes it by mistake.
  if (::chmod(path.c_str(), 0600) != 0) return failed();
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  bool written = static_cast<bool>(file);
  for (std::uint32_t i = 0; i < limits.devices && written; ++i) {
    const std::size_t device = offsetof(wire::Limits, device) + i * sizeof(wire::DeviceLimit);
    if (to.memory_bytes)
      written = put_word(file.get(), device + offsetof(wire::DeviceLimit, memory_bytes),
                         *to.memory_bytes);
    if (to.share_permille && written)
      written = put_word(file.get(), device + offsetof(wire::DeviceLimit, permille),
                         static_cast<std::uint32_t>(*to.share_permille));
  }
  written = written && put_word(file.get(), offsetof(wire::Limits, changed), limits.changed + 1);
  const int error = errno;
  static_cast<void>(::chmod(path.c_str(), 0400));
  errno = error;
  if (!written) return failed();
  return Done{};
}

std::optional<std::uint64_t> used_memory(const LiveLimits& of) {
  const auto usage = std::make_unique<wire::Usage>();
  if (!read_whole(of.folder + "/usage", usage.get(), sizeof(wire::Usage)) || !wire::valid(*usage))
    return std::nullopt;
  wire::bury_the_dead(*usage);  // in this copy
  std::uint64_t most = 0;
  for (std::uint32_t device = 0; device < wire::kMaxDevices; ++device)
    most = std::max(most, wire::sum_of(*usage, device).used);
  return most;
}

}  // namespace berth::guard
