#include "doctor/read/bundle_json.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::doctor {
namespace {

using nlohmann::json;

// These functions call `visit` for every fact. They are used to read or write a document, and to
// mark facts as "not requested".
#define BERTH_VISIT(type, key, words) visit(#key, facts.key);
template <typename Gpu, typename Visit>
void each_fact_of_gpu(Gpu& facts, Visit&& visit) {
  BERTH_GPU_FACTS(BERTH_VISIT)
}
template <typename Answers, typename Visit>
void each_fact(Answers& facts, Visit&& visit) {
  BERTH_DRIVER_FACTS(BERTH_VISIT)
}
template <typename Process, typename Visit>
void each_fact_of_process(Process& facts, Visit&& visit) {
  BERTH_PROCESS_FACTS(BERTH_VISIT)
}
#undef BERTH_VISIT

bool fits(const json& value, const std::string&) {
  return value.is_string();
}
bool fits(const json& value, bool) {
  return value.is_boolean();
}
bool fits(const json& value, int) {
  return value.is_number_integer() && value >= -0x7fffffff && value <= 0x7fffffff;
}
bool fits(const json& value, std::uint64_t) {
  return value.is_number_unsigned();
}
bool fits(const json& value, double) {
  return value.is_number();
}
bool fits(const json& value, const std::vector<int>&) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const json& one) { return fits(one, 0); });
}
bool fits(const json& value, const std::vector<std::string>&) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const json& one) { return one.is_string(); });
}

/// Fills facts from a JSON object. `bad` becomes the first key whose value has a wrong type.
struct Filler {
  const json& object;
  std::string bad;

  template <typename T>
  void operator()(const char* key, Fact<T>& fact) {
    const auto found = object.find(key);
    if (found == object.end()) {
      fact = Unreadable{key, 0};
    } else if (found->is_null()) {
      fact = {};
    } else if (fits(*found, T())) {
      fact = found->template get<T>();
    } else if (bad.empty()) {
      bad = key;
    }
  }
};

struct Writer {
  json& object;

  template <typename T>
  void operator()(const char* key, const Fact<T>& fact) const {
    if (fact) object[key] = *fact;
    if (fact.is_absent()) object[key] = nullptr;
  }
};

std::string fill_gpus(const json& object, DriverAnswers& answers) {
  const auto found = object.find("gpus");
  if (found == object.end()) {
    answers.gpus = Unreadable{"gpus", 0};
    return "";
  }
  if (!found->is_array()) return "gpus";
  std::vector<GpuAnswer> gpus;
  for (const json& row : *found) {
    if (!row.is_object()) return "gpus";
    Filler filler{row, ""};
    GpuAnswer& gpu = gpus.emplace_back();
    each_fact_of_gpu(gpu, filler);
    if (const auto address = row.find("pci_address"); address != row.end() && !address->is_null()) {
      if (!address->is_string()) return "pci_address";
      gpu.pci_address = address->get<std::string>();
    }
    if (!filler.bad.empty()) return filler.bad;
  }
  answers.gpus = std::move(gpus);
  return "";
}

Error malformed(const std::string& origin, const std::string& what) {
  return {ErrorCode::kInvalidArgument, "E0802",
          text("{}: cannot read this file of the bundle: {}", origin, what), "berth help doctor"};
}

std::optional<std::uint32_t> id_of(const json& value) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > 0xffffffffU) return std::nullopt;
  return value.get<std::uint32_t>();
}

/// Parses {"uid":1000,"gid":1000,"groups":[44]}; returns false for anything else.
bool fill_identity(const json& object, Fact<Identity>& fact) {
  fact = Unreadable{"uid", 0};
  if (!object.contains("uid")) return true;
  Identity identity;
  const auto uid = id_of(object["uid"]);
  const auto gid = id_of(object.value("gid", json(0)));
  const json groups = object.value("groups", json::array());
  if (!uid || !gid || !groups.is_array()) return false;
  identity.uid = *uid;
  identity.gid = *gid;
  for (const json& one : groups) {
    const auto group = id_of(one);
    if (!group) return false;
    identity.groups.push_back(*group);
  }
  fact = std::move(identity);
  return true;
}

/// Parses [{"path":"/tmp","what":"TMPDIR","free_bytes":0,"free_files":null}]; returns false for
/// anything else.
bool fill_disk_space(const json& object, Fact<std::vector<DiskSpace>>& fact) {
  fact = Unreadable{"rooms", 0};
  if (!object.contains("rooms")) return true;
  if (object["rooms"].is_null()) fact = {};
  if (object["rooms"].is_null()) return true;
  if (!object["rooms"].is_array()) return false;
  std::vector<DiskSpace> spaces;
  for (const json& row : object["rooms"]) {
    if (!row.is_object()) return false;
    const json path = row.value("path", json()), what = row.value("what", json()),
               bytes = row.value("free_bytes", json()), files = row.value("free_files", json());
    if (!path.is_string() || !what.is_string() || !bytes.is_number_unsigned() ||
        !(files.is_null() || files.is_number_unsigned()))
      return false;
    DiskSpace space{printable(path.get<std::string>()), printable(what.get<std::string>()),
                    bytes.get<std::uint64_t>(), std::nullopt};
    if (!files.is_null()) space.free_files = files.get<std::uint64_t>();
    spaces.push_back(std::move(space));
  }
  fact = std::move(spaces);
  return true;
}

}  // namespace

DriverAnswers driver_not_asked() {
  return *driver_from_json("{}", "");
}

GpuAnswer gpu_not_asked() {
  const json nothing = json::object();
  GpuAnswer gpu;
  each_fact_of_gpu(gpu, Filler{nothing, ""});
  return gpu;
}

Result<DriverAnswers> driver_from_json(std::string_view document, const std::string& origin) {
  const json object = json::parse(document, nullptr, false);
  if (!object.is_object()) return malformed(origin, std::string(tr("not a JSON object")));
  DriverAnswers answers;
  Filler filler{object, ""};
  each_fact(answers, filler);
  if (filler.bad.empty()) filler.bad = fill_gpus(object, answers);
  if (!filler.bad.empty()) return malformed(origin, filler.bad);
  return answers;
}

Result<ProcessFacts> process_from_json(std::string_view document, const std::string& origin) {
  const json object = json::parse(document, nullptr, false);
  if (!object.is_object()) return malformed(origin, std::string(tr("not a JSON object")));
  ProcessFacts facts;
  Filler filler{object, ""};
  each_fact_of_process(facts, filler);
  if (filler.bad.empty() && !fill_identity(object, facts.identity)) filler.bad = "uid, gid, groups";
  if (filler.bad.empty() && !fill_disk_space(object, facts.disk_space)) filler.bad = "rooms";
  if (!filler.bad.empty()) return malformed(origin, filler.bad);
  facts.environment = Unreadable{"environment", 0};
  return facts;
}

std::string process_to_json(const ProcessFacts& facts) {
  json object = json::object();
  if (facts.identity)
    object = {{"uid", facts.identity->uid},
              {"gid", facts.identity->gid},
              {"groups", facts.identity->groups}};
  each_fact_of_process(facts, Writer{object});
  if (facts.disk_space.is_absent()) object["rooms"] = nullptr;
  if (facts.disk_space) {
    json& rows = object["rooms"] = json::array();
    for (const DiskSpace& space : *facts.disk_space)
      rows.push_back({{"path", space.path},
                      {"what", space.what},
                      {"free_bytes", space.free_bytes},
                      {"free_files", space.free_files ? json(*space.free_files) : json()}});
  }
  return object.dump(1, ' ', true, json::error_handler_t::replace) + "\n";
}

std::string driver_to_json(const DriverAnswers& answers) {
  json object = json::object();
  each_fact(answers, Writer{object});
  if (answers.gpus) {
    json& rows = object["gpus"] = json::array();
    for (const GpuAnswer& gpu : *answers.gpus) {
      json row{{"pci_address", gpu.pci_address}};
      each_fact_of_gpu(gpu, Writer{row});
      rows.push_back(std::move(row));
    }
  }
  return object.dump(1, ' ', true, json::error_handler_t::replace) + "\n";
}

namespace {

constexpr int kStates = static_cast<int>(ProbeState::kNotReached) + 1;

std::string word(const json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_string() ? printable(found->get<std::string>()) : "";
}

/// Returns false if the row is invalid.
bool fill(const json& row, ProbeAnswer& answer) {
  if (!row.is_object()) return false;
  answer.framework = word(row, "framework");
  answer.version = word(row, "version");
  answer.message = word(row, "message");
  const std::string state = word(row, "state");
  bool known = false;
  for (int i = 0; i < kStates; ++i)
    if (state == name(static_cast<ProbeState>(i))) {
      answer.state = static_cast<ProbeState>(i);
      known = true;
    }
  const json devices = row.value("devices", json::array());
  if (!known || answer.framework.empty() || !devices.is_array() || devices.size() > 64)
    return false;
  for (const json& one : devices) {
    if (!one.is_object() || !one.contains("index") || !one["index"].is_number_unsigned() ||
        one["index"] > 1000 || !one.contains("ran") || !one["ran"].is_boolean())
      return false;
    answer.devices.push_back(
        {one["index"].get<int>(), word(one, "name"), one["ran"].get<bool>(), word(one, "message")});
  }
  return true;
}

}  // namespace

Result<ProbeFacts> probe_from_json(std::string_view document, const std::string& origin) {
  const auto malformed = [&](std::string_view what) {
    return Error{ErrorCode::kInvalidArgument, "E0802",
                 text("{}: cannot read this file of the bundle: {}", origin, what),
                 "berth help doctor"};
  };
  const auto shallow = [](int depth, json::parse_event_t, json&) { return depth <= 8; };
  const json object = json::parse(document, shallow, false);
  if (!object.is_object()) return malformed(tr("not a JSON object"));
  const auto rows = object.find("answers");
  if (rows == object.end() || !rows->is_array() || rows->size() > 64) return malformed("answers");
  std::vector<ProbeAnswer> answers(rows->size());
  for (std::size_t i = 0; i < rows->size(); ++i)
    if (!fill((*rows)[i], answers[i])) return malformed("answers");
  return ProbeFacts(std::move(answers));
}

std::string probe_to_json(const std::vector<ProbeAnswer>& answers) {
  json rows = json::array();
  for (const ProbeAnswer& answer : answers) {
    json devices = json::array();
    for (const ProbedDevice& one : answer.devices)
      devices.push_back(
          {{"index", one.index}, {"name", one.name}, {"ran", one.ran}, {"message", one.message}});
    rows.push_back({{"framework", answer.framework},
                    {"version", answer.version},
                    {"state", name(answer.state)},
                    {"message", answer.message},
                    {"devices", std::move(devices)}});
  }
  return json{{"answers", std::move(rows)}}.dump(1, ' ', true, json::error_handler_t::replace) +
         "\n";
}

}  // namespace berth::doctor
