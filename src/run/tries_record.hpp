// model::Tries as bytes. The supervisor passes them to the front (`berth run`) in an unnamed file,
// which needs no folder.
#pragma once

#include <string>

#include "base/descriptor.hpp"
#include "model/tries.hpp"

namespace berth::run {

// Creates the unnamed file. Returns -1 with errno if that fails.
[[nodiscard]] Descriptor make_record();
/// Replaces the content of the file.
void write_record(const Descriptor& record, const model::Tries& tries);
/// Converts tries to the bytes that write_record() writes, and back. Empty if the bytes are not
/// such a record.
[[nodiscard]] std::string record_of(const model::Tries& tries);
[[nodiscard]] model::Tries tries_in(const std::string& record);
/// Reads the tries. The result contains no try if nothing was written.
[[nodiscard]] model::Tries read_record(const Descriptor& record);

}  // namespace berth::run
