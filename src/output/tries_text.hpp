// Prints model::Tries for people and programs, as part of the report.
#pragma once

#include <string>
#include <vector>

#include "model/tries.hpp"

namespace berth::output {

/// The class in words: "ok", "out of memory", …, translated.
[[nodiscard]] std::string class_words(model::TryClass one);
/// Sentences about the ranks: which one failed first, and what Berth did to the others.
[[nodiscard]] std::vector<std::string> failure_sentences(const model::Tries& tries);
/// The traceback of the rank that failed first, or else its last lines. Empty if no rank failed.
[[nodiscard]] std::vector<std::string> failure_lines(const model::Tries& tries, std::size_t most);
/// A table of the last try's ranks: devices, end, time, CPU time, memory. It has at most `most`
/// rows, and always includes the rank that failed first. Empty for a single rank.
[[nodiscard]] std::vector<std::string> rank_table(const model::Tries& tries, std::size_t most);
/// Sentences about how NCCL connects the ranks, and about its warnings.
[[nodiscard]] std::vector<std::string> nccl_sentences(const model::Tries& tries);
/// A sentence that says that logs of ranks leave out a part of the output; "" if none does.
[[nodiscard]] std::string log_sentence(const model::Tries& tries);
/// The value of "ranks" in JSON: those of the last try; null for a job without ranks.
[[nodiscard]] std::string ranks_json(const model::Tries* tries);

/// The value of "tries" in JSON; null for a job without ranks and retries.
[[nodiscard]] std::string tries_json(const model::Tries* tries);
/// A sentence about several tries: "3 tries: out of memory, killed, ok"; "" if there was only one.
[[nodiscard]] std::string tries_sentence(const model::Tries& tries);

}  // namespace berth::output
