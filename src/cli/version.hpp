// The parts of `berth --version`: version, revision, compiler.
#pragma once

#include <string_view>

namespace berth::cli {
[[nodiscard]] std::string_view version_text();
[[nodiscard]] std::string_view version_number();  // "0.1.0"
// the git revision, such as "0123abcd+" ("+" means modified), or "no revision"
[[nodiscard]] std::string_view version_revision();
[[nodiscard]] std::string_view version_compiler();  // the compiler, such as "GNU 12.2.0"
}  // namespace berth::cli
