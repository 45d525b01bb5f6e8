#include "run/failure.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

#include "base/file.hpp"

namespace berth::run {
namespace {

constexpr std::size_t kLongestLine = 2000;

/// Removes carriage returns and escape sequences ("\x1b[31m").
std::string plain(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (const auto at = line.rfind('\r'); at != std::string_view::npos) line.remove_prefix(at + 1);
  std::string out;
  for (std::size_t i = 0; i < line.size() && out.size() < kLongestLine; ++i) {
    const char c = line[i];
    if (c == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      i += 2;
      while (i < line.size() && (line[i] < '@' || line[i] > '~')) ++i;
    } else if (static_cast<unsigned char>(c) >= ' ' || c == '\t') {
      out += c;
    }
  }
  return out;
}

std::vector<std::string> lines_of(std::string_view output) {
  std::vector<std::string> lines;
  for (const std::string_view line : split(output, '\n')) lines.push_back(plain(line));
  return lines;
}

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t") == std::string::npos;
}

}  // namespace

std::string traceback_in(std::string_view output) {
  constexpr std::string_view kBegin = "Traceback (most recent call last):";
  const auto lines = lines_of(output);
  std::size_t begin = lines.size();
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (lines[i].ends_with(kBegin)) begin = i;
  if (begin == lines.size()) return {};
  std::string out{kBegin};
  for (std::size_t i = begin + 1; i < lines.size(); ++i) {
    const bool is_frame = lines[i].starts_with("  ");
    out += "\n" + lines[i];
    // The first line without indentation is the exception's line. It ends the traceback.
    if (!is_frame && !is_blank(lines[i])) break;
  }
  while (out.ends_with('\n')) out.pop_back();
  return out;
}

std::vector<std::string> last_lines(std::string_view output, std::size_t most) {
  std::vector<std::string> out;
  for (std::string& line : lines_of(output))
    if (!is_blank(line)) out.push_back(std::move(line));
  if (out.size() > most) out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(most));
  return out;
}

bool mentions_lost_peer(std::string_view output) {
  static constexpr std::array<std::string_view, 10> kWords{"Connection closed by peer",
                                                           "Connection reset by peer",
                                                           "Broken pipe",
                                                           "remote process exited",
                                                           "ncclRemoteError",
                                                           "ncclSystemError",
                                                           "Connection was likely closed",
                                                           "failed to recv, got 0 bytes",
                                                           "recvValue failed",
                                                           "Socket Timeout"};
  const auto lines = last_lines(output, 12);
  return std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view words) {
      return line.find(words) != std::string::npos;
    });
  });
}

namespace {

/// The exception that ended a Python program: the line that begins with its type, and the lines
/// that continue it. "" if there is none.
std::string exception_in(std::string_view output) {
  constexpr std::size_t kMostLines = 20;
  const std::string trace = traceback_in(output);
  const auto line = trace.rfind('\n');
  if (line == std::string::npos) return {};
  const std::string first = trace.substr(line + 1);
  const auto lines = lines_of(output);
  const auto found = std::find(lines.rbegin(), lines.rend(), first);
  std::string all;
  std::size_t taken = 0;
  for (auto at = found.base() - (found == lines.rend() ? 0 : 1);
       at != lines.end() && taken++ < kMostLines; ++at)
    all += (all.empty() ? "" : "\n") + *at;
  return all.empty() ? first : all;
}

bool holds_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view one) {
    return text.find(one) != std::string_view::npos;
  });
}

/// Faults of hardware, driver or network, which may not occur again after a restart. An illegal
/// address and a failed assertion in a kernel are not among them: they are errors of the program.
bool is_device_fault_line(std::string_view line) {
  return holds_any(line, {"uncorrectable ECC error", "CUDA_ERROR_ECC_UNCORRECTABLE", "GPU is lost",
                          "has fallen off the bus", "NVLink error", "CUDA error: unknown error",
                          "hardware stack error", "_RESULT_ERROR_DEVICE_LOST",
                          "cudaErrorECCUncorrectable", "cudaErrorDevicesUnavailable",
                          "all CUDA-capable devices are busy", "NCCL error in:", "ncclRemoteError",
                          "ncclSystemError", "ncclUnhandledCudaError", "ncclInternalError"});
}

bool is_fault_of_program(int signal) {
  return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGILL ||
         signal == SIGFPE || signal == SIGSYS || signal == SIGTRAP;
}

std::string signal_words(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

/// Classifies by the output; kUserError if no other class matches.
Classified by_words(const EndEvidence& evidence) {
  using model::TryClass;
  const std::string exception = exception_in(evidence.output);
  if (!exception.empty()) {
    const std::string line = exception.substr(0, exception.find('\n'));
    if (is_out_of_memory_line(exception)) return {TryClass::kOutOfMemory, line};
    return {is_device_fault_line(exception) ? TryClass::kDeviceFault : TryClass::kUserError, line};
  }
  constexpr std::size_t kLines = 4;
  const auto lines = last_lines(evidence.output, kLines);
  for (const std::string& line : lines) {
    if (holds_any(line, {"what():  std::bad_alloc", "an instance of 'std::bad_alloc'"}) ||
        is_out_of_memory_line("RuntimeError: " + line))
      return {TryClass::kOutOfMemory, line};
    if (is_device_fault_line(line)) return {TryClass::kDeviceFault, line};
  }
  return {TryClass::kUserError, lines.empty() ? "" : lines.back()};
}

}  // namespace

Classified classify(const EndEvidence& evidence) {
  using model::TryClass;
  constexpr int kKilledCode = 128 + SIGKILL;  // exit code of a shell whose child was killed
  const bool was_killed = evidence.signal == SIGKILL || evidence.exit_code == kKilledCode;
  if (!evidence.signal && evidence.exit_code.value_or(0) == 0) return {};
  if (was_killed && evidence.oom_kills > 0)
    return {TryClass::kOutOfMemory,
            "SIGKILL, oom_kill " + std::to_string(evidence.oom_kills) + " in the control group"};
  if (was_killed) return {TryClass::kKilled, "SIGKILL"};
  if (evidence.signal && !is_fault_of_program(*evidence.signal))
    return {TryClass::kKilled, signal_words(*evidence.signal)};
  Classified found = by_words(evidence);
  if (found.evidence.empty() || (found.kind == TryClass::kUserError && evidence.signal))
    found.evidence = evidence.signal ? signal_words(*evidence.signal)
                                     : "exit code " + std::to_string(*evidence.exit_code);
  return found;
}

}  // namespace berth::run
