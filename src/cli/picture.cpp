#include "cli/picture.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "system/child_run.hpp"

namespace berth::cli {
namespace {

constexpr const char* kConverter = "rsvg-convert";

bool is_png(const std::string& path) {
  return path.ends_with(".png") || path.ends_with(".PNG");
}

system::ChildResult convert(std::vector<std::string> words, std::string_view svg) {
  constexpr std::chrono::seconds kLongest(60);
  constexpr std::size_t kMostBytes = std::size_t{64} << 20U;
  const std::atomic<bool> is_stopped = false;
  return system::run_child({kConverter, std::move(words), std::string(svg), kLongest, kMostBytes},
                           is_stopped);
}

/// Converts an SVG to PNG. Fails with kUnavailable (E1097).
Result<std::string> png_of(std::string_view svg) {
  auto made = convert({"--format=png", "--zoom=2"}, svg);
  if (made.problem == 0 && made.is_over && made.status == 0 && !made.output.empty())
    return std::move(made.output);
  const std::string why = made.problem != 0 ? error_words(made.problem)
                          : !made.is_over   ? text("it did not finish in time")
                                            : printable(trim(made.errors));
  return Error{ErrorCode::kUnavailable, "E1097", text("{} made no PNG: {}", kConverter, why),
               "--svg FILE.svg"};
}

}  // namespace

Result<Descriptor> open_picture(const Arguments& arguments) {
  const auto path = arguments.value("--svg");
  if (!path) return Descriptor();
  if (is_png(*path) && convert({"--version"}, "").problem != 0)
    return Error{ErrorCode::kUnavailable, "E1097",
                 text("a PNG needs the program {}, which is not installed", kConverter),
                 "sudo apt install librsvg2-bin\n--svg FILE.svg"};
  Descriptor file(::open(path->c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666));
  if (file) return file;
  return Error{
      ErrorCode::kUnavailable, "E0547",
      text("the picture cannot be written to {}: {}", printable(*path), error_words(errno)),
      "ls -ld \"$(dirname " + shell_word(printable(*path)) + ")\""};
}

Status write_picture(const Arguments& arguments, const Descriptor& file, std::string_view svg) {
  if (!file) return Done{};
  std::string png;
  if (is_png(arguments.value("--svg").value_or(""))) {
    auto made = png_of(svg);
    if (!made) return std::move(made).error();
    png = *std::move(made);
    svg = png;
  }
  bool written = ::ftruncate(file.get(), 0) == 0 ||
                 errno == EINVAL;  // a pipe cannot be truncated, which is no error
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
