// /etc/ld.so.cache: which file the system's folders have for a name. glibc's format 1.1, alone or
// behind the old one.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace berth::doctor {

/// Name → files for 64-bit programs of this machine, in the order in which the loader takes them.
using LoaderCache = std::map<std::string, std::vector<std::string>, std::less<>>;

/// What is malformed is left out.
[[nodiscard]] LoaderCache parse_loader_cache(std::string_view bytes);

}  // namespace berth::doctor
