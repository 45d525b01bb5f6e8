#include "broker/user_load.hpp"

#include "base/text.hpp"
#include "base/units.hpp"

namespace berth::broker {
namespace {

constexpr std::size_t kMostJobs = 150'000;
constexpr std::size_t kMostBytes = 64 << 20;

std::size_t bytes_of(const model::Job& job) {
  std::size_t sum = job.name.size() + job.on_end.size();
  for (const auto* list : {&job.after, &job.after_any, &job.after_not_ok})
    sum += list->size() * sizeof(model::JobId);
  for (const auto* words : {&job.command, &job.request.devices})
    for (const std::string& word : *words) sum += word.size();
  return sum;
}

}  // namespace

Status UserLoad::room_for(const model::Job& job, std::size_t count) const {
  const auto found = of_.find(job.uid);
  const Load has = found == of_.end() ? Load() : found->second;
  if (has.jobs + count > kMostJobs)
    return Error{ErrorCode::kRefused, "E0937",
                 text("you would have {} unfinished jobs; at most {} are allowed", has.jobs + count,
                      kMostJobs),
                 "berth jobs --mine"};
  if (has.bytes + bytes_of(job) * count > kMostBytes)
    return Error{
        ErrorCode::kRefused, "E0937",
        text("the names and commands of your unfinished jobs would take {}; at most {} is allowed",
             show_bytes(has.bytes + bytes_of(job) * count), show_bytes(kMostBytes)),
        "berth jobs --mine"};
  return Done{};
}

void UserLoad::add(const model::Job& job) {
  Load& load = of_[job.uid];
  ++load.jobs;
  load.bytes += bytes_of(job);
}

void UserLoad::remove(const model::Job& job) {
  const auto found = of_.find(job.uid);
  if (found == of_.end()) return;
  found->second.bytes -= std::min(found->second.bytes, bytes_of(job));
  if (--found->second.jobs == 0) of_.erase(found);
}

}  // namespace berth::broker
