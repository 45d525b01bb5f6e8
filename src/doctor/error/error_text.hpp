// Finds known messages in a pasted traceback or log, and the rules that can explain each message. A
// message changes the order of findings; it does not create one. The text is untrusted.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::doctor {

/// A row of the table of known messages.
struct Signature {
  /// The name is stable, because programs use it. Rows with the same name are different wordings of
  /// one message.
  const char* name;
  /// In lower case. "*" separates parts that follow each other at a short distance. A space matches
  /// any whitespace, because pasted text is often wrapped.
  const char* words;
  /// 2: the message states its cause; 1: it has many possible causes.
  int strength;
  const char* rules;  // rules that can explain the message, separated by spaces; "DRV*" is a prefix
  const char* means;  // msgid
};
[[nodiscard]] std::span<const Signature> signatures();

/// A known message in a text.
struct Recognised {
  std::string name;
  int line = 0;      // line number in the text, from 1
  std::string text;  // text of the line, with control characters replaced
  int strength = 0;
  std::vector<std::string> rules;
  std::string means;       // translated explanation
  double asked_bytes = 0;  // requested memory in bytes; 0 if the message does not state it
};

/// Whether `message.rules` contains `rule` ("DRV05"), or a pattern that matches it ("DRV*").
[[nodiscard]] bool speaks_of(const Recognised& message, std::string_view rule);

constexpr std::size_t kMostErrorText = 4 << 20;

/// The known messages in `bytes`, each once, at its first occurrence. Messages that state their
/// cause come first; apart from that, messages are sorted by line. Reads only the last 4 MiB. Line
/// numbers start after `lines_before`.
[[nodiscard]] std::vector<Recognised> read_error_text(std::string_view bytes, int lines_before = 0);

}  // namespace berth::doctor
