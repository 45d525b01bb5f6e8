// Reads the parameters of a kernel from its source, because older drivers cannot report them.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace berth::detail {

inline bool is_of_a_word(char one) {
  return std::isalnum(static_cast<unsigned char>(one)) != 0 || one == '_';
}

/// Whether `word` is at the position `at` of the text, as a whole word.
inline bool is_word_at(const std::string& text, std::size_t at, const std::string& word) {
  return text.compare(at, word.size(), word) == 0 && (at == 0 || !is_of_a_word(text[at - 1])) &&
         (at + word.size() == text.size() || !is_of_a_word(text[at + word.size()]));
}

inline std::size_t after_blanks(const std::string& text, std::size_t at) {
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
  return at;
}

inline bool has_word(const std::string& text, const std::string& word) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    if (is_word_at(text, at, word)) return true;
  return false;
}

/// The size in bytes of a parameter such as "GLOBAL const float* x" or "uint n".
inline std::size_t parameter_size(const std::string& declared) {
  constexpr std::size_t kPointer = 8;
  if (declared.find('*') != std::string::npos) return kPointer;
  for (const char* const wide : {"long", "ulong", "double", "size_t"})
    if (has_word(declared, wide)) return 8;
  for (const char* const byte : {"char", "uchar", "bool"})
    if (has_word(declared, byte)) return 1;
  for (const char* const narrow : {"short", "ushort"})
    if (has_word(declared, narrow)) return 2;
  return 4;
}

/// The sizes of all parameters of `KERNEL void NAME(…)`. nullopt if the source has no such kernel.
inline std::optional<std::vector<std::size_t>> parameter_sizes(const std::string& source,
                                                               const std::string& name) {
  const std::string macro = "KERNEL", nothing = "void";
  for (std::size_t at = source.find(macro); at != std::string::npos;
       at = source.find(macro, at + 1)) {
    if (!is_word_at(source, at, macro)) continue;
    std::size_t next = after_blanks(source, at + macro.size());
    if (!is_word_at(source, next, nothing)) continue;
    next = after_blanks(source, next + nothing.size());
    if (!is_word_at(source, next, name)) continue;
    next = after_blanks(source, next + name.size());
    const std::size_t end = source.find(')', next);
    if (next >= source.size() || source[next] != '(' || end == std::string::npos) continue;
    std::vector<std::size_t> sizes;
    std::size_t from = after_blanks(source, next + 1);
    while (from < end) {
      const std::size_t comma = std::min(source.find(',', from), end);
      const std::string declared = source.substr(from, comma - from);
      if (declared != nothing) sizes.push_back(parameter_size(declared));
      from = comma + 1;
    }
    return sizes;
  }
  return std::nullopt;
}

}  // namespace berth::detail
