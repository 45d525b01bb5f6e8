#include "output/diagnosis.hpp"

#include <doctest/doctest.h>

#include "base/json.hpp"

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

/// The first line of a finding: its title, and its id at the right edge (column 100).
std::string headline(const std::string& title, const std::string& id) {
  return title + std::string(100 - title.size() - id.size(), ' ') + id + "\n";
}

}  // namespace

TEST_CASE("the cause is shown in full, explained findings in one line, unchecked rules once") {
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
            "not checked   2 of 6 rules: /dev/kmsg: Operation not permitted (2)\n");
}

TEST_CASE("a healthy machine is one line") {
  model::Diagnosis diagnosis;
  diagnosis.verdict = "nothing wrong was found";
  diagnosis.checked = {"HW01", "HW02"};
  CHECK(output::diagnosis_text(diagnosis, {}) == "nothing wrong was found   2 rules checked\n");
}

TEST_CASE("the verdict has its own line, and the number of unchecked rules comes last") {
  model::Diagnosis diagnosis;
  diagnosis.verdict = "nothing wrong was found";
  diagnosis.checked = {"HW01", "HW02"};
  diagnosis.not_checked = {{"DRV01", "x"}, {"DRV01", "y"}, {"DRV02", "x"}};
  CHECK(output::diagnosis_text(diagnosis, {}) ==
        "nothing wrong was found\n\nnot checked   2 of 4 rules: x (2); y\n");
}

TEST_CASE("if no rule could be checked, no number is shown") {
  model::Diagnosis diagnosis;
  diagnosis.verdict = "nothing could be checked";
  diagnosis.not_checked = {{"SRC05", "a.py: line 1 is not Python"}};
  CHECK(output::diagnosis_text(diagnosis, {}) ==
        "nothing could be checked\n\nnot checked   1 of 1 rule: a.py: line 1 is not Python\n");
}

TEST_CASE("a missing GPU is reported once, and everything is shown with --all") {
  model::Diagnosis diagnosis;
  diagnosis.findings = {finding("HW01", Severity::kInfo, "there is no GPU on the PCI bus"),
                        finding("RT10", Severity::kInfo, "a small window")};
  diagnosis.verdict = "there is no GPU on the PCI bus; nothing wrong was found";
  const std::string text = output::diagnosis_text(diagnosis, {});
  CHECK(text.find("no GPU on the PCI bus") == text.rfind("no GPU on the PCI bus"));
  CHECK(text.find("a small window") != std::string::npos);
  CHECK(output::diagnosis_text(diagnosis, {}, true).find("HW01") != std::string::npos);
}

TEST_CASE("a pasted error that is the first finding is not repeated at the end") {
  model::Diagnosis diagnosis;
  diagnosis.findings = {finding("ERR01", Severity::kError, "the pasted error: memory ran out")};
  diagnosis.findings.front().fix = {{"berth ps", "who holds it"}};
  model::KnownMessage message;
  message.name = "out-of-memory";
  message.text = "CUDA out of memory";
  message.means = "memory ran out";
  message.rules = {"RT02"};
  model::DiagnosisParts parts;
  parts.error = {message};
  const std::string text = output::diagnosis_text(diagnosis, {}, false, parts);
  CHECK(text.starts_with("the pasted error: memory ran out"));
  CHECK(text.find("it usually means") == std::string::npos);
  CHECK(text.find("do this") != std::string::npos);
  CHECK(text.ends_with("the error   its cause was not checked here\n"));
  parts.error->front().compared = true;
  CHECK(output::diagnosis_text(diagnosis, {}, false, parts)
            .ends_with("the error   no check on this machine confirms this cause\n"));
}

TEST_CASE("the same finding of several GPUs is shown once with all of them") {
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
  CHECK(text.find("a small window, and 2 more like this") != std::string::npos);
  CHECK(text.find("another") != std::string::npos);
  CHECK(text.find("modprobe") == text.rfind("modprobe"));
}

TEST_CASE("a finding in one line is wrapped, so that its address is not cut") {
  model::Diagnosis diagnosis;
  for (const char* title :
       {"the host can address only 256 MiB of the 24.0 GiB of GPU 0000:1a:00.0",
        "the host can address only 256 MiB of the 24.0 GiB of GPU 0000:1b:00.0"})
    diagnosis.findings.push_back(finding("RT10", Severity::kInfo, title));
  output::Terminal terminal;
  terminal.width = 60;
  const std::string text = output::diagnosis_text(diagnosis, terminal);
  CHECK(text.find("…") == std::string::npos);
  CHECK(text.find("0000:1a:00.0, and 1 more like this") != std::string::npos);
  CHECK(text.find("RT10\n") != std::string::npos);
}

TEST_CASE("the inspected Python is named, and null if it was not requested") {
  model::Diagnosis diagnosis;
  diagnosis.verdict = "nothing wrong was found";
  model::DiagnosisParts parts;
  CHECK(nlohmann::json::parse(output::diagnosis_json(diagnosis, parts))["python"].is_null());
  parts.python = model::PythonSeen{"/usr/bin/python3", "3.11.2", {}};
  CHECK(output::diagnosis_text(diagnosis, {}, false, parts)
            .ends_with("examined   /usr/bin/python3 (3.11.2)\n"));
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
