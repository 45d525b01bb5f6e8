#include <doctest/doctest.h>

#include "doctor/read/collectors.hpp"
#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;

namespace launch_test {
namespace {

void add(Facts& facts, const char* name, const char* version) {
  auto all = facts.python.distributions.value_or({});
  all.push_back({name, version, std::string("/venv/site/") + name, 0, {}, ""});
  facts.python.distributions = all;
}

/// A container with PyTorch, whose user has no entry in /etc/passwd.
Facts nobody(const char* torch) {
  Facts facts = tests::workstation("550.54.15", "12.4");
  facts.container.kind = std::string("docker");
  facts.process.has_account = false;
  facts.process.identity = Identity{1042, 0, {}};
  add(facts, "torch", torch);
  TorchBuild build;
  build.version = torch;
  build.cuda = std::string("12.4");
  facts.python.torch = build;
  return facts;
}

/// Id and severity of the first finding: "ENV28 error"; "" if there is none.
std::string said(const char* rule, const Facts& facts) {
  const auto found = diagnose(facts, Knowledge{}, {rule}).findings;
  if (found.empty()) return "";
  const Severity severity = found.front().severity;
  return severity == Severity::kError     ? "error"
         : severity == Severity::kWarning ? "warning"
                                          : "info";
}

std::string said(const char* name, const char* value) {
  Facts facts = nobody("2.6.0");
  facts.process.environment = Environment{{name, value}};
  return said("ENV28", facts);
}

std::vector<berth::model::Finding> found(const Facts& facts, const char* rule) {
  return diagnose(facts, Knowledge{}, {rule}).findings;
}

}  // namespace

TEST_CASE("a user without a name, where PyTorch asks for it") {
  Facts facts = nobody("2.6.0");
  CHECK(said("ENV28", facts) == "warning");
  add(facts, "vllm", "0.8.0");
  CHECK(said("ENV28", facts) == "error");
  CHECK(said("USER", "app").empty());
  CHECK(said("LOGNAME", "app").empty());
  CHECK(said("TORCHINDUCTOR_CACHE_DIR", "/tmp/inductor").empty());
  CHECK_MESSAGE(said("ENV28", nobody("2.13.0")).empty(), "which does without");
  CHECK_MESSAGE(said("ENV28", nobody("1.13.1")).empty(), "which compiles nothing");
  facts.process.has_account = true;
  CHECK_MESSAGE(said("ENV28", facts).empty(), "by LDAP, say");
  facts.process.has_account = Unreadable{"has_account", 0};
  CHECK(said("ENV28", facts).empty());
  facts.process.has_account = false;
  facts.container.kind = {};
  CHECK_MESSAGE(said("ENV28", facts).empty(), "a machine");
}

TEST_CASE("a disk without room, or without inodes, where programs write") {
  const auto of = [](std::uint64_t bytes, std::optional<std::uint64_t> files, const char* what) {
    Facts facts;
    facts.process.disk_space = std::vector{DiskSpace{"/x", what, bytes, files}};
    // no finding without Python, because then no program here computes
    CHECK(said("RT14", facts).empty());
    facts.python.interpreter = std::string("/usr/bin/python3");
    return said("RT14", facts);
  };
  constexpr std::uint64_t kMib = 1 << 20;
  CHECK(of(0, 100, "TMPDIR") == "error");
  CHECK(of(90 * kMib, 100, "HOME") == "warning");
  CHECK(of(9000 * kMib, 0, "HOME") == "error");
  CHECK(of(0, 100, "/var/lib/docker") == "warning");
  // Only the number of free bytes matters, not the percentage.
  CHECK(of(110 * kMib, 100, "HOME").empty());
  CHECK(of(70 * kMib, 100, "TMPDIR").empty());
  CHECK(of(50 * kMib, 100, "TMPDIR") == "warning");
  CHECK(of(110 * kMib, 100, "HF_HOME") == "warning");
  CHECK_MESSAGE(of(9000 * kMib, std::nullopt, "HOME").empty(), "it does not count inodes");
}

TEST_CASE("a rank is beyond its GPUs only where the task sees one") {
  Facts facts = tests::workstation("580.95.05", "13.0");
  const auto ranks = [&](const std::string& visible) {
    facts.process.environment =
        Environment{{"SLURM_JOB_ID", "7"}, {"LOCAL_RANK", "1"}, {"CUDA_VISIBLE_DEVICES", visible}};
    return found(facts, "ENV24").size();
  };
  CHECK(ranks("0") == 1);
  CHECK(ranks("GPU-5ba0b4c3-6bf5-1d25-0f43-a4cbd9b0d5f4") == 1);
  // No finding: these lists hide all GPUs on purpose, contain several GPUs, or are reported by
  // another rule.
  for (const std::string other : {"", "-1", "NoDevFiles", "none", "0,1", "0-3", "7", "gpu0"}) {
    CAPTURE(other);
    CHECK(ranks(other) == 0);
  }
}

TEST_CASE("a variable is lost to Ollama's service only where all that sets its own is known") {
  Facts facts = tests::workstation("580.95.05", "13.0");
  facts.process.environment = Environment{{"OLLAMA_FLASH_ATTENTION", "1"}};
  OllamaService service;
  service.unit = "/etc/systemd/system/ollama.service";
  const auto lost = [&](const Fact<OllamaService>& fact) {
    facts.platform.ollama_service = fact;
    return found(facts, "ENV25").size();
  };
  CHECK(lost(service) == 1);
  Fact<OllamaService> part(service);
  part.doubt(Unreadable{"/srv/ollama.env", 0});
  CHECK(lost(part) == 0);
  const Knowledge known;
  Examination look(facts, known, Severity::kError);
  CHECK(look.see_whole(facts.platform.ollama_service) == nullptr);
  REQUIRE(look.unread().size() == 1);  // an Unreadable with error 0 counts as unreadable, too
  CHECK(look.unread().front().where == "/srv/ollama.env");
  // systemd sets these variables, but their values are unknown and may be correct.
  service.variables["OLLAMA_FLASH_ATTENTION"] = {"", service.unit, true};
  service.variables["CUDA_VISIBLE_DEVICES"] = {"", service.unit, true};
  CHECK(lost(service) == 0);
}

TEST_CASE(
    "a container without libraries for video is a warning where a package does nothing else") {
  Facts facts = tests::workstation("580.95.05", "13.0");
  facts.container.kind = std::string("docker");
  facts.python.libraries = std::vector<CudaLibrary>{};
  facts.process.environment = Environment{{"NVIDIA_DRIVER_CAPABILITIES", "compute,utility"}};
  const auto with = [&](const char* name) {
    facts.python.distributions =
        std::vector<Distribution>{{name, "1.2", "/venv/site/METADATA", 1, {}, ""}};
    const auto video = found(facts, "CTR21");
    REQUIRE(video.size() == 1);
    return video.front().severity;
  };
  CHECK(with("pynvvideocodec") == Severity::kWarning);
  CHECK(with("nvidia-dali-cuda120") == Severity::kInfo);
}

TEST_CASE("expandable segments are a warning where a server sleeps without being told to") {
  Facts facts = tests::workstation("580.95.05", "13.0");
  TorchBuild torch;
  torch.version = "2.6.0";
  torch.path = "/venv/site/torch/version.py";
  facts.python.torch = torch;
  facts.process.environment = Environment{{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}};
  const auto with = [&](const char* name) {
    facts.python.distributions =
        std::vector<Distribution>{{"vllm", "0.8.5", "/venv/site/METADATA", 1, {}, ""},
                                  {name, "1.0", "/venv/site/METADATA", 1, {}, ""}};
    const auto segments = found(facts, "ENV21");
    REQUIRE(segments.size() == 1);
    return segments.front().severity;
  };
  CHECK(with("verl") == Severity::kWarning);
  CHECK(with("trl") == Severity::kInfo);
  CHECK(with("openrlhf") == Severity::kInfo);
}

TEST_CASE("what unlocks the GPU's nodes for Ollama's service counts after all other drop-ins") {
  const berth::system::TemporaryTree root;
  root.put("etc/systemd/system/ollama.service", "[Service]\nDevicePolicy=closed\n");
  root.put("etc/systemd/system/ollama.service.d/override.conf", "[Service]\nPrivateDevices=yes\n");
  Facts facts = tests::workstation("580.95.05", "13.0");
  const auto locked = [&] {
    facts.platform.ollama_service = collect_ollama_service(Tree(root.path));
    return found(facts, "ENV25");
  };
  const auto before = locked();
  REQUIRE(before.size() == 1);
  const std::string command = before.front().fix.front().command;
  // Checks that a shell runs the command as intended: each word after '[Service]' becomes a line of
  // the file that tee writes.
  const auto first = command.find("'[Service]' ") + 12, last = command.find(" | sudo tee /");
  const auto path = last + 13, end = command.find('\n', path);
  REQUIRE(end != std::string::npos);
  std::string lines = command.substr(first, last - first);
  for (char& one : lines) one = one == ' ' ? '\n' : one;
  root.put(command.substr(path, end - path), "[Service]\n" + lines + "\n");
  CHECK(locked().empty());
}

TEST_CASE("Ollama's user needs a group only where others may not open AMD's nodes") {
  Facts facts = tests::workstation("580.95.05", "13.0");
  facts.machine.pci = std::vector{tests::card("0000:03:00.0", 0x1002, 0x744c, "amdgpu")};
  OllamaService service;
  service.unit = "/etc/systemd/system/ollama.service";
  service.user = "ollama";
  service.grouped = false;
  facts.platform.ollama_service = service;
  const auto refused = [&](mode_t kfd, mode_t render) {
    GpuNode one{"/dev/kfd", {}, 0};
    one.node.mode = kfd;
    facts.nodes.kfd = one;
    GpuNode other{"/dev/dri/renderD128", {}, 0x1002};
    other.node.mode = render;
    facts.nodes.render = std::vector{other};
    return !found(facts, "ENV25").empty();
  };
  CHECK(refused(0660, 0660));
  CHECK(refused(0666, 0660));
  CHECK_FALSE(refused(0666, 0666));
}

}  // namespace launch_test
