#include "base/text.hpp"

#include <algorithm>
#include <atomic>
#include <span>

namespace berth {

std::span<const Message> chinese_messages();  // generated from po/zh_CN.po

namespace {
std::atomic<Language> chosen{Language::kEnglish};
}

void set_language(Language language) {
  chosen.store(language, std::memory_order_relaxed);
}
Language language() {
  return chosen.load(std::memory_order_relaxed);
}

Language language_from(std::string_view locale) {
  const std::string_view charset =
      locale.substr(std::min(locale.find('.'), locale.size())).substr(0, 5);
  const bool unicode = charset.empty() || charset == ".UTF-" || charset == ".utf8" ||
                       charset == ".utf-" || charset == ".UTF8";
  return locale.starts_with("zh") && unicode ? Language::kChinese : Language::kEnglish;
}

std::string_view tr(std::string_view msgid) {
  if (language() == Language::kEnglish) return msgid;
  const auto messages = chinese_messages();
  const auto found =
      std::lower_bound(messages.begin(), messages.end(), msgid,
                       [](const Message& m, std::string_view id) { return m.msgid < id; });
  return found != messages.end() && found->msgid == msgid ? found->translation : msgid;
}

}  // namespace berth
