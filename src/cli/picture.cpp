#include "cli/picture.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"

namespace berth::cli {

Result<Descriptor> open_picture(const Arguments& arguments) {
  const auto path = arguments.value("--svg");
  if (!path) return Descriptor();
  Descriptor file(::open(path->c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666));
  if (file) return file;
  return Error{
      ErrorCode::kUnavailable, "E0547",
      text("the picture cannot be written to {}: {}", printable(*path), error_words(errno)),
      "ls -ld \"$(dirname " + shell_word(printable(*path)) + ")\""};
}

Status write_picture(const Arguments& arguments, const Descriptor& file, std::string_view svg) {
  if (!file) return Done{};
  bool written = ::ftruncate(file.get(), 0) == 0 ||
                 errno == EINVAL;  // the file may be a pipe, which has no length
  while (written && !svg.empty()) {
    const ssize_t n = ::write(file.get(), svg.data(), svg.size());
    if (n < 0 && errno == EINTR) continue;
    written = n > 0;
    if (written) svg.remove_prefix(static_cast<std::size_t>(n));
  }
  if (written) return Done{};
  return Error{ErrorCode::kUnavailable, "E0547",
               text("the picture cannot be written to {}: {}",
                    printable(arguments.value("--svg").value_or("")), error_words(errno)),
               "df -h ."};
}

}  // namespace berth::cli
