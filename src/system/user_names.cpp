#include <grp.h>
#include <pwd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "base/file.hpp"
#include "system/process.hpp"
#include "system/process_text.hpp"

namespace berth::system {

namespace {

constexpr std::size_t kPasswdLimit = 4U << 20U;
/// A directory service may need a network round trip for each query. On a machine with many unknown
/// users, only this number of queries is made.
constexpr int kMostQuestions = 64;

std::string ask_c_library(std::uint32_t uid) {
  std::array<char, 4096>
      buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled by the call
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
    return {};
  return printable(entry.pw_name);
}

}  // namespace

std::optional<std::uint32_t> group_id(const std::string& name) {
  // the entry of a large group is long, because it names all members
  std::vector<char> buffer(1U << 16U);
  group entry{};
  group* found = nullptr;
  int problem = ERANGE;
  while ((problem = ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found)) ==
             ERANGE &&
         buffer.size() < kPasswdLimit)
    buffer.resize(2 * buffer.size());
  if (problem == 0 && found != nullptr) return entry.gr_gid;
  const auto number = to_number(name);
  if (!number || *number < 0 || *number >= UINT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

const std::string& UserNames::of(std::uint32_t uid) {
  const auto known = known_.find(uid);
  if (known != known_.end()) return known->second;
  if (!passwd_) passwd_ = slurp(etc_ + "/passwd", kPasswdLimit).value_or("");
  std::string name = user_in_passwd(*passwd_, uid);
  // Read /etc/passwd first, because the C library would load every name service module.
  if (name.empty() && etc_ == "/etc" && ++asked_elsewhere_ <= kMostQuestions)
    name = ask_c_library(uid);
  if (name.empty()) name = std::to_string(uid);
  return known_.emplace(uid, std::move(name)).first->second;
}

}  // namespace berth::system
