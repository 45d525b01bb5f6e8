#include "serve/token.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::serve {
namespace {

constexpr std::size_t kBytes = 32, kLeast = 32, kMost = 512;

Error unusable(ErrorCode code, const std::string& file, const std::string& why,
               const std::string& hint) {
  return {code, "E0914", text("the token {} cannot be used: {}", printable(file), why),
          hint + " " + printable(file)};
}

Error cannot(const std::string& file, int problem) {
  return unusable(ErrorCode::kUnavailable, file, error_words(problem), "ls -l");
}

/// Creates the complete file or none, and never replaces an existing one.
int make(const std::string& file) {
  std::array<unsigned char, kBytes> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    return EIO;
  std::string line;
  for (const unsigned char byte : random) line += fmt::format("{:02x}", byte);
  line += '\n';
  const std::string draft = file + "." + std::to_string(::getpid());
  ::unlink(draft.c_str());
  int problem = 0;
  {
    const Descriptor out(
        ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!out) return errno;
    const ssize_t n = ::write(out.get(), line.data(), line.size());
    if (n != static_cast<ssize_t>(line.size())) problem = n < 0 ? errno : ENOSPC;
  }
  if (problem == 0 && ::link(draft.c_str(), file.c_str()) != 0 && errno != EEXIST) problem = errno;
  ::unlink(draft.c_str());
  return problem;
}

}  // namespace

std::string token_file(const std::string& state_folder) {
  return state_folder + "/tcp-token";
}

Result<std::string> token_in(const std::string& file) {
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
  Descriptor in(::open(file.c_str(), kFlags));
  if (!in && errno == ENOENT) {
    if (const int problem = make(file); problem != 0) return cannot(file, problem);
    in.reset(::open(file.c_str(), kFlags));
  }
  struct stat status = {};
  if (!in || ::fstat(in.get(), &status) != 0) return cannot(file, errno);
  if (!S_ISREG(status.st_mode))
    return unusable(ErrorCode::kUnavailable, file, text("it is not a file"), "ls -l");
  if (status.st_uid != ::geteuid())
    return unusable(ErrorCode::kPermissionDenied, file, text("it belongs to another user"),
                    "ls -l");
  if ((status.st_mode & 0177) != 0)
    return unusable(ErrorCode::kPermissionDenied, file,
                    text("other users can read it, or write to it"), "chmod 600");
  std::array<char, kMost + 1> bytes{};
  const ssize_t n = ::read(in.get(), bytes.data(), bytes.size());
  if (n < 0) return cannot(file, errno);
  std::string token(bytes.data(), static_cast<std::size_t>(n));
  if (token.ends_with('\n')) token.pop_back();
  const bool is_one =
      token.size() >= kLeast && token.size() < kMost &&
      std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 127; });
  if (!is_one) return unusable(ErrorCode::kUnavailable, file, text("it contains no token"), "rm");
  return token;
}

bool is_same_token(std::string_view said, std::string_view token) {
  if (said.size() != token.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < token.size(); ++i)
    difference |= static_cast<unsigned char>(said[i]) ^ static_cast<unsigned char>(token[i]);
  return difference == 0;
}

}  // namespace berth::serve
