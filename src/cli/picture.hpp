// The file of --svg.
#pragma once

#include <string_view>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "cli/verb.hpp"

namespace berth::cli {

/// Opens the file before the measurements, so that a wrong name is reported at once and not after
/// hours. Without --svg, the descriptor is empty. Fails with kUnavailable (E0547).
[[nodiscard]] Result<Descriptor> open_picture(const Arguments& arguments);
/// Writes the picture. Does nothing if the descriptor is empty. Fails with kUnavailable (E0547).
[[nodiscard]] Status write_picture(const Arguments& arguments, const Descriptor& file,
                                   std::string_view svg);

}  // namespace berth::cli
