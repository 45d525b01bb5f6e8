// Parses /etc/ld.so.cache, which maps library names to files. Supports glibc's format 1.1, alone or
// after a table in the older format.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace berth::doctor {

/// For each library name, the files for 64-bit programs of this CPU architecture, in the loader's
/// order.
using LoaderCache = std::map<std::string, std::vector<std::string>, std::less<>>;

/// Malformed entries are ignored.
[[nodiscard]] LoaderCache parse_loader_cache(std::string_view bytes);

}  // namespace berth::doctor
