#include "guard/resize.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "guard/usage_file.hpp"
#include "system/runtime_folder.hpp"
#include "wire/guard.hpp"

namespace berth::guard {

namespace wire = berth::wire::guard;

Result<std::vector<ContainerLimit>> limits_in_container(const std::string& folder) {
  const std::string path = folder + "/limits";
  wire::Limits limits{};
  errno = 0;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file || !read_part(file.get(), &limits, sizeof limits) || !wire::valid(limits))
    return Error{ErrorCode::kUnavailable, "E0520",
                 text("the guard cannot use {}: {}", printable(path),
                      errno != 0 ? error_words(errno) : text("it is damaged")),
                 "ls -l " + printable(folder)};
  std::vector<ContainerLimit> out;
  for (std::uint32_t i = 0; i < limits.devices; ++i) {
    const wire::DeviceLimit& one = limits.device[i];
    ContainerLimit limit{"GPU-", std::nullopt};
    for (int byte = 0; byte < 16; ++byte)
      limit.uuid += fmt::format(
          "{}{:02x}", byte == 4 || byte == 6 || byte == 8 || byte == 10 ? "-" : "", one.uuid[byte]);
    if (one.memory_bytes != wire::kNoLimit) limit.memory_bytes = one.memory_bytes;
    out.push_back(std::move(limit));
  }
  return out;
}

Result<LiveLimits> limits_of(std::uint64_t job) {
  const auto runtime = system::runtime_folder();
  if (!runtime) return runtime.error();
  const std::string jobs = *runtime + "/jobs";
  for (const std::string& name : list_folder(jobs)) {
    const std::string folder = jobs + "/" + name + "/guard";
    const auto limits = limits_in(folder);
    if (!limits || limits->job != job) continue;
    return LiveLimits{folder, limits->device[0].memory_bytes,
                      static_cast<int>(limits->device[0].permille)};
  }
  return Error{ErrorCode::kNotFound, "E0522",
               text("the guard does not limit job {}: it was started without --memory and --share, "
                    "with --isolation none, or by another user",
                    job),
               "berth jobs"};
}

Status set_limits(const LiveLimits& of, const NewLimits& to) {
  constexpr std::chrono::seconds kPatience(10);
  const std::string path = of.folder + "/wanted";
  wire::Wanted wanted{};
  wanted.magic = wire::kWantedMagic;
  wanted.version = wire::kVersion;
  wanted.memory_bytes = to.memory_bytes.value_or(0);
  wanted.permille = static_cast<std::uint32_t>(to.share_permille.value_or(0));
  wanted.request =
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  const std::string draft = path + "." + std::to_string(::getpid());
  {
    const Descriptor file(
        ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file || ::write(file.get(), &wanted, sizeof wanted) != sizeof wanted ||
        ::rename(draft.c_str(), path.c_str()) != 0)
      return Error{ErrorCode::kUnavailable, "E0520",
                   text("the guard cannot use {}: {}", printable(path), error_words(errno)), ""};
  }
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < until) {
    const auto limits = limits_in(of.folder);
    if (!limits)
      return Error{ErrorCode::kNotFound, "E0522", text("the job has ended"), "berth jobs"};
    if (limits->answered >= wanted.request) {  // this request or a later one was answered
      const wire::DeviceLimit& now = limits->device[0];
      if ((wanted.memory_bytes == 0 || now.memory_bytes == wanted.memory_bytes) &&
          (wanted.permille == 0 || now.permille == wanted.permille))
        return Done{};
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return Error{ErrorCode::kUnavailable, "E0955",
               text("the job did not get the new limits: its `berth run` is stopped, or cannot "
                    "reach the broker"),
               "berth jobs"};
}

std::optional<std::uint64_t> used_memory(const LiveLimits& of) {
  const auto usage = usage_in(of.folder);
  if (!usage) return std::nullopt;
  std::uint64_t most = 0;
  for (std::uint32_t device = 0; device < wire::kMaxDevices; ++device)
    most = std::max(most, wire::sum_of(*usage, device).used);
  return most;
}

}  // namespace berth::guard
