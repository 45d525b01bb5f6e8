// Finds functions in ELF files by their symbols. The files may be damaged, or made to waste time,
// so the work on one file is limited.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace berth::run {

/// For each file offset, the function of the ELF file that contains it; "" if none does.
[[nodiscard]] std::vector<std::string> functions_at(const std::string& path,
                                                    const std::vector<std::uint64_t>& offsets);

/// Demangles a symbol: "_ZN4c10d4Gloo9allreduceEv" becomes "c10d::Gloo::allreduce". Names with
/// templates or abbreviations stay unchanged, because a complete demangler can be made to write
/// gigabytes.
[[nodiscard]] std::string plain_name(std::string_view symbol);

}  // namespace berth::run
