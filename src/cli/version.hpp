// What `berth --version` prints: version, revision, compiler.
#pragma once

#include <string_view>

namespace berth::cli {
[[nodiscard]] std::string_view version_text();
[[nodiscard]] std::string_view version_number();  // "0.1.0"
}  // namespace berth::cli
