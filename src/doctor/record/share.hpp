// The word lists of data/shareable.toml. That file explains what each list is for.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace berth::doctor::share {

using Words = std::span<const std::string_view>;
Words variable_prefixes();
Words variables();
Words variables_as_set();
Words variables_of_indices();
Words variables_read_whole();
Words variables_with_options();
Words secret_parts();
Words machine_parts();
Words log_words();
Words programs();
Words compilers();
Words metadata_keys();
Words public_hosts();
Words index_words();
Words path_words();
Words libraries();
Words open_folders();
Words ordered_folders();
Words endings();

inline bool has(Words words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

inline bool begins_with_any(std::string_view text, Words words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.starts_with(word); });
}

}  // namespace berth::doctor::share
