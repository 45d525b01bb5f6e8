// A pasted traceback or log: which messages in it are known, and what can be behind each. It raises
// the rank of rules that hold anyway, and makes no finding by itself: the same text has several
// causes. Pure; the text is whatever somebody pasted.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::doctor {

/// A row of the table of known messages.
struct Signature {
  const char* name;  // stable, for programs; rows of one name are one message in several wordings
  /// Lower case; parts separated by "*" stand behind each other, near by. Blanks stand for any
  /// blanks and ends of lines: pasted text is often folded.
  const char* words;
  /// 2: the message names its cause; 1: it has many.
  int strength;
  const char* rules;  // that can be behind it, blank separated; "DRV*" is all that begin so
  const char* means;  // msgid
};
[[nodiscard]] std::span<const Signature> signatures();

/// One of them in a text.
struct Recognised {
  std::string name;
  int line = 0;      // of the text, from 1
  std::string text;  // the line, fit to be shown
  int strength = 0;
  std::vector<std::string> rules;
  std::string means;       // translated
  double asked_bytes = 0;  // of memory, where the message tells
};

constexpr std::size_t kMostErrorText = 4 << 20;

/// Every known message once, where it stands first; those that name their cause before the others,
/// then by line. Looks at the last 4 MiB.
[[nodiscard]] std::vector<Recognised> read_error_text(std::string_view bytes, int lines_before = 0);

}  // namespace berth::doctor
