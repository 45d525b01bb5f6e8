#include "engines/kube_claim.hpp"

#include <doctest/doctest.h>

#include "base/json.hpp"

using namespace berth::engines;

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kGiB = 1ULL << 30U;

std::vector<KubeUnit> two_gpus() {
  KubeUnit first;
  first.uuid = "GPU-6E4A0F0E-1111-2222-3333-444455556666";
  first.model = "NVIDIA GeForce RTX 4090";
  first.pci = "0000:01:00.0";
  first.minor = 0;
  first.numa = 1;
  first.memory_bytes = 24 * kGiB;
  KubeUnit second = first;
  second.uuid = "GPU-00000000-1111-2222-3333-444455556666";
  second.numa.reset();
  second.memory_bytes.reset();
  return {first, second};
}

SliceSettings settings(int shares, bool consumable, bool taints = true) {
  return {"node1", "uid-1", shares, consumable, taints};
}

Json devices_of(const std::vector<Slice>& slices, std::size_t i = 0) {
  return Json::parse(slices.at(i).json(1, slices.size(), ""))["spec"]["devices"];
}

std::string claim_json(const std::string& results) {
  return R"({"metadata":{"namespace":"a","name":"c","uid":"u-1"},"status":{"allocation":{"devices":{"results":[)" +
         results + "]}}}}";
}

std::string result(const std::string& more = "") {
  return R"({"request":"gpu","driver":"gpu.berth.dev","pool":"node1","device":"gpu-6e4a0f0e-1111-2222-3333-444455556666")" +
         more + "}";
}

}  // namespace

TEST_CASE("a slice names what a claim may select by, and leaves out what is not known") {
  const auto slices = resource_slices(two_gpus(), settings(0, true));
  REQUIRE(slices.size() == 1);
  const Json object = Json::parse(slices[0].json(7, 1, "99"));
  CHECK(object["metadata"]["resourceVersion"] == "99");
  CHECK(object["metadata"]["ownerReferences"][0]["uid"] == "uid-1");
  CHECK(object["spec"]["pool"]["generation"] == 7);
  const Json devices = object["spec"]["devices"];
  CHECK(devices[0]["name"] == "gpu-6e4a0f0e-1111-2222-3333-444455556666");
  CHECK(devices[0]["attributes"]["uuid"]["string"] == "GPU-6E4A0F0E-1111-2222-3333-444455556666");
  CHECK(devices[0]["attributes"]["numa"]["int"] == 1);
  CHECK(devices[0]["capacity"]["memory"]["value"] == "24576Mi");
  CHECK_FALSE(devices[1]["attributes"].contains("numa"));
  CHECK_FALSE(devices[1]["attributes"].contains("nvlinkGroup"));
  CHECK_FALSE(devices[1]["attributes"].contains("resource.kubernetes.io/pcieRoot"));
  CHECK_FALSE(devices[1]["capacity"].contains("memory"));
  CHECK_FALSE(devices[0].contains("allowMultipleAllocations"));
}

TEST_CASE("GPUs of one group of NVLinks can be claimed together") {
  auto units = two_gpus();
  units[0].pci = "0000:01:00.0";
  units[1].pci = "0000:02:00.0";
  units[0].pci_path = "pci0000:00/0000:00:01.0";
  units[0].nvlink_peers = {{units[1].pci, 4}};
  units[1].nvlink_peers = {{units[0].pci, 4}};
  const Json object = Json::parse(resource_slices(units, settings(0, true))[0].json(7, 1, "99"));
  const Json devices = object["spec"]["devices"];
  CHECK(devices[0]["attributes"]["nvlinkGroup"]["string"] == units[0].uuid);
  CHECK(devices[1]["attributes"]["nvlinkGroup"]["string"] == units[0].uuid);
  CHECK(devices[0]["attributes"]["resource.kubernetes.io/pcieRoot"]["string"] == "pci0000:00");
}

TEST_CASE("a shared GPU is one device with consumable capacity, or several where there is none") {
  const Json one = devices_of(resource_slices(two_gpus(), settings(4, true)));
  REQUIRE(one.size() == 2);
  CHECK(one[0]["allowMultipleAllocations"] == true);
  CHECK(one[0]["capacity"]["memory"]["requestPolicy"]["default"] == "6144Mi");
  CHECK(one[0]["capacity"]["shares"]["value"] == "4");
  // A GPU with unknown memory is not shared.
  CHECK_FALSE(one[1].contains("allowMultipleAllocations"));
  const Json several = devices_of(resource_slices(two_gpus(), settings(4, false)));
  REQUIRE(several.size() == 5);
  CHECK(several[3]["name"] == "gpu-6e4a0f0e-1111-2222-3333-444455556666-share-3");
  CHECK(several[3]["capacity"]["memory"]["value"] == "6144Mi");
}

TEST_CASE("an unhealthy GPU has a taint, which goes away when the GPU is well") {
  auto units = two_gpus();
  const auto before = resource_slices(units, settings(2, true));
  CHECK_FALSE(has_tainted(before));
  units[0].healthy = false;
  units[0].fault = "xid-79";
  const auto sick = resource_slices(units, settings(2, true));
  CHECK(has_tainted(sick));
  REQUIRE(devices_of(sick).size() == 2);
  CHECK(
      devices_of(sick)[0]["taints"] ==
      Json::parse(R"([{"key":"gpu.berth.dev/unhealthy","value":"xid-79","effect":"NoSchedule"}])"));
  CHECK_FALSE(devices_of(sick)[1].contains("taints"));
  CHECK(sick[0].digest != before[0].digest);
  units[0].fault = "no-answer";
  CHECK(resource_slices(units, settings(2, true))[0].digest != sick[0].digest);
  for (const Json& share : devices_of(resource_slices(units, settings(2, false))))
    CHECK(share.contains("taints") ==
          (std::string(share["name"]).find("-share-") != std::string::npos));
  units[0].healthy = true;
  CHECK(resource_slices(units, settings(2, true))[0].digest == before[0].digest);
}

TEST_CASE("where the cluster keeps no taints, an unhealthy GPU is not published") {
  auto units = two_gpus();
  units[0].healthy = false;
  CHECK(devices_of(resource_slices(units, settings(0, true, false))).size() == 1);
  units[1].healthy = false;
  CHECK(devices_of(resource_slices(units, settings(0, true, false))).empty());
}

TEST_CASE("a taint keeps the time at which it was added, and a dropped one is noticed") {
  auto units = two_gpus();
  units[0].healthy = false;
  units[0].fault = "xid-79";
  const auto wanted = resource_slices(units, settings(0, true));
  Json stored = Json::parse(wanted[0].json(3, 1, "5"));
  stored["spec"]["devices"][0]["taints"][0]["timeAdded"] = "2026-11-27T01:02:03Z";
  const auto list = [](const Json& slice) { return Json{{"items", {slice}}}.dump(); };
  const auto read = published_slices(list(stored)).value();
  CHECK(is_current(wanted, read));
  const auto again = Json::parse(wanted[0].json(4, 1, "6", read[0].tainted))["spec"]["devices"][0];
  CHECK(again["taints"][0]["timeAdded"] == "2026-11-27T01:02:03Z");
  units[0].fault = "no-answer";
  const auto other = resource_slices(units, settings(0, true));
  CHECK_FALSE(
      Json::parse(other[0].json(4, 1, "6", read[0].tainted))["spec"]["devices"][0]["taints"][0]
          .contains("timeAdded"));
  stored["spec"]["devices"][0].erase("taints");
  CHECK_FALSE(is_current(wanted, published_slices(list(stored)).value()));
  CHECK(keeps_taints(stored.dump()) == false);
  CHECK(keeps_taints(trial_slice(wanted[0])) == true);
  for (const char* odd : {"3", "[3]", R"([{"taints":3}])", R"([{"taints":[3,{"key":7}]}])"}) {
    stored["spec"]["devices"] = Json::parse(odd);
    CHECK(published_slices(list(stored)));
  }
}

TEST_CASE("a claim that tolerates the taint gets the unhealthy GPU, any other is refused") {
  auto units = two_gpus();
  units[0].healthy = false;
  const auto answered = [&](const std::string& tolerations) {
    const auto claim =
        claim_in(claim_json(result(R"(,"tolerations":)" + tolerations)), "u-1", "node1");
    REQUIRE(claim);
    const auto again = journalled_claim(claim_line(*claim, {}));
    REQUIRE(again);
    CHECK(again->claim.devices[0].tolerates == claim->devices[0].tolerates);
    return static_cast<bool>(claim_answer(*claim, units, {}));
  };
  CHECK(answered(R"([{"key":"gpu.berth.dev/unhealthy","operator":"Exists"}])"));
  CHECK(answered(R"([{"key":"other"},{"operator":"Exists","effect":"NoSchedule"}])"));
  for (const char* no : {"[]", "7", R"([7])", R"([{"key":"other","operator":"Exists"}])",
                         R"([{"key":"gpu.berth.dev/unhealthy","effect":"NoExecute"}])"})
    CHECK_FALSE_MESSAGE(answered(no), no);
}

TEST_CASE("more devices than a slice may have are several slices of one pool") {
  const auto slices = resource_slices(two_gpus(), settings(64, false));
  REQUIRE(slices.size() == 2);
  CHECK(devices_of(slices, 0).size() == 64);
  CHECK(devices_of(slices, 1).size() == 1);
  CHECK(slices[0].name != slices[1].name);
}

TEST_CASE("what is published is compared with what is wanted") {
  const auto wanted = resource_slices(two_gpus(), settings(2, true));
  const auto list = [&](const std::string& object) { return R"({"items":[)" + object + "]}"; };
  const auto read = published_slices(list(wanted[0].json(3, 1, "5")));
  REQUIRE(read);
  CHECK(read->front().generation == 3);
  CHECK(read->front().version == "5");
  CHECK(read->front().is_consumable);
  CHECK(is_current(wanted, *read));
  CHECK_FALSE(is_current(wanted, {}));
  auto other = *read;
  other[0].digest = "changed";
  CHECK_FALSE(is_current(wanted, other));
  for (const char* wrong : {"", "{", "[]", "{}", R"({"items":3})"})
    CHECK_FALSE(published_slices(wrong));
  CHECK(published_slices(R"({"items":[3,null,{"metadata":[],"spec":{"pool":{"generation":-1}}}]})")
            ->empty());
}

TEST_CASE("a claim's devices are those of this driver and node") {
  const auto claim = claim_in(
      claim_json(result(R"(,"shareID":"s-1","consumedCapacity":{"memory":"6Gi","shares":"1"})") +
                 R"(,{"driver":"gpu.example.com","pool":"node1","device":"x"})"),
      "u-1", "node1");
  REQUIRE(claim);
  REQUIRE(claim->devices.size() == 1);
  CHECK(claim->devices[0].memory_bytes == 6 * kGiB);
  CHECK(claim->devices[0].share == "s-1");
  CHECK_FALSE(claim_in(claim_json(result()), "u-2", "node1"));  // replaced
  CHECK_FALSE(claim_in(claim_json(result()), "u-1", "other-node"));
  CHECK_FALSE(
      claim_in(claim_json(result(R"(,"consumedCapacity":{"memory":"much"})")), "u-1", "node1"));
  for (const char* wrong :
       {"", "{", "[]", "{}", R"({"metadata":{"uid":"u-1"}})",
        R"({"metadata":{"uid":"u-1"},"status":{"allocation":{"devices":{"results":[3,[]]}}}})"})
    CHECK_FALSE(claim_in(wrong, "u-1", "node1"));
}

TEST_CASE("a claim's containers get its GPU and the limit that it consumed") {
  KubeConfig config;
  config.shares = 4;
  const auto units = two_gpus();
  const auto claim = claim_in(
      claim_json(result(R"(,"shareID":"s","consumedCapacity":{"memory":"6Gi"})")), "u-1", "node1");
  REQUIRE(claim);
  const auto answer = claim_answer(*claim, units, config);
  REQUIRE(answer);
  CHECK(answer->limits.at(units[0].uuid) == 6 * kGiB);
  CHECK(answer->variables.at("NVIDIA_VISIBLE_DEVICES") == units[0].uuid);
  // If a claim has two parts of one GPU, their limits are added.
  Claim twice = *claim;
  twice.devices.push_back(twice.devices[0]);
  CHECK(claim_answer(twice, units, config)->limits.at(units[0].uuid) == 12 * kGiB);
  CHECK(claim_answer(twice, units, config)->variables.at("BERTH_DEVICES") == units[0].uuid);
  // A share of unknown size is refused, because no memory limit could be set.
  Claim unknown = *claim;
  unknown.devices[0].memory_bytes.reset();
  CHECK_FALSE(claim_answer(unknown, units, config));
  auto sick = units;
  sick[0].healthy = false;
  CHECK(claim_answer(*claim, sick, config).error().id == std::string("E1032"));
  Claim lost = *claim;
  lost.devices[0].device = "gpu-of-nobody";
  CHECK(claim_answer(lost, units, config).error().id == std::string("E1031"));
}

TEST_CASE("the answer to a trial shows whether the API server divides GPUs") {
  const auto slices = resource_slices(two_gpus(), settings(4, true));
  CHECK(has_divided(slices));
  CHECK_FALSE(has_divided(resource_slices(two_gpus(), settings(4, false))));
  CHECK_FALSE(has_divided(resource_slices(two_gpus(), settings(0, true))));
  Json trial = Json::parse(trial_slice(slices[0]));
  // The server refuses a name that already exists.
  CHECK(trial["metadata"]["name"] != slices[0].name);
  CHECK(trial["spec"]["nodeName"] == "node1");
  CHECK(keeps_divided(trial.dump()) == true);
  trial["spec"]["devices"][0].erase("allowMultipleAllocations");
  CHECK(keeps_divided(trial.dump()) == false);
  for (const char* wrong : {"", "[]", "{}", R"({"spec":{"devices":3}})"})
    CHECK_FALSE(keeps_divided(wrong).has_value());
}

TEST_CASE("a new claim gets only what is offered now, with the size of each share") {
  const auto units = two_gpus();
  const auto sized = [&](const std::string& device, int shares,
                         std::optional<std::uint64_t> memory = std::nullopt) {
    return sized_claim({"a", "c", "u", {{"r", "node1", device, "", memory}}}, units,
                       {shares, KubePass::kEnv});
  };
  const std::string gpu = "gpu-6e4a0f0e-1111-2222-3333-444455556666";
  CHECK(sized(gpu + "-share-3", 4)->devices[0].memory_bytes == 6 * kGiB);
  CHECK(sized(gpu + "-share-0", 4, 24 * kGiB)->devices[0].memory_bytes == 6 * kGiB);
  for (const char* odd :
       {"-share-4", "-share-99", "-share-junk", "-share-", "-share--1", "-share-03"})
    CHECK(sized(gpu + odd, 4).error().id == std::string("E1031"));
  CHECK(sized(gpu + "-share-0", 0).error().id == std::string("E1031"));
  // The scheduler allocated a shared GPU as a whole GPU.
  CHECK(sized(gpu, 4).error().id == std::string("E1032"));
  CHECK(sized(gpu, 4, kGiB)->devices[0].memory_bytes == kGiB);
  CHECK_FALSE(sized(gpu, 0)->devices[0].memory_bytes.has_value());
  // A GPU with unknown memory cannot be shared, so it is allocated whole.
  CHECK(sized("gpu-00000000-1111-2222-3333-444455556666", 4));
  // A claim keeps the share size of its first allocation, even if `--shares` is different now.
  const auto kept = claim_answer(*sized(gpu + "-share-3", 4), units, {2, KubePass::kEnv});
  CHECK(kept->limits.at(units[0].uuid) == 6 * kGiB);
}

TEST_CASE("a GPU that claims hold under another naming is not published") {
  const auto units = two_gpus();
  const std::string gpu = "gpu-6e4a0f0e-1111-2222-3333-444455556666";
  const ClaimDevice whole{"r", "node1", gpu, "", std::nullopt};
  const ClaimDevice divided{"r", "node1", gpu, "share-id", 2 * kGiB};
  const ClaimDevice quarter{"r", "node1", gpu + "-share-1", "", 6 * kGiB};
  const auto withheld = [&](const ClaimDevice& held, int shares, bool consumable) {
    std::vector<std::string> names;
    const auto left = publishable(units, settings(shares, consumable), {held}, names);
    CHECK(left.size() + names.size() == 2);
    return names == std::vector<std::string>{gpu};
  };
  CHECK_FALSE(withheld(whole, 0, true));
  CHECK(withheld(whole, 4, true));
  CHECK(withheld(whole, 4, false));
  CHECK(withheld(divided, 0, true));
  CHECK_FALSE(withheld(divided, 4, true));
  // The scheduler counts consumed memory, so a claim stays valid when --shares changes.
  CHECK_FALSE(withheld(divided, 2, true));
  CHECK(withheld(divided, 4, false));
  CHECK(withheld(quarter, 0, false));
  CHECK(withheld(quarter, 4, true));
  CHECK_FALSE(withheld(quarter, 4, false));
  CHECK(withheld(quarter, 2, false));
  CHECK(withheld(quarter, 8, false));
  ClaimDevice before = divided;
  before.pool = "former-name";
  CHECK(withheld(before, 4, true));
}

TEST_CASE("the CDI file of a claim is of version 0.5.0 and has the guard") {
  const auto units = two_gpus();
  auto answer = kube_answer({units[0].uuid}, units, {0, KubePass::kNodes});
  REQUIRE(answer);
  add_guard(*answer, {"/s/lib/g.so", "/s/limits", "/s/usage"});
  const Json file = Json::parse(claim_cdi_file("u-1", *answer));
  CHECK(file["cdiVersion"] == "0.5.0");
  CHECK(file["kind"] == "berth.dev/claim");
  const Json edits = file["devices"][0]["containerEdits"];
  CHECK(edits["mounts"].size() == 3);
  CHECK(edits["deviceNodes"][0]["path"] == "/dev/nvidia0");
  CHECK(std::count(edits["env"].begin(), edits["env"].end(), "BERTH_GUARD=/run/berth/guard") == 1);
  CHECK(claim_cdi_name("u-1") == "berth.dev/claim=u-1");
}

TEST_CASE("the journal of a claim is read back, and a damaged one is an error") {
  const auto claim =
      claim_in(claim_json(result(R"(,"consumedCapacity":{"memory":"1Mi"})")), "u-1", "node1");
  REQUIRE(claim);
  const auto line = claim_line(*claim, {"berth.dev/claim=u-1"});
  const auto back = journalled_claim(line);
  REQUIRE(back);
  CHECK(back->claim.devices[0].device == claim->devices[0].device);
  CHECK(back->claim.devices[0].memory_bytes == 1U << 20U);
  CHECK(back->cdi == std::vector<std::string>{"berth.dev/claim=u-1"});
  CHECK_FALSE(journalled_claim(line.substr(0, line.size() / 2)));
  CHECK_FALSE(journalled_claim("{}"));
}

TEST_CASE("quantities of Kubernetes are bytes, or nothing") {
  CHECK(quantity_bytes("6Gi") == 6 * kGiB);
  CHECK(quantity_bytes("1500M") == 1'500'000'000U);
  CHECK(quantity_bytes("7") == 7U);
  for (const char* wrong : {"", "Gi", "-1", "1.5Gi", "99999999999Ti", "6gi", "6 Gi", "1e", "1e-3",
                            "2e19", "1e20", "1500m", "16Ei"})
    CHECK_FALSE(quantity_bytes(wrong));
  CHECK(quantity_bytes("1e9") == 1'000'000'000U);
  CHECK(quantity_bytes("2E3") == 2000U);
  CHECK(quantity_bytes("2E") == 2'000'000'000'000'000'000U);
  CHECK(quantity_bytes("3Pi") == 3ULL << 50U);
  CHECK(quantity_bytes("5P") == 5'000'000'000'000'000U);
  CHECK(quantity_bytes("15Ei") == 15ULL << 60U);
  CHECK(quantity_bytes("7000m") == 7U);
  const auto error =
      claim_in(claim_json(result(R"(,"consumedCapacity":{"memory":"1500m"})")), "u-1", "node1")
          .error();
  CHECK(error.message.find("1500m") != std::string::npos);
}

TEST_CASE("an API server's address is https with a host and a port") {
  CHECK(api_address("https://10.96.0.1:6443/")->port == "6443");
  CHECK(api_address("https://[fd00::1]")->host == "fd00::1");
  CHECK(api_address("https://api.example.com")->port == "443");
  for (const char* wrong :
       {"", "http://10.0.0.1", "https://", "https://:443", "https://a:0", "https://a:99999",
        "https://a:x", "https://a b", "https://a/b", "https://u@a"})
    CHECK_FALSE(api_address(wrong).has_value());
  CHECK(is_node_name("node-1.example.com"));
  for (const char* wrong : {"", "Node", "a b", "a/b", "a,b"}) CHECK_FALSE(is_node_name(wrong));
}

TEST_CASE("a uid that could leave the folder is refused") {
  CHECK(is_safe_uid("2f0a9c1e-0000-4000-8000-000000000000"));
  for (const char* wrong : {"", "..", "a/b", "a.json", "\n"}) CHECK_FALSE(is_safe_uid(wrong));
  CHECK_FALSE(is_safe_uid(std::string(65, 'a')));
}
