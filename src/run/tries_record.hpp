// model::Tries as bytes, from the supervisor to the front. They share an unnamed file, so no folder
// is needed.
#pragma once

#include <string>

#include "base/descriptor.hpp"
#include "model/tries.hpp"

namespace berth::run {

[[nodiscard]] Descriptor make_record();  // -1 with errno
/// Replaces the previous content.
void write_record(const Descriptor& record, const model::Tries& tries);
/// Converts tries to the bytes that write_record() writes, and back. Empty if the bytes are not
/// such a record.
[[nodiscard]] std::string record_of(const model::Tries& tries);
[[nodiscard]] model::Tries tries_in(const std::string& record);
/// Empty, without a try, if nothing was written.
[[nodiscard]] model::Tries read_record(const Descriptor& record);

}  // namespace berth::run
