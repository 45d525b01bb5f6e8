#include "guard/usage_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/descriptor.hpp"

namespace berth::guard {

namespace wire = berth::wire::guard;

bool read_part(int file, void* into, std::size_t bytes, std::size_t from) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t n = ::pread(file, static_cast<char*>(into) + done, bytes - done,
                              static_cast<off_t>(from + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

std::optional<wire::Limits> limits_in(const std::string& folder) {
  // The file is usually a link to memory of `berth run`, so links are followed.
  const Descriptor file(::open((folder + "/limits").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  wire::Limits limits{};
  if (!file || !read_part(file.get(), &limits, sizeof limits) || !wire::valid(limits) ||
      limits.devices == 0)
    return std::nullopt;
  return limits;
}

std::unique_ptr<wire::Usage> usage_in(const std::string& folder) {
  const Descriptor file(
      ::open((folder + "/usage").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  // Do not clear the copy. Most entries of the file are unused, and they are not read.
  auto copy = std::make_unique_for_overwrite<wire::Usage>();
  constexpr std::size_t kHead = offsetof(wire::Usage, process);
  if (!file || !read_part(file.get(), copy.get(), kHead) || !wire::valid(*copy)) return nullptr;
  copy->places = wire::places_of(*copy);
  if (!read_part(file.get(), copy->process, copy->places * sizeof(wire::Process), kHead))
    return nullptr;
  wire::bury_the_dead(*copy);
  return copy;
}

}  // namespace berth::guard
