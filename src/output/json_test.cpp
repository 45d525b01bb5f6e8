#include "output/json.hpp"

#include <doctest/doctest.h>
#include <test_paths.hpp>

#include <fstream>
#include <limits>

#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "output/json_writer.hpp"
#include "output/samples_for_tests.hpp"

using namespace berth;
using namespace berth::output;
using Json = nlohmann::json;

namespace {

model::Snapshot sample(const std::string& wanted) {
  for (auto& [name, snapshot] : sample_machines())
    if (name == wanted) return snapshot;
  return {};
}

}  // namespace

TEST_CASE("a document is written from front to back and read back the same") {
  JsonWriter json;
  json.open('{');
  json.field("text", "a \"quoted\" \\ path\nand\ttab");
  json.field("bytes", std::string("\xff\x1b[31m 训练 \x00 end", 19));
  json.field("numbers", std::vector<double>{0, 0.1, -1.5e300, 90});
  json.field("nothing", std::optional<int>());
  json.field("infinite", std::numeric_limits<double>::infinity());
  json.field("large", std::uint64_t{18'446'744'073'709'551'615U});
  json.field("yes", true);
  json.text_field("empty", "");
  json.key("nested");
  json.open('[');
  json.open('{');
  json.close('}');
  json.open('[');
  json.close(']');
  json.value(1);
  json.close(']');
  json.close('}');
  const Json document = Json::parse(json.finish());
  CHECK(document["text"] == "a \"quoted\" \\ path\nand\ttab");
  CHECK(document["bytes"] == "\uFFFD\uFFFD[31m 训练 \uFFFD end");
  CHECK(document["numbers"] == Json({0, 0.1, -1.5e300, 90}));
  CHECK(document["nothing"].is_null());
  CHECK(document["infinite"].is_null());
  CHECK(document["large"] == 18'446'744'073'709'551'615U);
  CHECK(document["yes"] == true);
  CHECK(document["empty"].is_null());
  CHECK(document["nested"] == Json::parse("[{},[],1]"));
}

TEST_CASE("every sample machine gives one JSON document a line, whatever its names are made of") {
  for (const auto& [title, snapshot] : sample_machines()) {
    // clang 14 cannot capture a structured binding in the lambda of CAPTURE
    const auto& name = title;
    CAPTURE(name);
    for (const std::string& text :
         {ls_json(snapshot), ps_json(snapshot), overview_json(snapshot, {{"berth ls", "why"}})}) {
      CHECK(text.find('\n') == text.size() - 1);
      const Json document = Json::parse(text, nullptr, false);
      REQUIRE_FALSE(document.is_discarded());
      CHECK(document["schema"] == 1);
      CHECK(document["time"] == "2026-09-10T00:26:40.123Z");
    }
  }
}

TEST_CASE("absent is null with its reason beside it, and a zero is a zero") {
  const Json document = Json::parse(ls_json(sample("mig")));
  const Json& device = document["devices"][0];
  CHECK(device["utilization_percent"].is_null());
  CHECK(device["absent"]["utilization_percent"] == "not supported");
  CHECK(device["absent"]["pcie_rx_bytes_per_second"] == "not asked");
  CHECK_FALSE(device["absent"].contains("temperature_celsius"));
  CHECK(device["partitions"][0]["absent"]["utilization_percent"] == "not supported");
  const Json busy = Json::parse(ls_json(sample("eight-busy")));
  CHECK(busy["devices"][7]["utilization_percent"] == 0);
  CHECK_FALSE(busy["devices"][7]["absent"].contains("utilization_percent"));
  CHECK(busy["devices"][8]["absent"]["utilization_percent"] == "needs two readings");
  CHECK(busy["devices"][8]["uuid"].is_null());
}

TEST_CASE("ls says who uses a device and ps says what each process is") {
  const Json ls = Json::parse(ls_json(sample("eight-busy")));
  CHECK(ls["devices"][0]["users"] == Json({"lin", "zhao"}));
  CHECK(ls["devices"][0]["process_count"] == 2);
  CHECK(ls["devices"][0]["pci_id"] == "10de:2330");
  const Json ps = Json::parse(ps_json(sample("strangers")));
  CHECK(ps["processes"][0]["pid"].is_null());
  CHECK(ps["processes"][0]["host_pid"] == 88123);
  CHECK(ps["processes"][3]["kind"] == Json({"compute", "mps"}));
  CHECK(ps["processes"][0]["device_uuid"] == "GPU-10000000-aaaa-bbbb-cccc-000000000000");
  CHECK(ps["unattributed"][0]["cause"] == "other_namespace");
  CHECK(ps["unattributed"][0]["holders"][1]["user"].is_null());
}

TEST_CASE("the overview gives a state, users, problems and steps") {
  const Json document = Json::parse(overview_json(sample("sick"), {{"berth ls", "why"}}));
  CHECK(document["devices"][0]["state"] == "problem");
  CHECK(document["devices"][3]["state"] ==
        "free");  // too little of its memory is in use for a computation
  CHECK(document["devices"][4]["state"] == "free");
  CHECK(document["users"][0]["user"] == "lin");
  CHECK(document["problems"].size() == 4);
  CHECK(document["problems"][1]["id"] == "lost");
  CHECK(document["next"][0]["command"] == "berth ls");
}

TEST_CASE("the overview offers no free GPU where only integrated graphics beside cards are free") {
  model::Snapshot snapshot;
  for (int index = 0; index < 3; ++index) {
    model::Device device;
    device.index = index;
    device.vendor = model::Vendor::kIntel;
    device.kind = model::DeviceKind::kGpu;
    device.name = index == 0 ? "Intel UHD Graphics 770" : "Intel Arc A770";
    device.memory_unified = index == 0;
    if (index > 0) device.processes_unknown = model::Absence::kNoPermission;
    snapshot.devices.push_back(device);
  }
  const auto first = [&] {
    return next_steps(snapshot, [](std::string_view) { return true; }).front().command;
  };
  CHECK(first() == "berth run --devices 1 -- python train.py");
  snapshot.devices[2].processes_unknown.reset();
  CHECK(first() == "berth run --gpus 1 -- python train.py");
  snapshot.devices.resize(1);
  CHECK(first() == "berth run --gpus 1 -- python train.py");
}

// docs/json.md is compared with these documents by tests/check_json_docs.py.
TEST_CASE("the documents of sample machines are as recorded") {
  const bool write = env_nonempty("BERTH_WRITE_GOLDEN").has_value();
  for (const char* name : {"mig", "strangers", "sick", "broken-driver"}) {
    const model::Snapshot snapshot = sample(name);
    const auto next = next_steps(snapshot, [](std::string_view) { return true; });
    for (const auto& [verb, text] : {std::pair{"ls", ls_json(snapshot)},
                                     {"ps", ps_json(snapshot)},
                                     {"berth", overview_json(snapshot, next)}}) {
      const std::string path =
          std::string(BERTH_TEST_DATA) + "/json/" + name + "." + verb + ".json";
      CAPTURE(path);
      if (write) std::ofstream(path) << text;
      const auto recorded = slurp(path, 1U << 20U);
      REQUIRE(recorded);
      CHECK(text == *recorded);
    }
  }
}
