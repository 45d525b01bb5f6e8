#include "doctor/read/kernel_log.hpp"

#include <sys/klog.h>

#include <algorithm>
#include <cerrno>

#include "base/text_parts.hpp"

namespace berth::doctor {

Fact<std::string> read_kernel_log() {
  constexpr int kReadAll = 3, kSize = 10;
  const int size = std::min(::klogctl(kSize, nullptr, 0), 4 << 20);
  if (size <= 0) return Unreadable{"/dev/kmsg", errno == 0 ? EPERM : errno};
  std::string raw(static_cast<std::size_t>(size), '\0');
  const int got = ::klogctl(kReadAll, raw.data(), size);
  if (got < 0) return Unreadable{"/dev/kmsg", errno};
  raw.resize(static_cast<std::size_t>(got));
  std::string text;
  text.reserve(raw.size());
  for (std::string_view line : split(raw, '\n')) {
    if (line.starts_with('<'))
      if (const auto end = line.find('>'); end != std::string_view::npos)
        line.remove_prefix(end + 1);
    text += line;
    text += '\n';
  }
  return text;
}

}  // namespace berth::doctor
