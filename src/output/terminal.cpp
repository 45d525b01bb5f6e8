#include "output/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/environment_variables.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "output/character.hpp"

namespace berth::output {
namespace {

struct Range {
  char32_t first, last;
};
// Wide characters: W and F in EastAsianWidth.txt (Unicode 15). Blocks with only unassigned
// characters between them are joined.
constexpr std::array<Range, 16> kWide{{{0x1100, 0x115F},
                                       {0x231A, 0x231B},
                                       {0x23E9, 0x23EC},
                                       {0x2614, 0x2615},
                                       {0x2E80, 0x303E},
                                       {0x3041, 0x33FF},
                                       {0x3400, 0x4DBF},
                                       {0x4E00, 0x9FFF},
                                       {0xA000, 0xA4CF},
                                       {0xA960, 0xA97C},
                                       {0xAC00, 0xD7A3},
                                       {0xF900, 0xFAFF},
                                       {0xFE30, 0xFE6F},
                                       {0xFF00, 0xFF60},
                                       {0x1F300, 0x1FAFF},
                                       {0x20000, 0x3FFFD}}};
constexpr std::array<Range, 4> kZero{
    {{0x0300, 0x036F}, {0x200B, 0x200F}, {0xFE00, 0xFE0F}, {0x20D0, 0x20FF}}};

template <std::size_t N>
bool within(const std::array<Range, N>& ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](Range r) { return c >= r.first && c <= r.last; });
}

/// Removes one character from the front of `text` and returns it. The text is valid UTF-8, because
/// printable() has replaced invalid bytes of untrusted text.
char32_t take(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  length = std::min(length, text.size());
  char32_t c = length == 1 ? lead : lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i)
    c = (c << 6) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  text.remove_prefix(length);
  return c;
}

int width_of(char32_t c) {
  return within(kZero, c) ? 0 : within(kWide, c) ? 2 : 1;
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const auto locale = env_nonempty(name);
    if (!locale) continue;
    return locale->find("UTF-8") != std::string::npos ||
           locale->find("utf8") != std::string::npos ||
           locale->find("utf-8") != std::string::npos || locale->find("UTF8") != std::string::npos;
  }
  return false;
}

// Closing characters must not start a line, and opening characters must not end a line.
constexpr std::u32string_view kCloses = U"，。；：）”、！？》」…％,.;:)!?%";
constexpr std::u32string_view kOpens = U"（“《「(";

/// A part of a text, and whether a space came before it. A line may be broken between two parts.
struct Piece {
  std::string text;
  bool after_blank = false;
};

std::vector<Piece> pieces_of(std::string_view text) {
  std::vector<Piece> pieces;
  bool glue = false, blank = false, was_wide = false;
  while (!text.empty()) {
    const std::string_view before = text;
    const char32_t c = take(text);
    const std::string_view bytes = before.substr(0, before.size() - text.size());
    if (c == U' ') {
      blank = true;
      continue;
    }
    const bool wide = width_of(c) == 2;
    const bool breaks = (wide || was_wide) && !glue && kCloses.find(c) == std::u32string_view::npos;
    if (pieces.empty() || blank || breaks) pieces.push_back({"", blank});
    pieces.back().text += bytes;
    glue = kOpens.find(c) != std::u32string_view::npos;
    was_wide = wide;
    blank = false;
  }
  return pieces;
}

struct Spelling {
  std::string_view sign, ascii;
};
constexpr std::array<Spelling, 15> kSpellings{
    {{"×", "x"},
     {"°C", "C "},  // has a space, so that it is as wide as "°C"
     {"°", " "},
     {"…", "~"},
     {"≤", "<="},
     {"—", "-"},
     {"–", "-"},
     {"▇", "#"},
     {"▁", "."},
     {"└", "`"},
     {"├", "|"},
     {"→", ">"},
     {"“", "\""},
     {"”", "\""},
     {"·", "-"}}};

}  // namespace

Character take_character(std::string_view& text) {
  const std::string_view before = text;
  const char32_t code = take(text);
  return {before.substr(0, before.size() - text.size()), code, width_of(code)};
}

Terminal Terminal::of(int fd, ColorChoice choice) {
  Terminal terminal;
  terminal.tty = ::isatty(fd) == 1;
  winsize size{};
  if (const auto columns = to_number(env("COLUMNS").value_or(""));
      columns && *columns >= 20 && *columns < 10'000)
    terminal.width = static_cast<int>(*columns);
  else if (terminal.tty && ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
    terminal.width = size.ws_col;
  else
    terminal.is_limited = terminal.tty;
  terminal.utf8 = language() == Language::kChinese || locale_is_utf8();
  const bool wanted =
      terminal.tty && !env_nonempty("NO_COLOR") && env("TERM").value_or("dumb") != "dumb";
  terminal.color = choice == ColorChoice::kAlways || (choice == ColorChoice::kAuto && wanted);
  return terminal;
}

std::string Terminal::paint(Style style, std::string_view text) const {
  static constexpr std::array<const char*, 7> kCodes{"", "1", "2", "31", "33", "32", "36"};
  if (!color || style == Style::kPlain || text.empty()) return std::string(text);
  return std::string("\x1b[") + kCodes[static_cast<std::size_t>(style)] + "m" + std::string(text) +
         "\x1b[0m";
}

std::string Terminal::spell(std::string text) const {
  if (utf8) return text;
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = std::string_view(text).substr(i);
    const auto known =
        static_cast<unsigned char>(text[i]) < 0x80
            ? kSpellings.end()
            : std::find_if(kSpellings.begin(), kSpellings.end(), [&](const Spelling& s) {
                return rest.substr(0, s.sign.size()) == s.sign;
              });
    out += known == kSpellings.end() ? rest.substr(0, 1) : known->ascii;
    i += known == kSpellings.end() ? 1 : known->sign.size();
  }
  return out;
}

std::vector<std::string> wrap(std::string_view text, int columns) {
  std::vector<std::string> lines;
  int used = 0;
  for (const Piece& piece : pieces_of(text)) {
    const int width = display_width(piece.text);
    if (!lines.empty() && used + width + (piece.after_blank ? 1 : 0) <= columns) {
      if (piece.after_blank) lines.back() += ' ';
      lines.back() += piece.text;
      used += width + (piece.after_blank ? 1 : 0);
    } else {
      lines.push_back(piece.text);
      used = width;
    }
  }
  return lines;
}

int display_width(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return c >= 0; }))
    return static_cast<int>(text.size());
  int width = 0;
  while (!text.empty()) width += width_of(take(text));
  return width;
}

std::string clip(std::string_view text, int columns) {
  if (display_width(text) <= columns) return std::string(text);
  std::string_view rest = text;
  std::size_t kept = 0;
  for (int width = 0; !rest.empty(); kept = text.size() - rest.size()) {
    width += width_of(take(rest));
    if (width > columns - 1) break;
  }
  return columns < 1 ? std::string() : std::string(text.substr(0, kept)) + "…";
}

std::string pad(std::string_view text, int columns, bool to_the_right) {
  const int missing = std::max(0, columns - display_width(text));
  const std::string blanks(static_cast<std::size_t>(missing), ' ');
  return to_the_right ? blanks + std::string(text) : std::string(text) + blanks;
}

}  // namespace berth::output
