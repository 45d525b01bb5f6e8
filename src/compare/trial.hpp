// Runs the program once, through `berth run`, and reads its report.
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

/// How many bytes are kept: of the beginning of the output, for comparisons, and of the end of
/// standard error.
inline constexpr std::size_t kMostOutput = 4U << 20;
inline constexpr std::size_t kMostLastWords = 4096;

struct Trial {
  int exit_code = 0;                         // the command's exit code, as `berth run` passes it on
  std::optional<model::RunFigures> figures;  // nullopt: the command did not run
  std::optional<Error> refusal;              // why the command did not run
  std::string output;                        // the first kMostOutput bytes of its output
  std::uint64_t output_bytes = 0;
  std::string last_words;  // the end of its standard error
};

/// Reads the JSON report of `berth run`, or the error that it printed instead. Fails with E0541 if
/// it is neither.
[[nodiscard]] Result<Trial> read_report(std::string_view json);

/// Blocks SIGINT, SIGTERM and SIGHUP during its lifetime, so that a running trial can pass them on.
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

/// A folder for PYTHONPATH. A module in it runs a setting's statement after `import torch`. In the
/// statement, `torch` is the module torch and `folder` is the path of this folder.
class StatementFolder {
 public:
  /// Fails with E0540.
  [[nodiscard]] static Result<StatementFolder> make();
  StatementFolder(StatementFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  StatementFolder& operator=(StatementFolder&&) = delete;
  ~StatementFolder();
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Writes a file with this name into the folder. Fails with E0540.
  [[nodiscard]] Status add(const std::string& name, std::string_view text) const;
  /// Whether the setting's statement was executed since this function was last called.
  [[nodiscard]] bool take_applied() const;

 private:
  StatementFolder() = default;
  std::string path_;
};

/// E0544: the output is larger than kMostOutput.
[[nodiscard]] Error too_large();

/// The file into which the compared program writes its result.
class ResultFile {
 public:
  /// Records the file's state before a run.
  explicit ResultFile(std::string path);
  /// The content; nullopt: the run did not write the file. Fails with E0544, E0110 or E0111 (it
  /// cannot be read).
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

/// Runs the program once, with empty standard input. If this process dies, the run ends too. If a
/// signal arrives, the run ends and this process dies of the same signal. `folder` is needed for a
/// setting with a statement. `options`: additional options of `berth run`. Fails with E0540 (the
/// run cannot be started) and E0541.
[[nodiscard]] Result<Trial> run_once(const model::RunSetting& setting,
                                     const std::vector<std::string>& command,
                                     const StatementFolder* folder, const HeldSignals& signals,
                                     std::vector<std::string> options = {});

/// The number of threads according to `berth run --dry-run`, or why the setting cannot run here.
[[nodiscard]] Result<int> threads_if_possible(const model::RunSetting& setting,
                                              const std::vector<std::string>& command,
                                              const HeldSignals& signals);

}  // namespace berth::compare
