// What the output of a program that failed says. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/tries.hpp"

namespace berth::run {

/// The last whole traceback of Python in it, with the line of its exception; "" none.
[[nodiscard]] std::string traceback_in(std::string_view output);
/// The last lines that are not empty, at most so many; escape sequences of terminals taken out.
[[nodiscard]] std::vector<std::string> last_lines(std::string_view output, std::size_t most);
/// Whether it ends with the words of a rank that only lost another one: then it is not the cause.
[[nodiscard]] bool speaks_of_lost_peer(std::string_view output);

/// What is known of a process that has ended.
struct EndEvidence {
  std::optional<int> exit_code, signal;
  std::string_view output;      // the end of its standard error, and of its output
  std::uint64_t oom_kills = 0;  // by the kernel in its control group, while it ran
};
struct Classified {
  model::TryClass kind = model::TryClass::kOk;
  std::string evidence;  // what decided: a line of the output, a signal, a count; not translated
};
/// Why it ended. What the kernel counted decides before any text. Of the text only the exception
/// that ended it counts, or, of a program that is not Python's, its last lines.
[[nodiscard]] Classified classify(const EndEvidence& evidence);

/// Whether the exception `line` ("torch.OutOfMemoryError: …") says that memory ran out: by its
/// type, or by the text of a type that frameworks use for everything. The texts are those of
/// python/tests/oom_texts.json, and the rules those of python/berth/oom.py.
[[nodiscard]] bool speaks_of_memory(std::string_view line);

}  // namespace berth::run
