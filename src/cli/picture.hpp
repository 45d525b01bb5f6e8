// The file of --svg.
#pragma once

#include <string_view>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "cli/verb.hpp"

namespace berth::cli {

/// Opens the file before the work, so that a wrong name is reported before hours of it. Without
/// --svg, the descriptor is empty. Fails with kUnavailable (E0547).
[[nodiscard]] Result<Descriptor> open_picture(const Arguments& arguments);
/// Does nothing if the descriptor is empty. Fails with kUnavailable (E0547).
[[nodiscard]] Status write_picture(const Arguments& arguments, const Descriptor& file,
                                   std::string_view svg);

}  // namespace berth::cli
