#include "guard/context_cost.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "system/runtime_folder.hpp"

namespace berth::guard {
namespace {

/// No CUDA context is known to take more memory than this. A larger number is a measurement error.
constexpr std::uint64_t kMost = 2ULL << 30U;

/// The path of the file with the stored value: STATE/context-memory/UUID-DRIVER. Empty if there is
/// no state folder, or if UUID-DRIVER cannot be used as a file name.
std::string path_of(const std::string& uuid, const std::string& driver) {
  const std::string state = system::state_folder(), name = uuid + "-" + driver;
  if (state.empty() || uuid.empty() || driver.empty() || name.size() > 200) return "";
  for (const char c : name)
    if (c == '/' || c <= ' ' || c > '~') return "";
  return state + "/context-memory/" + name;
}

}  // namespace

std::optional<std::uint64_t> context_cost(const std::string& uuid, const std::string& driver) {
  const std::string path = path_of(uuid, driver);
  const auto text = path.empty() ? std::nullopt : slurp(path);
  if (!text) return std::nullopt;
  char* end = nullptr;
  const std::uint64_t bytes = std::strtoull(text->c_str(), &end, 10);
  if (end == text->c_str() || *end != '\n' || bytes == 0 || bytes > kMost) return std::nullopt;
  return bytes;
}

void remember_context_cost(const std::string& uuid, const std::string& driver,
                           std::uint64_t bytes) {
  const std::string path = path_of(uuid, driver);
  if (path.empty() || bytes == 0 || bytes > kMost) return;
  if (const auto known = context_cost(uuid, driver); known && *known <= bytes) return;
  bool made = false;
  const std::string folder = path.substr(0, path.rfind('/'));
  if (!system::make_private_folder(system::state_folder(), made) ||
      !system::make_private_folder(folder, made))
    return;
  const std::string line = std::to_string(bytes) + "\n",
                    draft = path + "." + std::to_string(::getpid());
  {
    const Descriptor file(
        ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file || ::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      return;
  }
  if (::rename(draft.c_str(), path.c_str()) != 0) ::unlink(draft.c_str());
}

}  // namespace berth::guard
