#include "output/diagnosis.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace berth;
using model::Confidence;
using model::Finding;
using model::Layer;
using model::Severity;

namespace {

Finding finding(const char* id, Severity severity, const char* title) {
  Finding one;
  one.id = id;
  one.layer = Layer::kFramework;
  one.severity = severity;
  one.confidence = Confidence::kHigh;
  one.title = title;
  return one;
}

model::Diagnosis example() {
  model::Diagnosis diagnosis;
  Finding root =
      finding("FW02", Severity::kFatal, "PyTorch's CUDA is newer than the driver allows");
  root.evidence = {"torch 2.9.1+cu130 needs driver 580.65, this machine has 535.183"};
  root.fix = {{"pip install torch", "keeps the driver"}, {"sudo apt install x\nsudo reboot", ""}};
  root.explains = {"FW01"};
  Finding second = finding("FW01", Severity::kFatal, "torch.cuda.is_available() is False");
  second.explained_by = "FW02";
  diagnosis.verdict = root.title;
  diagnosis.findings = {root, second,
                        finding("ENV10", Severity::kWarning, "CUDA_HOME is not there")};
  diagnosis.not_checked = {{"DRV23", "/dev/kmsg: Operation not permitted"},
                           {"DRV24", "/dev/kmsg: Operation not permitted"}};
  diagnosis.checked = {"HW01"};
  return diagnosis;
}

/// The identifier ends where a line of 100 columns does.
std::string headline(const std::string& title, const std::string& id) {
  return title + std::string(100 - title.size() - id.size(), ' ') + id + "\n";
}

}  // namespace

TEST_CASE("the cause stands in full, what it explains in one line, what was not seen once") {
  CHECK(output::diagnosis_text(example(), {}) ==
        headline("PyTorch's CUDA is newer than the driver allows", "FW02") +
            "\n"
            "  how we know   torch 2.9.1+cu130 needs driver 580.65, this machine has 535.183\n"
            "  do this       pip install torch\n"
            "                keeps the driver\n"
            "           or   sudo apt install x\n"
            "                sudo reboot\n"
            "\n" +
            headline("CUDA_HOME is not there", "ENV10") + "\n" +
            headline("also   torch.cuda.is_available() is False", "FW01") +
            "not checked   2 rules: /dev/kmsg: Operation not permitted (2)\n");
}

TEST_CASE("a healthy machine is one line") {
  model::Diagnosis diagnosis;
  diagnosis.verdict = "nothing wrong was found";
  diagnosis.checked = {"HW01", "HW02"};
  CHECK(output::diagnosis_text(diagnosis, {}) == "nothing wrong was found   2 rules checked\n");
}

TEST_CASE("how many rules could not look stands beside how many could") {
  model::Diagnosis diagnosis;
  diagnosis.verdict = "nothing wrong was found";
  diagnosis.checked = {"HW01", "HW02"};
  diagnosis.not_checked = {{"DRV01", "x"}, {"DRV01", "y"}, {"DRV02", "x"}};
  CHECK(output::diagnosis_text(diagnosis, {})
            .starts_with("nothing wrong was found   2 rules checked, 2 not\n"));
}

TEST_CASE("where no rule could look, none is counted") {
  model::Diagnosis diagnosis;
  diagnosis.verdict = "nothing could be checked";
  diagnosis.not_checked = {{"SRC05", "a.py: line 1 is no Python"}};
  CHECK(output::diagnosis_text(diagnosis, {}) ==
        "nothing could be checked\n\nnot checked   1 rule: a.py: line 1 is no Python\n");
}

TEST_CASE("the same of several GPUs is said once, with each of them") {
  model::Diagnosis diagnosis;
  for (const char* title : {"no driver has GPU 0", "no driver has GPU 1", "no driver has GPU 2"}) {
    diagnosis.findings.push_back(finding("HW02", Severity::kFatal, title));
    diagnosis.findings.back().fix = {{"modprobe nvidia", ""}};
    diagnosis.findings.push_back(finding("RT10", Severity::kInfo, "a small window"));
  }
  diagnosis.findings.push_back(finding("HW03", Severity::kFatal, "another"));
  const std::string text = output::diagnosis_text(diagnosis, {});
  CHECK(text.find("how we know   no driver has GPU 1\n                no driver has GPU 2") !=
        std::string::npos);
  CHECK(text.find("a small window, and 2 more of its kind") != std::string::npos);
  CHECK(text.find("another") != std::string::npos);
  CHECK(text.find("modprobe") == text.rfind("modprobe"));
}

TEST_CASE("whose Python was looked at is said, and null where nobody asked") {
  model::Diagnosis diagnosis;
  diagnosis.verdict = "nothing wrong was found";
  model::DiagnosisParts parts;
  CHECK(nlohmann::json::parse(output::diagnosis_json(diagnosis, parts))["python"].is_null());
  parts.python = model::PythonSeen{"/usr/bin/python3", "3.11.2"};
  CHECK(output::diagnosis_text(diagnosis, {}, false, parts)
            .ends_with("looked at   /usr/bin/python3 (3.11.2)\n"));
  CHECK(nlohmann::json::parse(output::diagnosis_json(diagnosis, parts))["python"]["version"] ==
        "3.11.2");
}

TEST_CASE("the JSON has every key, and null where there is nothing") {
  const auto json = nlohmann::json::parse(output::diagnosis_json(example()));
  CHECK(json["findings"][0]["fix"][1]["says"].is_null());
  CHECK(json["findings"][0]["explained_by"].is_null());
  CHECK(json["findings"][1]["explained_by"] == "FW02");
  CHECK(json["findings"][0]["severity"] == "fatal");
  CHECK(json["findings"][0]["confidence"] == "high");
  CHECK(json["not_checked"].size() == 2);
  CHECK(json["checked"][0] == "HW01");
}
