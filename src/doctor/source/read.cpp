#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "doctor/source/article.hpp"
#include "doctor/source/shell.hpp"

namespace berth::doctor::source {
namespace {

constexpr std::size_t kMostBytes = 4 << 20;
constexpr std::size_t kMostCode = 200;

Error refused(const std::string& path, const std::string& why) {
  return {ErrorCode::kInvalidArgument, "E0807", text("{}: {}", printable(path), why),
          std::string(
              tr("a script, notebook, Dockerfile, requirements, environment.yml, batch or compose "
                 "file, or an article: berth doctor train.py"))};
}

/// The error for a folder. For an environment, the hint is --venv. For other folders, the hint
/// names the Python files in the folder.
Error a_folder(const std::string& path) {
  const std::string shown = shell_word(printable(path));
  const bool is_venv = ::access((path + "/pyvenv.cfg").c_str(), F_OK) == 0;
  return {ErrorCode::kInvalidArgument, "E0807",
          text("{}: {}", printable(path), tr("it is a folder")),
          is_venv ? "berth doctor --venv " + shown
                  : "berth doctor " + shown + (path.ends_with('/') ? "*.py" : "/*.py")};
}

/// Converts UTF-16 to ASCII. Windows shells write UTF-16 ("pip freeze > requirements.txt"), with a
/// mark in the first two bytes. nullopt if there is no mark.
std::optional<std::string> from_utf16(std::string_view bytes) {
  const bool little = bytes.starts_with("\xff\xfe"), big = bytes.starts_with("\xfe\xff");
  if (!little && !big) return std::nullopt;
  std::string text;
  for (std::size_t i = 2; i + 1 < bytes.size(); i += 2) {
    const auto low = static_cast<unsigned char>(bytes[i + (little ? 0 : 1)]);
    const auto high = static_cast<unsigned char>(bytes[i + (little ? 1 : 0)]);
    const unsigned unit = static_cast<unsigned>(high) << 8U | low;
    // Rules do not use non-ASCII characters, so a placeholder is enough.
    text += unit < 0x80 ? static_cast<char>(unit) : '?';
  }
  return text;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Kind kind_by_name(std::string_view path) {
  const std::string name = lower(path.substr(path.rfind('/') + 1));
  const auto ends = [&](std::string_view tail) { return name.ends_with(tail); };
  if (ends(".py") || ends(".pyw")) return Kind::kPython;
  if (ends(".ipynb")) return Kind::kNotebook;
  if (has(name, "dockerfile") || has(name, "containerfile")) return Kind::kDockerfile;
  if (ends(".yml") || ends(".yaml")) return Kind::kYaml;
  const std::string place = "/" + lower(path);
  const bool is_list = has(name, "requirement") || has(name, "constraint") ||
                       place.find("/requirements/") != std::string::npos;
  if ((ends(".txt") || ends(".in")) && is_list) return Kind::kRequirements;
  if (ends(".sh") || ends(".bash") || ends(".sbatch") || ends(".slurm") || ends(".zsh"))
    return Kind::kShell;
  if (ends(".md") || ends(".markdown") || ends(".rst")) return Kind::kArticle;
  return Kind::kUnknown;
}

Result<std::string> bytes_of(const std::string& path) {
  // Open with O_NONBLOCK. Otherwise, open() of a FIFO would wait for a writer.
  const bool is_input = path == "-";
  const Descriptor file(is_input
                            ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                            : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat about {};
  if (!file || ::fstat(file.get(), &about) != 0) return refused(path, error_words(errno));
  if (S_ISDIR(about.st_mode)) return a_folder(path);
  if (!is_input && !S_ISREG(about.st_mode))
    return refused(path, std::string(tr("not a regular file")));
  std::string bytes;
  std::array<char, 65536> buffer{};
  while (bytes.size() <= kMostBytes) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return refused(path, error_words(errno));
    if (count == 0) return bytes;
    bytes.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return refused(path, std::string(tr("larger than 4 MiB")));
}

Marks marks_of(Kind kind, std::string_view bytes, const std::string& python, std::string* no_tree) {
  switch (kind) {
    case Kind::kPython:
      return python_marks(bytes, python, no_tree);
    case Kind::kNotebook:
      return notebook_marks(bytes, python, no_tree);
    case Kind::kShell:
      return shell_marks(bytes);
    case Kind::kDockerfile:
      return dockerfile_marks(bytes);
    case Kind::kRequirements:
      return requirements_marks(bytes);
    case Kind::kYaml:
      return yaml_marks(bytes);
    case Kind::kArticle:
      return article_marks(bytes, python, no_tree);
    case Kind::kUnknown:
      break;
  }
  return {};
}

/// Adds to every mark the text of the mark's line. Removes marks that are beyond the end of the
/// file.
void add_code(std::vector<Mark>& marks, std::string_view bytes) {
  const auto lines = split(bytes, '\n');
  std::erase_if(marks, [&](const Mark& mark) {
    return mark.line < 1 || static_cast<std::size_t>(mark.line) > lines.size();
  });
  for (Mark& mark : marks) {
    const std::string line(
        trim(mark.code.empty() ? lines[static_cast<std::size_t>(mark.line) - 1] : mark.code));
    mark.code = printable(line.substr(0, kMostCode));
    mark.value = printable(mark.value);
    mark.meant = printable(mark.meant);
  }
}

}  // namespace

Kind kind_of(std::string_view path, std::string_view bytes) {
  const Kind named = kind_by_name(path);
  if (named != Kind::kUnknown) return named;
  const std::string_view first = bytes.substr(0, bytes.find('\n'));
  if (path == "-" && !first.starts_with("#!"))
    return is_notebook(bytes) ? Kind::kNotebook : Kind::kArticle;
  if (!first.starts_with("#!")) return Kind::kUnknown;
  return has(first, "python") ? Kind::kPython : has(first, "sh") ? Kind::kShell : Kind::kUnknown;
}

Source read_bytes(std::string path, Kind kind, std::string_view bytes, const std::string& python) {
  if (bytes.starts_with("\xef\xbb\xbf")) bytes.remove_prefix(3);  // removes the byte order mark
  Source source{std::move(path), kind, {}, {}};
  source.marks = marks_of(kind, bytes, python, &source.no_tree);
  add_code(source.marks, bytes);
  std::stable_sort(source.marks.begin(), source.marks.end(),
                   [](const Mark& a, const Mark& b) { return a.line < b.line; });
  return source;
}

Result<Source> read(const std::string& path, const std::string& python) {
  auto bytes = bytes_of(path);
  if (!bytes) return std::move(bytes).error();
  const Kind kind = kind_of(path, *bytes);
  if (kind == Kind::kUnknown)
    return refused(path, std::string(tr("not a kind of file that the doctor reads")));
  if (auto text = from_utf16(*bytes)) {
    if (kind != Kind::kRequirements)  // UTF-16 is common only in requirements files
      return refused(path, std::string(tr("it is UTF-16: save it as UTF-8")));
    *bytes = *std::move(text);
  }
  if (kind == Kind::kNotebook && trim(*bytes).empty())
    return refused(path, std::string(tr("it is empty")));
  if (kind == Kind::kNotebook && !is_notebook(*bytes))
    return Error{
        ErrorCode::kInvalidArgument, "E0807",
        text("{}: {}", printable(path), tr("it is not a notebook in format 4")),
        "jupyter nbconvert --to notebook --nbformat 4 --inplace " + shell_word(printable(path))};
  if (bytes->find('\0') != std::string::npos)
    return refused(path, std::string(tr("it is not text")));
  if (kind == Kind::kArticle && code_blocks(*bytes).empty())
    return Error{ErrorCode::kInvalidArgument, "E0860",
                 text("{}: there is no code in this text", printable(path)),
                 std::string(tr("mark code with ```python or ```sh, or save it as a file: berth "
                                "doctor train.py"))};
  return read_bytes(path, kind, *bytes, python);
}

}  // namespace berth::doctor::source
