// Prints model::Tries as part of the report, for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "model/tries.hpp"

namespace berth::output {

/// The translated words for a class: "ok", "out of memory", …
[[nodiscard]] std::string class_words(model::TryClass one);
/// Sentences about the ranks: which one failed first, and what Berth did to the others.
[[nodiscard]] std::vector<std::string> failure_sentences(const model::Tries& tries);
/// The traceback of the rank that failed first or, if it has none, its last lines. Empty if no rank
/// failed.
[[nodiscard]] std::vector<std::string> failure_lines(const model::Tries& tries, std::size_t most);
/// A table of the ranks in the last try: devices, end, time, CPU time, memory. It has at most
/// `most` rows, among them the rank that failed first. Empty if there is only one rank.
[[nodiscard]] std::vector<std::string> rank_table(const model::Tries& tries, std::size_t most);
/// Sentences about how NCCL connects the ranks, and about its warnings.
[[nodiscard]] std::vector<std::string> nccl_sentences(const model::Tries& tries);
/// A sentence about log files of ranks that do not contain the whole output; "" if there are none.
[[nodiscard]] std::string log_sentence(const model::Tries& tries);
/// The JSON value of "ranks": the ranks of the last try. null for a job without ranks.
[[nodiscard]] std::string ranks_json(const model::Tries* tries);

/// The JSON value of "tries"; null for a job without ranks and retries.
[[nodiscard]] std::string tries_json(const model::Tries* tries);
/// A sentence about several tries: "3 tries: out of memory, killed, ok"; "" if there was only one.
[[nodiscard]] std::string tries_sentence(const model::Tries& tries);

}  // namespace berth::output
