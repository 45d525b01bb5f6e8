// model::Tries as bytes, from the supervisor to the front. They share an unnamed file, so no folder
// is needed.
#pragma once

#include "base/descriptor.hpp"
#include "model/tries.hpp"

namespace berth::run {

[[nodiscard]] Descriptor make_record();  // -1 with errno
/// Replaces the previous content.
void write_record(const Descriptor& record, const model::Tries& tries);
/// Empty, without a try, if nothing was written.
[[nodiscard]] model::Tries read_record(const Descriptor& record);

}  // namespace berth::run
