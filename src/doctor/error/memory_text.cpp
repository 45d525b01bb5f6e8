#include "doctor/error/memory_text.hpp"

#include <cstdlib>
#include <optional>
#include <utility>

#include "base/text.hpp"

namespace berth::doctor {
namespace {

constexpr std::size_t kLongestMessage = 2000;

struct Amount {
  std::string shown;  // "2.00 GiB", as the message writes it
  double bytes = 0;
};

/// Parses an amount at the start of `text`: "2.00 gib".
std::optional<Amount> amount_at(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && end < 12 &&
         ((text[end] >= '0' && text[end] <= '9') || text[end] == '.'))
    ++end;
  if (end == 0 || text.substr(end, 1) != " ") return std::nullopt;
  const std::string number(text.substr(0, end));
  if (number.find('.') != number.rfind('.') || number.back() == '.') return std::nullopt;
  const std::string_view unit = text.substr(end + 1);
  const auto of = [&](const char* shown, double size) {
    return Amount{number + " " + shown, std::strtod(number.c_str(), nullptr) * size};
  };
  if (unit.starts_with("gib")) return of("GiB", 1073741824.0);
  if (unit.starts_with("mib")) return of("MiB", 1048576.0);
  if (unit.starts_with("kib")) return of("KiB", 1024.0);
  return std::nullopt;
}

std::optional<Amount> amount_after(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  return at == std::string_view::npos ? std::nullopt : amount_at(text.substr(at + words.size()));
}

/// The amount directly before `words`.
std::optional<Amount> amount_before(std::string_view text, std::string_view words) {
  const std::size_t end = text.find(words);
  if (end == std::string_view::npos) return std::nullopt;
  const std::size_t unit = text.substr(0, end).rfind(' ');
  if (unit == std::string_view::npos || unit == 0) return std::nullopt;
  const std::size_t blank = text.substr(0, unit).rfind(' ');
  return amount_at(text.substr(blank == std::string_view::npos ? 0 : blank + 1));
}

/// Sums up the memory of other processes: "process 4121 has 7.50 GiB memory in use".
double held_by_others(std::string_view text) {
  double bytes = 0;
  for (std::size_t at = text.find("process "); at != std::string_view::npos;
       at = text.find("process ", at + 1)) {
    const std::string_view rest = text.substr(at + 8);
    const std::size_t has = rest.find(" has ");
    if (has == 0 || has > 10 || rest[0] < '0' || rest[0] > '9') continue;
    if (const auto amount = amount_at(rest.substr(has + 5))) bytes += amount->bytes;
  }
  return bytes;
}

}  // namespace

MemoryText read_memory_text(std::string_view text) {
  text = text.substr(0, kLongestMessage);
  // Stops before the next message, which has its own numbers.
  if (const std::size_t next = text.find("out of memory", 20); next != std::string_view::npos)
    text = text.substr(0, next);
  const auto asked = amount_after(text, "tried to allocate ");
  if (!asked) return {};
  auto free = amount_before(text, " is free");
  if (!free) free = amount_before(text, " free;");
  std::string sentence =
      free ? berth::text("{} was requested and {} was free", asked->shown, free->shown)
           : berth::text("{} was requested", asked->shown);
  const double others = held_by_others(text);
  if (others >= asked->bytes)
    sentence += "; " + berth::text("other processes held {:.1f} GiB (berth ps shows them)",
                                   others / 1073741824.0);
  const auto unused = amount_before(text, " is reserved by pytorch but unallocated");
  // Do not suggest PYTORCH_CUDA_ALLOC_CONF for Intel GPUs, because it has no effect on them.
  const bool is_xpu = text.find("xpu out of memory") != std::string_view::npos;
  if (unused && unused->bytes >= asked->bytes && !is_xpu)
    sentence +=
        "; " +
        berth::text("PyTorch had {} reserved but unused, in pieces that were too small; set {}",
                    unused->shown, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
  return {std::move(sentence), asked->bytes};
}

}  // namespace berth::doctor
