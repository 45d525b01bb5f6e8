// Classifies the output of a failed program. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/tries.hpp"

namespace berth::run {

/// The last complete Python traceback, with the line of its exception; "" if there is none.
[[nodiscard]] std::string traceback_in(std::string_view output);
/// The last non-empty lines, at most `most`, without terminal escape sequences.
[[nodiscard]] std::vector<std::string> last_lines(std::string_view output, std::size_t most);
/// Whether the output ends with the error of a rank that lost its connection to another rank. Such
/// a rank is not the cause.
[[nodiscard]] bool mentions_lost_peer(std::string_view output);

/// What is known about an ended process.
struct EndEvidence {
  std::optional<int> exit_code, signal;
  std::string_view output;  // the end of its standard error and standard output
  std::uint64_t oom_kills =
      0;  // how many processes the kernel's OOM killer ended in its control group while it ran
};
struct Classified {
  model::TryClass kind = model::TryClass::kOk;
  std::string evidence;  // the deciding output line, signal or count; not translated
};
/// Why the program ended. The kernel's counts take precedence over any text. In the text, only the
/// exception that ended a Python program counts, or the last lines of another program.
[[nodiscard]] Classified classify(const EndEvidence& evidence);

/// Whether the exception `line` ("torch.OutOfMemoryError: …") means that memory ran out: by its
/// type, or by its text if frameworks use the type for all errors. Examples are in
/// python/tests/oom_texts.json; python/berth/oom.py has the same rules.
[[nodiscard]] bool is_out_of_memory_line(std::string_view line);

}  // namespace berth::run
