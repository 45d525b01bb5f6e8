#include "run/rank_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/text.hpp"
#include "base/write_file.hpp"

namespace berth::run {
namespace {

/// The beginning gets half of the space, each part of the end a quarter.
std::uint64_t size_of(int part, std::uint64_t limit) {
  return part == 0 ? limit / 2 : limit / 4;
}

Descriptor create(const std::string& path) {
  return Descriptor(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666));
}

}  // namespace

std::string RankLog::name_of(int part) const {
  return part == 0 ? path_ : path_ + "." + std::to_string(part);
}

bool RankLog::open(const std::string& path, std::uint64_t limit) {
  *this = {};
  path_ = path;
  limit_ = limit;
  for (const int part : {1, 2}) ::unlink(name_of(part).c_str());
  file_ = create(path);
  return is_open();
}

bool RankLog::open_next() {
  if (part_ == 0) {
    const std::string name = name_of(0).substr(path_.rfind('/') + 1);
    const std::string words =
        text("the log stops here; its last part is in {}.1 and {}.2", name, name);
    if (!write_all(file_.get(), "\n[berth] " + words + "\n")) return false;
  } else if (part_ == 1) {
    in_first_ = written_;
  } else {
    if (std::rename(name_of(2).c_str(), name_of(1).c_str()) != 0) return false;
    left_out_ += in_first_;
    in_first_ = written_;
  }
  part_ = std::min(part_ + 1, 2);
  written_ = 0;
  file_ = create(name_of(part_));
  return is_open();
}

bool RankLog::write(std::string_view bytes) {
  while (is_open() && !bytes.empty()) {
    const auto room = size_of(part_, limit_) - std::min(written_, size_of(part_, limit_));
    const auto now =
        bytes.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(room, bytes.size())));
    if (!write_all(file_.get(), now)) break;
    written_ += now.size();
    bytes.remove_prefix(now.size());
    if (!bytes.empty() && !open_next()) break;
  }
  if (bytes.empty()) return true;
  file_.reset();
  return false;
}

}  // namespace berth::run
