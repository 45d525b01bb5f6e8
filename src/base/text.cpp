#include "base/text.hpp"

#include "base/translated.hpp"

#include <fmt/args.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

namespace berth {

Catalogue chinese_messages();  // the Chinese translations, generated from po/zh_CN.po

namespace {
std::atomic<Language> chosen{Language::kEnglish};

// The least number of bytes of fixed text that a sentence must have. A sentence with less, such as
// "{}: {}", would match any text.
constexpr std::size_t kLeastWords = 8;

/// The fixed text between the placeholders of a sentence; nullopt if a placeholder has a format
/// specification.
std::optional<std::vector<std::string_view>> pieces_of(std::string_view msgid) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const auto open = msgid.find('{');
    pieces.push_back(msgid.substr(0, open));
    if (open == std::string_view::npos) return pieces;
    if (msgid.substr(open, 2) != "{}") return std::nullopt;
    msgid.remove_prefix(open + 2);
  }
}

/// Matches `said` against the fixed texts `pieces`. Returns the text at each placeholder; nullopt
/// if `said` does not match.
std::optional<std::vector<std::string>> arguments_in(std::string_view said,
                                                     const std::vector<std::string_view>& pieces) {
  if (!said.starts_with(pieces.front())) return std::nullopt;
  said.remove_prefix(pieces.front().size());
  std::vector<std::string> arguments;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    const bool is_last = i + 1 == pieces.size();
    if (is_last && !said.ends_with(pieces[i])) return std::nullopt;
    const auto at = is_last ? said.size() - pieces[i].size() : said.find(pieces[i]);
    if (at == std::string_view::npos) return std::nullopt;
    arguments.emplace_back(said.substr(0, at));
    said.remove_prefix(at + pieces[i].size());
  }
  if (!said.empty()) return std::nullopt;
  return arguments;
}

/// Translates one line. If it matches several of Berth's sentences, uses the one with the most
/// fixed text.
std::string translated_line(std::string_view said) {
  const Catalogue all = chinese_messages();
  std::string best(tr(said));
  std::size_t most = best == said ? kLeastWords - 1 : said.size();
  for (const Message& one : all.messages) {
    const std::string_view msgid(all.bytes + one.at, one.msgid_bytes);
    const auto pieces = pieces_of(msgid);
    if (!pieces || pieces->size() < 2) continue;
    const std::size_t words = msgid.size() - 2 * (pieces->size() - 1);
    if (words <= most) continue;
    const auto arguments = arguments_in(said, *pieces);
    if (!arguments) continue;
    fmt::dynamic_format_arg_store<fmt::format_context> store;
    for (const std::string& argument : *arguments) store.push_back(argument);
    best = fmt::vformat({all.bytes + one.at + one.msgid_bytes, one.translation_bytes}, store);
    most = words;
  }
  return best;
}
}  // namespace

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

std::string translated(std::string_view said) {
  if (language() == Language::kEnglish) return std::string(said);
  std::string out;
  for (;;) {
    const auto end = said.find('\n');
    const std::string_view line = said.substr(0, end);
    const auto begin = std::min(line.find_first_not_of(' '), line.size());
    out += std::string(line.substr(0, begin)) + translated_line(line.substr(begin));
    if (end == std::string_view::npos) return out;
    out += '\n';
    said.remove_prefix(end + 1);
  }
}

}  // namespace berth
