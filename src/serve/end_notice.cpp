#include "serve/end_notice.hpp"

#include <algorithm>
#include <string>

#include "base/text.hpp"
#include "output/jobs_text.hpp"
#include "system/terminals.hpp"

namespace berth::serve {

void tell_of_end(const model::Job& job) {
  const std::string number = model::job_number(job);
  const std::string what = job.name.empty() ? number : fmt::format("{} ({})", number, job.name);
  const std::string sentence = text("berth: job {} ended: {}", what, output::ending_words(job));
  auto terminals = system::terminals_of({}, system::kUtmp, 0, job.user);
  if (std::find(terminals.begin(), terminals.end(), job.terminal) == terminals.end())
    terminals.push_back(job.terminal);
  for (const std::string& one : terminals)
    if (!one.empty()) static_cast<void>(system::tell_terminal(one, job.uid, sentence));
}

}  // namespace berth::serve
