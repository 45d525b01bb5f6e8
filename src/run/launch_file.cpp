#include "run/launch_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"

namespace berth::run {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostLaunchBytes = 4U << 20U;

Error unusable(const std::string& path, const std::string& why) {
  return {ErrorCode::kUnavailable, "E0517",
          text("the job's file {} cannot be used: {}", printable(path), why),
          "df -h " + printable(path)};
}

bool write_new(const std::string& path, std::string_view bytes) {
  const Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return false;
  while (!bytes.empty()) {
    const ssize_t n = ::write(file.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

Status write_launch(const std::string& job_folder, const Launch& launch) {
  const Credentials user = launch.user.value_or(Credentials{});
  Json json{{"umask", *launch.mask}, {"uid", user.uid}, {"gid", user.gid}, {"groups", user.groups}};
  json["command"] = json_of_words<Json>(launch.command);
  json["environment"] = json_of_words<Json>(launch.environment);
  json["folder"] = json_of_words<Json>({launch.folder});
  const std::string path = job_folder + "/launch";
  if (!write_new(path, json.dump())) return unusable(path, ::strerrordesc_np(errno));
  return Done{};
}

Result<Launch> read_launch(const std::string& job_folder) try {
  const std::string path = job_folder + "/launch";
  const auto bytes = slurp(path, kMostLaunchBytes);
  if (!bytes) return unusable(path, text("it cannot be read"));
  const Json json = Json::parse(*bytes);
  Launch launch;
  Credentials user;
  launch.command = words_in_json(json.at("command"));
  launch.environment = words_in_json(json.at("environment"));
  launch.folder = words_in_json(json.at("folder")).at(0);
  launch.mask = json.at("umask").get<mode_t>();
  json.at("uid").get_to(user.uid);
  json.at("gid").get_to(user.gid);
  json.at("groups").get_to(user.groups);
  launch.user = std::move(user);
  if (launch.command.empty()) return unusable(path, text("it has no command"));
  return launch;
} catch (const Json::exception& problem) {
  return unusable(job_folder + "/launch", printable(problem.what()));
}

std::string message_of(const Start& start) {
  std::vector<std::string> words{start.job_folder, start.launch_folder, start.group};
  Json json{{"cpus", start.cpus}, {"unset", start.unset}};
  json["folders"] = json_of_words<Json>(words);
  words.clear();
  for (const auto& [name, value] : start.set) words.push_back(name + "=" + value);
  json["set"] = json_of_words<Json>(words);
  return json.dump();
}

Result<Start> start_in(std::string_view message) try {
  const Json json = Json::parse(message);
  const auto folders = words_in_json(json.at("folders"));
  Start start{folders.at(0), folders.at(1), {}, {}, {}, folders.at(2)};
  for (const std::string& one : words_in_json(json.at("set")))
    start.set[one.substr(0, one.find('='))] = one.substr(one.find('=') + 1);
  json.at("unset").get_to(start.unset);
  json.at("cpus").get_to(start.cpus);
  return start;
} catch (const std::exception& problem) {
  return unusable("launch", printable(problem.what()));
}

void add(const Start& start, Launch& launch) {
  std::erase_if(launch.environment, [&](const std::string& one) {
    const std::string name = one.substr(0, one.find('='));
    return start.set.contains(name) ||
           std::find(start.unset.begin(), start.unset.end(), name) != start.unset.end();
  });
  for (const auto& [name, value] : start.set) launch.environment.push_back(name + "=" + value);
  launch.cpus = start.cpus;
  launch.group = start.group;
}

}  // namespace berth::run
