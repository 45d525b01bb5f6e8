#include "base/text.hpp"

#include <algorithm>
#include <atomic>

namespace berth {

Catalogue chinese_messages();  // generated from po/zh_CN.po

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
  const Catalogue all = chinese_messages();
  const auto id_of = [&](const Message& one) {
    return std::string_view(all.bytes + one.at, one.msgid_bytes);
  };
  const auto found =
      std::lower_bound(all.messages.begin(), all.messages.end(), msgid,
                       [&](const Message& one, std::string_view id) { return id_of(one) < id; });
  if (found == all.messages.end() || id_of(*found) != msgid) return msgid;
  return {all.bytes + found->at + found->msgid_bytes, found->translation_bytes};
}

}  // namespace berth
