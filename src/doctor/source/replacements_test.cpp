// Tests that a replacement keeps the meaning of the line and never selects another GPU.
#include <doctest/doctest.h>

#include "doctor/source/source.hpp"

namespace berth::doctor::source {
namespace {

/// The first replacement that the rule suggests for the line; "" if there is none.
std::string instead(Kind kind, const std::string& bytes, const char* rule) {
  const auto diagnosis = diagnose({read_bytes("train.py", kind, bytes)}, {rule});
  return diagnosis.findings.empty() ? "" : diagnosis.findings[0].fix[0].command;
}

std::string late(const std::string& value) {
  return instead(Kind::kPython,
                 "import os, torch\nm.cuda()\nos.environ['CUDA_VISIBLE_DEVICES'] = " + value + "\n",
                 "SRC05");
}

std::string in_notebook(const std::string& line) {
  return instead(Kind::kNotebook,
                 R"({"cells": [{"cell_type": "code", "source": [")" + line + R"("]}]})", "SRC06");
}

}  // namespace

TEST_CASE("a replacement names the GPUs that the line names") {
  CHECK(late("'3'") == "berth run --devices 3 -- python train.py");
  CHECK(late("'0, 2'") == "berth run --devices 0,2 -- python train.py");
  CHECK(late("''") == "berth run --gpus none -- python train.py");
  CHECK(late("'-1'") == "berth run --gpus none -- python train.py");
  CHECK(late("str(args.gpu)") == "berth run --devices … -- python train.py");
  const auto shell = [](const char* line) { return instead(Kind::kShell, line, "SRC37"); };
  CHECK(shell("export CUDA_VISIBLE_DEVICES='0, 2'\n") == "CUDA_VISIBLE_DEVICES=0,2");
  CHECK(shell("export CUDA_VISIBLE_DEVICES=0, 2\n") == "CUDA_VISIBLE_DEVICES=0,2");
  CHECK(shell("export CUDA_VISIBLE_DEVICES=3,2,\n") == "CUDA_VISIBLE_DEVICES=3,2");
  CHECK(instead(Kind::kDockerfile, "ENV CUDA_VISIBLE_DEVICES=5\n", "SRC07") ==
        "docker run --gpus '\"device=5\"' …");
}

TEST_CASE("a replacement sets the variable that the line sets") {
  CHECK(in_notebook("!export CUDA_VISIBLE_DEVICES=3") == "%env CUDA_VISIBLE_DEVICES=3");
  CHECK(in_notebook("!export CUDA_VISIBLE_DEVICES=") == "%env CUDA_VISIBLE_DEVICES=");
  CHECK(in_notebook("!export NCCL_DEBUG=INFO") == "%env NCCL_DEBUG=INFO");
  CHECK(in_notebook("!export LD_LIBRARY_PATH=/x:$LD_LIBRARY_PATH") == "%env LD_LIBRARY_PATH=…");
}

TEST_CASE("a replacement serves the driver that served the line, and starts what the file is") {
  const auto conda = [](const char* package) {
    return instead(Kind::kShell, std::string("conda install pytorch -c pytorch ") + package + "\n",
                   "SRC18");
  };
  CHECK(conda("cudatoolkit=11.3").ends_with("/whl/cu118"));
  CHECK(conda("pytorch-cuda=12.1").ends_with("/whl/cu126"));
  // In a YAML list, the replacement is a list item and not a command.
  CHECK(instead(Kind::kYaml, "channels: [pytorch]\ndependencies: [pytorch-cuda=11.8]\n", "SRC18") ==
        "- pytorch-gpu");
  CHECK(instead(Kind::kNotebook,
                R"json({"cells": [{"cell_type": "code", "source": ["import torch\n", )json"
                R"json("torch.cuda.set_device('cpu')"]}]})json",
                "SRC02") == "berth run --gpus none -- jupyter lab train.py");
}

TEST_CASE("a replacement names the tensor on both sides of the assignment") {
  CHECK(instead(Kind::kPython, "import torch\nx = torch.ones(3)\nx.to('cuda')\n", "SRC42") ==
        "x = x.to(\"cuda\")");
}

TEST_CASE("a replacement keeps what else a call was given") {
  const auto old = [](const std::string& call) {
    return instead(Kind::kPython, "import torch\nx = " + call + "\n", "SRC09");
  };
  CHECK(old("torch.cuda.amp.autocast()") == "torch.amp.autocast(\"cuda\")");
  CHECK(old("torch.cuda.amp.autocast(enabled=use)") == "torch.amp.autocast(\"cuda\", enabled=use)");
  // "True" needs a name, because the first argument of the new function is the device.
  CHECK(old("torch.cuda.amp.autocast(True)") == "torch.amp.autocast(\"cuda\", enabled=True)");
  CHECK(old("torch.cuda.amp.autocast(use, torch.half)") ==
        "torch.amp.autocast(\"cuda\", enabled=use, dtype=torch.half)");
  CHECK(old("torch.cuda.amp.GradScaler()") == "torch.amp.GradScaler(\"cuda\")");
  CHECK(old("torch.cuda.amp.GradScaler(2.0, enabled=args.amp)") ==
        "torch.amp.GradScaler(\"cuda\", 2.0, enabled=args.amp)");
  CHECK(old("torch.cuda.amp.autocast(**more)") == "torch.amp.autocast(\"cuda\", …)");
}

TEST_CASE("what to write instead is of the kind that the file holds") {
  CHECK(instead(Kind::kRequirements, "tensorflow-gpu\n", "SRC16") == "tensorflow[and-cuda]");
  CHECK(instead(Kind::kYaml, "dependencies:\n- pip:\n  - tensorflow-gpu\n", "SRC16") ==
        "tensorflow[and-cuda]");
  CHECK(instead(Kind::kShell, "pip install tensorflow-gpu\n", "SRC16") ==
        "pip install 'tensorflow[and-cuda]'");
  const auto list = [](const char* value) {
    return instead(Kind::kShell, std::string("export CUDA_VISIBLE_DEVICES='") + value + "'\n",
                   "SRC37");
  };
  CHECK(list("0;1") == "CUDA_VISIBLE_DEVICES=0,1");
  CHECK(list("0-3") == "CUDA_VISIBLE_DEVICES=0,1,2,3");
  CHECK(list("[0, 1]") == "CUDA_VISIBLE_DEVICES=0,1");
  CHECK(list("cuda:0,cuda:1") == "CUDA_VISIBLE_DEVICES=0,1");
  CHECK(list("None") == "CUDA_VISIBLE_DEVICES=-1");
  CHECK(instead(Kind::kPython, "import os\nos.system('export CUDA_VISIBLE_DEVICES=1')\n",
                "SRC06") == "os.environ[\"CUDA_VISIBLE_DEVICES\"] = \"1\"");
}

TEST_CASE("a second index is taken from PyTorch's packages, and none of the others is lost") {
  const auto shell = [](const char* line) { return instead(Kind::kShell, line, "SRC19"); };
  constexpr const char* kIndex = " --extra-index-url https://download.pytorch.org/whl/cu121\n";
  const auto with = [&](const char* line) { return shell((std::string(line) + kIndex).c_str()); };
  CHECK(with("pip install -U torch numpy torchvision 'scipy<1.14'") ==
        "pip install -U torch torchvision --index-url https://download.pytorch.org/whl/cu121 && "
        "pip install -U numpy 'scipy<1.14'");
  CHECK(with("python3 -m pip install torch -r requirements.txt") ==
        "python3 -m pip install torch --index-url https://download.pytorch.org/whl/cu121 && "
        "python3 -m pip install -r requirements.txt");
  // Only one command: PyTorch is the only package, or the packages cannot be separated.
  CHECK(with("pip install torch") == "--index-url https://download.pytorch.org/whl/cu121");
  CHECK(with("pip install torch numpy --target x").starts_with("--index-url"));
}

TEST_CASE("an index's own CUDA is the one that a pinned wheel is named by") {
  const auto diagnosis =
      diagnose({read_bytes("requirements.txt", Kind::kRequirements,
                           "--extra-index-url https://download.pytorch.org/whl/cu121\ntorch\n")});
  REQUIRE(diagnosis.findings.size() == 1);
  CHECK(diagnosis.findings[0].fix[0].command == "torch==VERSION+cu121");
}

}  // namespace berth::doctor::source
