// A language for as long as a test's object lives.
#pragma once

#include "base/text.hpp"

namespace berth {

struct InLanguage {
  explicit InLanguage(Language wanted) { set_language(wanted); }
  ~InLanguage() { set_language(Language::kEnglish); }
  InLanguage(const InLanguage&) = delete;
  InLanguage& operator=(const InLanguage&) = delete;
};

}  // namespace berth
