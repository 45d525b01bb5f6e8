// Runs the program once with `berth run`, and reads the report of the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "model/comparison.hpp"

namespace berth::compare {

/// The number of bytes to keep from the beginning of the output (to compare it), and from the end
/// of standard error.
inline constexpr std::size_t kMostOutput = 4U << 20;
inline constexpr std::size_t kMostLastWords = 4096;

struct Trial {
  int exit_code = 0;                         // the command's exit code, as `berth run` passes it on
  std::optional<model::RunFigures> figures;  // nullopt if the command did not run
  std::optional<Error> refusal;              // why the command did not run
  std::string output;  // the first kMostOutput bytes of the command's standard output
  std::uint64_t output_bytes = 0;
  std::string last_words;  // the end of the command's standard error
};

/// Reads the JSON that `berth run` wrote: a report, or an error. Fails with E0541 if it is neither.
[[nodiscard]] Result<Trial> read_report(std::string_view json);

/// Blocks SIGINT, SIGTERM and SIGHUP during its lifetime. A running trial reads these signals and
/// passes them on.
class HeldSignals {
 public:
  HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals();
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

/// A folder for PYTHONPATH with a module that runs a setting's statement after `import torch`. The
/// statement can use `torch` (the module) and `folder` (the path of this folder).
class StatementFolder {
 public:
  /// Creates the folder. Fails with E0540.
  [[nodiscard]] static Result<StatementFolder> make();
  StatementFolder(StatementFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  StatementFolder& operator=(StatementFolder&&) = delete;
  ~StatementFolder();
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Writes a file with this name into the folder. Fails with E0540.
  [[nodiscard]] Status add(const std::string& name, std::string_view text) const;
  /// Whether the statement was executed since the last call of this function.
  [[nodiscard]] bool take_applied() const;

 private:
  StatementFolder() = default;
  std::string path_;
};

/// The error E0544: the output is larger than kMostOutput.
[[nodiscard]] Error too_large();

/// The file into which the compared program writes its results.
class ResultFile {
 public:
  /// Records the state of the file before a run, to detect whether the run writes it.
  explicit ResultFile(std::string path);
  /// The content of the file; nullopt if the run did not write it. Fails with E0544, or with E0110
  /// or E0111 if it cannot be read.
  [[nodiscard]] Result<std::optional<std::string>> read_if_written() const;

 private:
  struct Stamp {
    std::uint64_t inode = 0;
    std::int64_t size = -1, seconds = 0, nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };
  [[nodiscard]] Stamp stamp() const;
  std::string path_;
  Stamp before_;
};

/// Runs the program once, with empty standard input. The run ends if this process dies. If a signal
/// arrives, the run ends, and then this process dies of the same signal. `folder` is needed if the
/// setting has a statement. `options` are more options of `berth run`. Fails with E0540 (the run
/// cannot be started) and E0541.
[[nodiscard]] Result<Trial> run_once(const model::RunSetting& setting,
                                     const std::vector<std::string>& command,
                                     const StatementFolder* folder, const HeldSignals& signals,
                                     std::vector<std::string> options = {});

/// The number of threads that `berth run --dry-run` reports for the setting. Fails with the reason
/// if the setting cannot run here.
[[nodiscard]] Result<int> threads_if_possible(const model::RunSetting& setting,
                                              const std::vector<std::string>& command,
                                              const HeldSignals& signals);

}  // namespace berth::compare
