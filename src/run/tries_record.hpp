// model::Tries as bytes, from the supervisor to the front: through a file of no name that both
// have, so that it needs no folder.
#pragma once

#include "base/descriptor.hpp"
#include "model/tries.hpp"

namespace berth::run {

[[nodiscard]] Descriptor make_record();  // -1 with errno
/// Replaces what is there.
void write_record(const Descriptor& record, const model::Tries& tries);
/// Nothing (no try) where nothing was written.
[[nodiscard]] model::Tries read_record(const Descriptor& record);

}  // namespace berth::run
