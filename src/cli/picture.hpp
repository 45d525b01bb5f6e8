// The file that --svg names: an SVG, or a PNG if its name ends with .png. The program rsvg-convert
// makes the PNG.
#pragma once

#include <string_view>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "cli/verb.hpp"

namespace berth::cli {

/// Opens the file before the measurements, so that a wrong name is reported before hours of work.
/// Without --svg, the descriptor is empty. Fails with kUnavailable (E0547; E1097: a PNG needs
/// rsvg-convert, which is not installed).
[[nodiscard]] Result<Descriptor> open_picture(const Arguments& arguments);
/// Writes the picture. Does nothing if the descriptor is empty. Fails with kUnavailable (E0547;
/// E1097: rsvg-convert failed).
[[nodiscard]] Status write_picture(const Arguments& arguments, const Descriptor& file,
                                   std::string_view svg);

}  // namespace berth::cli
