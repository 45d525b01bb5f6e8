#include "engines/own_queue.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/write_file.hpp"
#include "system/runtime_folder.hpp"

namespace berth::engines {
namespace {

constexpr std::string_view kTitle = "units in Berth's own queue:";

std::string file_in(const std::string& state) {
  return state + "/own-queue";
}

Error unusable(const std::string& path, const std::string& why) {
  return {ErrorCode::kUnavailable, "E1081",
          text("cannot read the list of GPUs that are withheld from pods: {}: {}", printable(path),
               why),
          "sudo berth k8s reclaim"};
}

bool has(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace

Result<std::vector<std::string>> OwnQueue::units() const {
  int problem = 0;
  const auto text_of = slurp(file_in(state_), 1 << 20, &problem);
  if (!text_of && problem == ENOENT) return std::vector<std::string>();
  if (!text_of) return unusable(file_in(state_), error_words(problem));
  const auto lines = split(*text_of, '\n');
  // A complete file starts with kTitle and ends with a newline, so the last element of `lines` is
  // empty.
  if (lines.size() < 2 || lines.front() != kTitle || !lines.back().empty())
    return unusable(file_in(state_), text("it is damaged"));
  return std::vector<std::string>(lines.begin() + 1, lines.end() - 1);
}

Status OwnQueue::make_folder(const std::string& command) const {
  std::error_code ignored;  // if this fails, make_private_folder() reports the error
  std::filesystem::create_directories(std::filesystem::path(state_).parent_path(), ignored);
  bool made = false;
  return system::make_private_folder(state_, made, command + " --state ");
}

Result<Descriptor> OwnQueue::lock(int how) const {
  const std::string path = file_in(state_) + ".lock";
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return unusable(path, error_words(errno));
  while (::flock(file.get(), how) != 0)
    if (errno != EINTR) return unusable(path, error_words(errno));
  return file;
}

Result<Descriptor> OwnQueue::hold() const {
  return lock(LOCK_SH);
}

Status OwnQueue::set(const std::vector<std::string>& units, bool closed) const {
  const auto locked = lock(LOCK_EX);
  if (!locked) return locked.error();
  // A damaged file closes all units. If so, refuse to open units, because it is unknown which were
  // closed.
  auto before = this->units();
  if (!before && !closed) return before.error();
  std::vector<std::string> all = before ? *std::move(before) : std::vector<std::string>();
  std::erase_if(all, [&](const std::string& one) { return has(units, one); });
  if (closed) all.insert(all.end(), units.begin(), units.end());
  std::string out = std::string(kTitle) + "\n";
  for (const std::string& one : all) out += one + "\n";
  // The caller opens the other queue next, so this change must survive a power failure.
  if (!replace_file(file_in(state_), out, 0600) || !sync_path(file_in(state_)) ||
      !sync_path(state_))
    return unusable(file_in(state_), error_words(errno));
  return Done{};
}

void OwnQueue::apply(std::vector<KubeUnit>& units) const {
  const auto closed = this->units();
  for (KubeUnit& unit : units) {
    if (closed && !has(*closed, unit.uuid)) continue;
    unit.healthy = false;
    unit.fault = kOwnQueueFault;
    unit.why = closed ? text("the GPU is in Berth's own queue") : closed.error().message;
  }
}

}  // namespace berth::engines
