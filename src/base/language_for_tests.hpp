// Sets the language during the lifetime of this object.
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
