#include "model/xid_event.hpp"

#include <charconv>
#include <system_error>

#include "base/text_parts.hpp"

namespace berth::model {

std::optional<XidEvent> xid_in_log(std::string_view line, std::string_view mark) {
  const auto at = line.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(at + mark.size());
  if (rest.starts_with("PCI:")) rest.remove_prefix(4);
  const auto close = rest.find("): ");
  if (close == std::string_view::npos) return std::nullopt;
  XidEvent event;
  event.device = printable(rest.substr(0, close));
  const std::string_view number = rest.substr(close + 3);
  const auto read = std::from_chars(number.data(), number.data() + number.size(), event.code);
  if (read.ec != std::errc()) return std::nullopt;
  return event;
}

}  // namespace berth::model
