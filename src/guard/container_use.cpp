#include "guard/container_use.hpp"

#include <fcntl.h>

#include <cerrno>
#include <memory>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "guard/resize.hpp"
#include "guard/usage_file.hpp"

namespace berth::guard {

namespace wire = berth::wire::guard;

Result<std::vector<CountedUse>> counted_in_container(const std::string& folder) {
  const auto limits = limits_in_container(folder);
  if (!limits) return limits.error();
  const std::string path = folder + "/usage";
  errno = 0;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const auto usage = std::make_unique<wire::Usage>();
  constexpr std::size_t kHead = offsetof(wire::Usage, process);
  const bool is_read =
      file && read_part(file.get(), usage.get(), kHead) && wire::valid(*usage) &&
      read_part(file.get(), usage->process, wire::places_of(*usage) * sizeof(wire::Process), kHead);
  if (!is_read)
    return Error{ErrorCode::kUnavailable, "E0520",
                 text("the guard cannot use {}: {}", printable(path),
                      errno != 0 ? error_words(errno) : text("it is damaged")),
                 "ls -l " + printable(folder)};
  std::vector<CountedUse> all;
  for (std::uint32_t i = 0; i < limits->size(); ++i) {
    const wire::Tally tally = wire::tally_of(*usage, i);
    all.push_back({(*limits)[i].uuid, tally.used + tally.kept + tally.spilled, tally.processes});
  }
  return all;
}

}  // namespace berth::guard
