// Texts of /proc/PID: a process chooses its own name, arguments and (in a container) control
// groups.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "system/process.hpp"
#include "system/process_text.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace berth::system;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 5) {
    case 0: {
      const auto stat = parse_stat(text);
      BERTH_CHECK(!stat || stat->name.size() < text.size());
      break;
    }
    case 1: {
      const StatusText status = parse_status(text);
      BERTH_CHECK(status.namespace_pids.size() <= text.size());
      break;
    }
    case 2: {
      const Home home = home_of(text);
      BERTH_CHECK(home.pod.size() <= 36);
      break;
    }
    case 3: {
      const auto line = command_line(text);
      BERTH_CHECK(line.find('\n') == std::string::npos && line.find('\x1b') == std::string::npos);
      break;
    }
    default:
      static_cast<void>(user_in_passwd(text, 1000));
  }
  return 0;
}
