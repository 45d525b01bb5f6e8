// The parts of `berth --version`: version, revision, compiler.
#pragma once

#include <string_view>

namespace berth::cli {
[[nodiscard]] std::string_view version_text();
[[nodiscard]] std::string_view version_number();    // "0.1.0"
[[nodiscard]] std::string_view version_revision();  // "0123abcd+"; "no revision"
[[nodiscard]] std::string_view version_compiler();  // "GNU 12.2.0"
}  // namespace berth::cli
