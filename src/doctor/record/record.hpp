// Writes a bundle: everything that was read from a machine, except private data.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "doctor/read/collect.hpp"

namespace berth::doctor {

/// Reads everything in `sources` and writes it to `path`: one file if the name ends in ".machine",
/// otherwise a folder (record_files.hpp). Returns one sentence for each kind of data that was
/// omitted or replaced. Fails with E0804.
[[nodiscard]] Result<std::vector<std::string>> record(Sources& sources, const std::string& path);

}  // namespace berth::doctor
