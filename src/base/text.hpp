// Translated text for people. Every sentence that a person reads goes through text() or tr(). As in
// gettext, the English sentence is the key; po/*.po hold the translations, which are compiled into
// the program. JSON keys, option names and error identifiers are never translated.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace berth {

enum class Language { kEnglish, kChinese };

/// Sets the language once at the start. --lang comes first, then LC_ALL, LC_MESSAGES and LANG. A
/// value that begins with "zh" means Chinese.
void set_language(Language language);
[[nodiscard]] Language language();
/// The language of a locale: kChinese for "zh", "zh_CN.UTF-8", "zh-Hans"; kEnglish for everything
/// else.
[[nodiscard]] Language language_from(std::string_view locale);

/// The sentence in the chosen language, or in English if there is no translation.
[[nodiscard]] std::string_view tr(std::string_view msgid);

/// Marks a sentence in a table that is passed to tr() later; scripts/check_messages.py finds it.
[[nodiscard]] constexpr const char* msgid(const char* sentence) {
  return sentence;
}

/// Translates, then formats with fmt. A translation may reorder named or numbered arguments.
template <typename... Args>
[[nodiscard]] std::string text(std::string_view msgid, const Args&... args) {
  return fmt::vformat(tr(msgid), fmt::make_format_args(args...));
}

/// Returns the singular or the plural sentence. Chinese has only one form, so its translation is
/// stored under the plural sentence.
template <typename... Args>
[[nodiscard]] std::string text_n(std::string_view one, std::string_view many, long long n,
                                 const Args&... args) {
  const std::string_view chosen = (language() == Language::kEnglish && n == 1) ? one : tr(many);
  return fmt::vformat(chosen, fmt::make_format_args(args...));
}

/// A row of the compiled translations, which scripts/compile_messages.py generates sorted by msgid.
/// The row points to the msgid; the bytes of the translation come directly after it.
struct Message {
  std::uint32_t at;
  std::uint32_t msgid_bytes, translation_bytes;
};
struct Catalogue {
  const char* bytes;
  std::span<const Message> messages;
};

}  // namespace berth
