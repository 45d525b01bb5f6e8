#include "run/tries_record.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.hpp"

namespace berth::run {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

Json json_of(const model::RankEnd& one) {
  return {{"rank", one.rank},
          {"pid", one.pid},
          {"part", static_cast<int>(one.part)},
          {"exit_code", one.exit_code.value_or(-1)},
          {"signal", one.signal.value_or(-1)},
          {"wall", one.wall.count()},
          {"cpu", one.cpu.count()},
          {"peak", one.peak_rss_bytes},
          {"devices", one.devices},
          {"cpus", one.cpus},
          {"threads", one.threads},
          {"last_lines", one.last_lines},
          {"traceback", one.traceback},
          {"log", one.log},
          {"log_left_out", one.log_left_out_bytes}};
}

std::optional<int> unless_negative(int value) {
  return value < 0 ? std::nullopt : std::optional(value);
}

model::RankEnd rank_of(const Json& json) {
  model::RankEnd one;
  json.at("rank").get_to(one.rank);
  json.at("pid").get_to(one.pid);
  one.part = static_cast<model::RankPart>(json.at("part").get<int>());
  one.exit_code = unless_negative(json.at("exit_code").get<int>());
  one.signal = unless_negative(json.at("signal").get<int>());
  one.wall = milliseconds(json.at("wall").get<std::int64_t>());
  one.cpu = milliseconds(json.at("cpu").get<std::int64_t>());
  json.at("peak").get_to(one.peak_rss_bytes);
  json.at("devices").get_to(one.devices);
  json.at("cpus").get_to(one.cpus);
  json.at("threads").get_to(one.threads);
  json.at("last_lines").get_to(one.last_lines);
  json.at("traceback").get_to(one.traceback);
  json.at("log").get_to(one.log);
  json.at("log_left_out").get_to(one.log_left_out_bytes);
  return one;
}

Json json_of(const std::optional<model::Collective>& one) {
  if (!one) return nullptr;
  return {one->name, one->group, one->number, one->state};
}

std::optional<model::Collective> collective_of(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return model::Collective{json.at(0).get<std::string>(), json.at(1).get<std::string>(),
                           json.at(2).get<std::int64_t>(), json.at(3).get<std::string>()};
}

Json json_of(const model::HangSeen& hang) {
  Json ranks = Json::array();
  for (const auto& one : hang.ranks)
    ranks.push_back({{"rank", one.rank},
                     {"waits_in", one.waits_in},
                     {"stack", one.stack},
                     {"where", one.where},
                     {"ended", one.has_ended},
                     {"native", one.native},
                     {"collective", json_of(one.collective)}});
  return {
      {"after", hang.after.count()}, {"silent", hang.silent.count()},    {"odd", hang.odd_ranks},
      {"slow", hang.is_slow},        {"connecting", hang.is_connecting}, {"over", hang.is_over},
      {"ranks", std::move(ranks)}};
}

model::HangSeen hang_of(const Json& json) {
  model::HangSeen hang;
  hang.after = milliseconds(json.at("after").get<std::int64_t>());
  hang.silent = milliseconds(json.at("silent").get<std::int64_t>());
  json.at("odd").get_to(hang.odd_ranks);
  json.at("slow").get_to(hang.is_slow);
  json.at("connecting").get_to(hang.is_connecting);
  json.at("over").get_to(hang.is_over);
  for (const Json& one : json.at("ranks"))
    hang.ranks.push_back({one.at("rank").get<int>(), one.at("waits_in").get<std::string>(),
                          one.at("stack").get<std::string>(), one.at("where").get<std::string>(),
                          one.at("ended").get<bool>(), one.at("native").get<std::string>(),
                          collective_of(one.at("collective"))});
  return hang;
}

Json json_of(const model::NcclSeen& nccl) {
  Json links = Json::array();
  for (const auto& one : nccl.links)
    links.push_back({one.from, one.to, one.transport, one.channels});
  return {{"version", nccl.version},
          {"network", nccl.network},
          {"communicators", nccl.communicators},
          {"links", std::move(links)},
          {"warnings", nccl.warnings},
          {"more", nccl.more_warnings}};
}

model::NcclSeen nccl_of(const Json& json) {
  model::NcclSeen nccl;
  json.at("version").get_to(nccl.version);
  json.at("network").get_to(nccl.network);
  json.at("communicators").get_to(nccl.communicators);
  for (const Json& one : json.at("links"))
    nccl.links.push_back({one.at(0).get<int>(), one.at(1).get<int>(), one.at(2).get<std::string>(),
                          one.at(3).get<int>()});
  json.at("warnings").get_to(nccl.warnings);
  json.at("more").get_to(nccl.more_warnings);
  return nccl;
}

Json json_of(const model::Try& one) {
  Json ranks = Json::array();
  for (const auto& rank : one.ranks) ranks.push_back(json_of(rank));
  Json hangs = Json::array();
  for (const auto& hang : one.hangs) hangs.push_back(json_of(hang));
  return {{"number", one.number},
          {"kind", static_cast<int>(one.kind)},
          {"evidence", one.evidence},
          {"exit_code", one.exit_code.value_or(-1)},
          {"signal", one.signal.value_or(-1)},
          {"wall", one.wall.count()},
          {"waited", one.waited.count()},
          {"change", static_cast<int>(one.change)},
          {"batch_scale", one.batch_scale},
          {"world_size", one.world_size},
          {"lost_devices", one.lost_devices},
          {"ranks", std::move(ranks)},
          {"hangs", std::move(hangs)},
          {"nccl", one.nccl ? json_of(*one.nccl) : Json(nullptr)},
          {"left_early", one.left_early}};
}

model::Try try_of(const Json& json) {
  model::Try one;
  json.at("number").get_to(one.number);
  one.kind = static_cast<model::TryClass>(json.at("kind").get<int>());
  json.at("evidence").get_to(one.evidence);
  one.exit_code = unless_negative(json.at("exit_code").get<int>());
  one.signal = unless_negative(json.at("signal").get<int>());
  one.wall = milliseconds(json.at("wall").get<std::int64_t>());
  one.waited = milliseconds(json.at("waited").get<std::int64_t>());
  one.change = static_cast<model::TryChange>(json.at("change").get<int>());
  json.at("batch_scale").get_to(one.batch_scale);
  json.at("world_size").get_to(one.world_size);
  json.at("lost_devices").get_to(one.lost_devices);
  for (const Json& rank : json.at("ranks")) one.ranks.push_back(rank_of(rank));
  for (const Json& hang : json.at("hangs")) one.hangs.push_back(hang_of(hang));
  if (const Json& nccl = json.at("nccl"); !nccl.is_null()) one.nccl = nccl_of(nccl);
  json.at("left_early").get_to(one.left_early);
  return one;
}

Json json_of(const model::Preflight& one) {
  return {{"state", static_cast<int>(one.state)},
          {"backend", one.backend},
          {"step", one.step},
          {"why", one.why},
          {"took", one.took.count()}};
}

model::Preflight preflight_of(const Json& json) {
  model::Preflight one;
  one.state = static_cast<model::Preflight::State>(json.at("state").get<int>());
  json.at("backend").get_to(one.backend);
  json.at("step").get_to(one.step);
  json.at("why").get_to(one.why);
  one.took = milliseconds(json.at("took").get<std::int64_t>());
  return one;
}

}  // namespace

Descriptor make_record() {
  return Descriptor(::memfd_create("berth-tries", MFD_CLOEXEC));
}

std::string record_of(const model::Tries& tries) {
  Json all = Json::array();
  for (const auto& one : tries.all) all.push_back(json_of(one));
  const Json json{{"has_ranks", tries.has_ranks},
                  {"world_size", tries.world_size},
                  {"most_tries", tries.most_tries},
                  {"master", tries.master},
                  {"preflight", tries.preflight ? json_of(*tries.preflight) : Json(nullptr)},
                  {"all", std::move(all)}};
  // Program output is arbitrary bytes, but JSON must be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void write_record(const Descriptor& record, const model::Tries& tries) {
  const std::string bytes = record_of(tries);
  if (!record || ::ftruncate(record.get(), 0) != 0) return;
  [[maybe_unused]] const ssize_t n = ::pwrite(record.get(), bytes.data(), bytes.size(), 0);
}

model::Tries read_record(const Descriptor& record) {
  struct stat about = {};
  if (!record || ::fstat(record.get(), &about) != 0 || about.st_size == 0) return {};
  std::string bytes(static_cast<std::size_t>(about.st_size), '\0');
  if (::pread(record.get(), bytes.data(), bytes.size(), 0) != about.st_size) return {};
  return tries_in(bytes);
}

model::Tries tries_in(const std::string& record) try {
  const Json json = Json::parse(record);
  model::Tries tries;
  json.at("has_ranks").get_to(tries.has_ranks);
  json.at("world_size").get_to(tries.world_size);
  json.at("most_tries").get_to(tries.most_tries);
  json.at("master").get_to(tries.master);
  if (const Json& preflight = json.at("preflight"); !preflight.is_null())
    tries.preflight = preflight_of(preflight);
  for (const Json& one : json.at("all")) tries.all.push_back(try_of(one));
  return tries;
} catch (const Json::exception&) {  // the writer was killed while writing
  return {};
}

}  // namespace berth::run
