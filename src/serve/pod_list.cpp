#include "serve/pod_list.hpp"

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "base/json.hpp"
#include "base/json_value.hpp"
#include "system/child_run.hpp"

namespace berth::serve {
namespace {

constexpr std::chrono::seconds kPause(10), kLongest(8);
constexpr std::size_t kMostBytes = 4 << 20;

bool is_socket(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

}  // namespace

std::vector<watch::DevicePod> device_pods(const std::string& json) {
  const auto document = nlohmann::json::parse(json, nullptr, false);
  std::vector<watch::DevicePod> pods;
  const auto& list = json_member(document, "pods");
  if (!list.is_array()) return pods;
  for (const auto& one : list)
    pods.push_back({json_text(one, "device"), json_text(one, "namespace"), json_text(one, "pod"),
                    json_text(one, "container")});
  return pods;
}

PodList::PodList(std::string kubelet, Changed changed)
    : kubelet_(std::move(kubelet)), changed_(std::move(changed)) {
  std::error_code problem;
  program_ = std::filesystem::read_symlink("/proc/self/exe", problem).parent_path().string() +
             "/berth-k8s";
  if (std::filesystem::exists(kubelet_, problem) && std::filesystem::exists(program_, problem))
    thread_ = std::thread([this] { work(); });
}

PodList::~PodList() {
  {
    const std::scoped_lock hold(mutex_);
    is_over_ = true;
  }
  ending_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PodList::work() {
  std::vector<watch::DevicePod> before;
  while (!is_over_) {
    std::vector<watch::DevicePod> now;
    if (is_socket(kubelet_ + "/pod-resources/kubelet.sock"))
      now = device_pods(system::run_child({.program = program_,
                                           .words = {"berth-k8s", "pods", "--kubelet", kubelet_},
                                           .longest = kLongest,
                                           .most_bytes = kMostBytes},
                                          is_over_)
                            .output);
    if (now != before) changed_(now);
    before = std::move(now);
    std::unique_lock hold(mutex_);
    ending_.wait_for(hold, kPause, [this] { return is_over_.load(); });
  }
}

}  // namespace berth::serve
