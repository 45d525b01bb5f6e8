#include "kubelet/former_name.hpp"

#include "base/digest.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/write_file.hpp"
#include "engines/kube_claim.hpp"
#include "kubelet/log.hpp"

namespace berth::kubelet {

std::string slices_of_node(const std::string& node) {
  return std::string(kSlices) + "?fieldSelector=" +
         percent_encoded("spec.nodeName=" + node + ",spec.driver=" + engines::kDraDriver);
}

Result<NodeFacts> read_node(const ApiClient& api, const std::string& node) {
  const auto answer = api.call("GET", "/api/v1/nodes/" + percent_encoded(node));
  if (!answer) return answer.error();
  if (answer->status == 404)
    return Error{ErrorCode::kNotFound, "E1076",
                 text("the cluster has no node {}: it was removed or renamed", node),
                 "kubectl get nodes"};
  if (answer->status != 200) return refused("Node", *answer, "kubectl get nodes");
  const auto json = nlohmann::json::parse(answer->body, nullptr, false);
  return NodeFacts{json_text(json_member(json, "metadata"), "uid"),
                   json_text(json_member(json_member(json, "status"), "nodeInfo"), "systemUUID")};
}

FormerName::FormerName(const std::string& state, std::string node)
    : file_(state + "/node"), node_(std::move(node)) {
  const std::string known = slurp(file_).value_or("");
  if (known == node_) return;
  if (engines::is_node_name(known))
    former_ = known;
  else
    forget();
}

void FormerName::forget() {
  former_.clear();
  if (!replace_file(file_, node_, 0600)) log("not_written", {{"file", file_}});
}

void FormerName::remove_slices(const ApiClient& api, const NodeFacts& now) {
  if (former_.empty()) return;
  const auto before = read_node(api, former_);
  // If the node with the former name does not exist, Kubernetes deletes its slices. If it is
  // another machine, its slices must stay. In both cases nothing is left to do.
  if (before ? before->machine.empty() || before->machine != now.machine
             : before.error().id == "E1076")
    return forget();
  const auto removed = before ? remove_all(api) : Result<int>(before.error());
  if (removed) {
    log("former_name", {{"node", former_}, {"slices_removed", std::to_string(*removed)}});
    return forget();
  }
  const std::string words =
      text("the ResourceSlices of this node's former name {} could not be removed: {}", former_,
           removed.error().message);
  if (words != said_)
    log("former_name",
        {{"error", words}, {"id", "E1077"}, {"hint", "kubectl delete node " + former_}});
  said_ = words;
}

Result<int> FormerName::remove_all(const ApiClient& api) {
  const auto listed = api.call("GET", slices_of_node(former_));
  if (!listed) return listed.error();
  const auto slices = engines::published_slices(listed->body);
  if (!slices) return slices.error();
  for (const engines::PublishedSlice& one : *slices) {
    const auto gone = api.call("DELETE", std::string(kSlices) + "/" + percent_encoded(one.name));
    if (!gone) return gone.error();
    if (gone->status >= 300 && gone->status != 404)
      return refused("ResourceSlice", *gone, "kubectl get resourceslices");
  }
  return static_cast<int>(slices->size());
}

}  // namespace berth::kubelet
