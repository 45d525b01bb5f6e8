#include "cli/plan_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::cli {
namespace {

/// The model files to look for in a folder. The first one that exists is used.
constexpr std::array kModelFiles{"model.safetensors.index.json",
                                 "model.safetensors",
                                 "pytorch_model.bin.index.json",
                                 "pytorch_model.bin",
                                 "consolidated.safetensors",
                                 "consolidated.00.pth",
                                 "model.onnx"};
constexpr std::array kEndings{".safetensors", ".gguf", ".onnx", ".pt",
                              ".pth",         ".bin",  ".json", ".ckpt"};

bool read_at(int fd, std::uint64_t offset, char* into, std::size_t length) {
  while (length > 0) {
    const ssize_t got = ::pread(fd, into, length, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    into += got, offset += static_cast<std::uint64_t>(got);
    length -= static_cast<std::size_t>(got);
  }
  return true;
}

bool is_folder(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

std::optional<std::string> model_in_folder(const std::string& folder) {
  for (const char* name : kModelFiles)
    if (exists(folder + "/" + name)) return folder + "/" + name;
  constexpr std::size_t kMostNames = 10'000;
  const auto names = list_folder(folder, kMostNames);
  for (const char* ending : {".gguf", ".safetensors", ".onnx"})
    for (const std::string& name : names)
      if (name.ends_with(ending)) return folder + "/" + name;
  if (exists(folder + "/config.json")) return folder + "/config.json";
  return std::nullopt;
}

}  // namespace

Result<FileBytes> open_model_file(const std::string& path) {
  // With O_NONBLOCK, opening a FIFO does not wait for a writer.
  const auto fd = std::make_shared<Descriptor>(
      ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  struct stat status = {};
  if (!*fd || ::fstat(fd->get(), &status) != 0) {
    const int problem = errno;
    return Error{problem == ENOENT   ? ErrorCode::kNotFound
                 : problem == EACCES ? ErrorCode::kPermissionDenied
                                     : ErrorCode::kUnavailable,
                 problem == EACCES ? "E0110" : "E0111",
                 text("cannot read {}: {}", printable(path), std::strerror(problem)),
                 "ls -l " + printable(path)};
  }
  if (!S_ISREG(status.st_mode))
    return Error{ErrorCode::kInvalidArgument, "E1040",
                 text("{} is not a regular file", printable(path)), "ls -l " + printable(path)};
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  FileBytes file;
  file.name = path.substr(folder.size());
  file.size = static_cast<std::uint64_t>(status.st_size);
  file.read = [fd](std::uint64_t offset, char* into, std::size_t length) {
    return read_at(fd->get(), offset, into, length);
  };
  file.beside = [folder](const std::string& name) -> Result<FileBytes> {
    auto part = open_model_file(folder + name);
    if (part || part.error().code != ErrorCode::kNotFound) return part;
    return Error{ErrorCode::kInvalidArgument, "E1042",
                 text("a part of the model is missing: {}", printable(folder + name)),
                 "ls -l " + (folder.empty() ? "." : printable(folder))};
  };
  return file;
}

std::optional<std::string> model_path(const std::string& word) {
  if (is_folder(word)) return model_in_folder(word);
  bool looks_like_one = word.starts_with("/") || word.starts_with("./") || word.starts_with("../");
  for (const char* ending : kEndings) looks_like_one = looks_like_one || word.ends_with(ending);
  if (looks_like_one || exists(word)) return word;
  return std::nullopt;
}

}  // namespace berth::cli
