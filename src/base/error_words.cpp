#include "base/error_words.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/text.hpp"

namespace berth {
namespace {

struct Words {
  int number;
  const char* says;  // the English text of the C library, which is the key of the translation
};
constexpr auto kWords = std::to_array<Words>({
    {EPERM, msgid("Operation not permitted")},
    {ENOENT, msgid("No such file or directory")},
    {ESRCH, msgid("No such process")},
    {EINTR, msgid("Interrupted system call")},
    {EIO, msgid("Input/output error")},
    {ENXIO, msgid("No such device or address")},
    {E2BIG, msgid("Argument list too long")},
    {ENOEXEC, msgid("Exec format error")},
    {EBADF, msgid("Bad file descriptor")},
    {EAGAIN, msgid("Resource temporarily unavailable")},
    {ENOMEM, msgid("Cannot allocate memory")},
    {EACCES, msgid("Permission denied")},
    {EBUSY, msgid("Device or resource busy")},
    {EEXIST, msgid("File exists")},
    {ENODEV, msgid("No such device")},
    {ENOTDIR, msgid("Not a directory")},
    {EISDIR, msgid("Is a directory")},
    {EINVAL, msgid("Invalid argument")},
    {EMFILE, msgid("Too many open files")},
    {EFBIG, msgid("File too large")},
    {ENOSPC, msgid("No space left on device")},
    {EROFS, msgid("Read-only file system")},
    {EPIPE, msgid("Broken pipe")},
    {ENAMETOOLONG, msgid("File name too long")},
    {ENOSYS, msgid("Function not implemented")},
    {ELOOP, msgid("Too many levels of symbolic links")},
    {ENODATA, msgid("No data available")},
    {EPROTO, msgid("Protocol error")},
    {EOVERFLOW, msgid("Value too large for defined data type")},
    {EOPNOTSUPP, msgid("Operation not supported")},
    {ENOTCONN, msgid("Transport endpoint is not connected")},
    {ETIMEDOUT, msgid("Connection timed out")},
    {ECONNREFUSED, msgid("Connection refused")},
    {ESTALE, msgid("Stale file handle")},
    {EDQUOT, msgid("Disk quota exceeded")},
});

}  // namespace

std::string error_words(int number) {
  const auto row = std::find_if(kWords.begin(), kWords.end(),
                                [&](const Words& one) { return one.number == number; });
  if (row != kWords.end()) return std::string(tr(row->says));
  const char* words = ::strerrordesc_np(number);
  return words == nullptr ? std::string(tr("unknown error")) : words;
}

}  // namespace berth
