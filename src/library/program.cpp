#include "library/program.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/environment_variables.hpp"
#include "base/text_parts.hpp"

namespace berth::library {
namespace {

std::mutex guard;
std::string named;

bool can_run(const std::string& path) {
  return ::access(path.c_str(), X_OK) == 0;
}

/// The folder of this library, with links resolved.
std::string own_folder() {
  Dl_info info = {};
  if (::dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0) return "";
  char* const whole = ::realpath(info.dli_fname, nullptr);
  const std::string path = whole != nullptr ? whole : "";
  std::free(whole);
  return path.substr(0, path.find_last_of('/'));
}

}  // namespace

std::string program() {
  const std::scoped_lock lock(guard);
  if (!named.empty()) return named;
  std::string folder = own_folder();
  if (!folder.empty() && can_run(folder + "/berth")) return folder + "/berth";
  // The library may be in PREFIX/lib/x86_64-linux-gnu or in
  // PREFIX/lib/python3.11/site-packages/berth/lib, so look for bin/ in the folders above.
  for (int up = 0; up < 6 && !folder.empty(); ++up) {
    folder.resize(folder.find_last_of('/'));
    if (std::string found = folder + "/bin/berth"; can_run(found)) return found;
  }
  const std::string path = env_nonempty("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (const std::string_view one : split(path, ':'))
    if (std::string found = std::string(one) + "/berth"; !one.empty() && can_run(found))
      return found;
  return "";
}

void use_program(std::string path) {
  const std::scoped_lock lock(guard);
  named = std::move(path);
}

}  // namespace berth::library
