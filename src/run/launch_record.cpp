#include "run/launch_record.hpp"

#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"

namespace berth::run {
namespace {

using Json = nlohmann::json;

Error unreadable(const std::string& why) {
  return {ErrorCode::kUnavailable, "E0517",
          text("what the job is started with cannot be read: {}", printable(why)), "berth jobs"};
}

}  // namespace

std::string record_of(const Launch& launch) {
  const Credentials user = launch.user.value_or(Credentials{});
  Json json{{"umask", launch.mask.value_or(077)},
            {"uid", user.uid},
            {"gid", user.gid},
            {"groups", user.groups},
            {"cpus", launch.cpus}};
  json["command"] = json_of_words<Json>(launch.command);
  json["environment"] = json_of_words<Json>(launch.environment);
  json["places"] = json_of_words<Json>({launch.folder, launch.group, launch.job_files});
  return json.dump();
}

Result<Launch> launch_in(std::string_view record) try {
  const Json json = Json::parse(record);
  Launch launch;
  Credentials user;
  launch.command = words_in_json(json.at("command"));
  launch.environment = words_in_json(json.at("environment"));
  const auto places = words_in_json(json.at("places"));
  launch.folder = places.at(0);
  launch.group = places.at(1);
  launch.job_files = places.at(2);
  json.at("cpus").get_to(launch.cpus);
  launch.mask = json.at("umask").get<mode_t>();
  json.at("uid").get_to(user.uid);
  json.at("gid").get_to(user.gid);
  json.at("groups").get_to(user.groups);
  launch.user = std::move(user);
  if (launch.command.empty()) return unreadable("there is no command");
  return launch;
} catch (const std::exception& problem) {
  return unreadable(problem.what());
}

}  // namespace berth::run
