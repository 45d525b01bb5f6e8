// Every row of the rules: a file that holds the line, and its correct twin.
#include "doctor/source/source.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "doctor/source/readers.hpp"

namespace berth::doctor::source {
namespace {

struct Pair {
  const char* what;
  int line;  // of the mark
  const char* wrong;
  const char* right;
};

std::string marks_of(Kind kind, std::string_view bytes) {
  std::string all;
  for (const Mark& mark : read_bytes("train.py", kind, bytes).marks)
    all += mark.what + ":" + std::to_string(mark.line) + " ";
  return all;
}

void check(Kind kind, std::span<const Pair> pairs) {
  for (const Pair& pair : pairs) {
    CAPTURE(pair.what);
    CHECK(marks_of(kind, pair.wrong) ==
          std::string(pair.what) + ":" + std::to_string(pair.line) + " ");
    CHECK(marks_of(kind, pair.right) == "");
  }
}

constexpr Pair kPython[] = {
    {"set_device_cpu", 2, "import torch\ntorch.cuda.set_device('cpu')\n",
     "import torch\ntorch.cuda.set_device(0)\ndevice = torch.device('cpu')\n"},
    {"set_device_cpu", 2,
     "from torch.cuda import set_device as choose\nchoose(device=0) or choose('cpu')\n",
     "from mine import set_device as choose\nchoose('cpu')\n"},
    {"is_available_replaced", 2, "import torch\ntorch.cuda.is_available = lambda: False\n",
     "import torch\nuse = torch.cuda.is_available()\n"},
    {"cudnn_off_for_cpu", 3,
     "import torch\n# disable the GPU\ntorch.backends.cudnn.enabled = False\n",
     "import torch\n# disable the GPU\ntorch.backends.cudnn.enabled = True\n"},
    {"cudnn_off", 2, "import torch\ntorch.backends.cudnn.enabled = False\n",
     "import torch\ntorch.backends.cudnn.deterministic = False\n"},
    {"setting_nobody_reads", 2, "import os\nos.environ['AMP_ENABLE'] = '1'\n",
     "import os\nos.environ['AMP_ENABLE'] = '1'\nuse = os.environ.get('AMP_ENABLE')\n"},
    {"old_autocast", 3, "import torch as t\n\nwith t.cuda.amp.autocast():\n    pass\n",
     "import torch as t\nwith t.amp.autocast('cuda'):\n    pass\n"},
    {"old_grad_scaler", 2, "from torch.cuda.amp import GradScaler\ns = GradScaler()\n",
     "from torch.amp import GradScaler\ns = GradScaler('cuda')\n"},
    {"apex_amp", 1, "from apex import amp\n", "from torch import amp\n"},
    {"half_without_scaler", 2,
     "import torch\nwith torch.autocast('cuda', dtype=torch.float16):\n    f(x).backward()\n",
     "import torch\nwith torch.autocast('cuda', dtype=torch.bfloat16):\n    f(x).backward()\n"},
    {"half_without_scaler", 2,
     "import torch\nwith torch.autocast('cuda', torch.half):\n    f(x).backward()\n",
     "import torch\nwith torch.autocast('cuda', torch.half):\n    scaler.scale(f(x)).backward()\n"},
    {"benchmark_for_memory", 2,
     "import torch\ntorch.backends.cudnn.benchmark = True  # optimise memory\n",
     "import torch\ntorch.backends.cudnn.benchmark = True  # shapes are fixed\n"},
    {"empty_cache_every_step", 4,
     "import torch\nfor x in data:\n    step(x).backward()\n    torch.cuda.empty_cache()\n",
     "import torch\nfor x in data:\n    step(x).backward()\ntorch.cuda.empty_cache()\n"},
    {"empty_cache_as_cure", 5,
     "import torch\ntry:\n    f()\nexcept RuntimeError:\n    torch.cuda.empty_cache()\n",
     "import torch\ntry:\n    f()\nfinally:\n    torch.cuda.empty_cache()\n"},
};

TEST_CASE("each line of Python that misleads is found, and its correct twin is not") {
  check(Kind::kPython, kPython);
}

TEST_CASE("what a row needs is told once and by one row") {
  std::set<std::string> seen;
  std::string last;
  for (const Row& row : rows()) {
    CHECK(seen.insert(row.what).second);
    CHECK(last <= row.id);
    CHECK((row.command[0] != '\0' || row.says[0] != '\0'));
    last = row.id;
  }
}

TEST_CASE("a finding has file, line, code and what to do instead") {
  const auto found = diagnose(
      {read_bytes("my train.py", Kind::kPython, "import torch\ntorch.cuda.set_device('cpu')\n")});
  REQUIRE(found.findings.size() == 1);
  CHECK(found.findings[0].id == "SRC02");
  CHECK(found.findings[0].file == "my train.py");
  CHECK(found.findings[0].line == 2);
  CHECK(found.findings[0].evidence[0] == "torch.cuda.set_device('cpu')");
  CHECK(found.findings[0].fix[0].command == "berth run --gpus none -- python 'my train.py'");
  CHECK(std::count(found.checked.begin(), found.checked.end(), "SRC03") == 1);
  CHECK(diagnose({read_bytes("a.py", Kind::kPython, "")}, {"SRC03"}).checked.size() == 1);
}

TEST_CASE(
    "where the syntax tree cannot be had, the unmistakable is found and the rest not checked") {
  const auto found =
      diagnose({read_bytes("a.py", Kind::kPython,
                           "print 'old'\n'''\ntorch.cuda.set_device('cpu')\n'''\n"
                           "# torch.cuda.set_device('cpu')\ntorch.cuda.set_device( 'cpu' )\n")});
  REQUIRE(found.findings.size() == 1);
  CHECK(found.findings[0].line == 6);
  CHECK(found.checked.empty());
  CHECK_FALSE(found.not_checked.empty());
}

TEST_CASE("hostile Python is read without a crash") {
  const std::string nul("import torch\0\nx = 1\n", 20);
  CHECK(marks_of(Kind::kPython, nul) == "");
  CHECK(marks_of(Kind::kPython, std::string(200000, '(')) == "");
  CHECK(marks_of(Kind::kPython, "x = " + std::string(50000, '-') + "1\n") == "");
  std::string sum = "x = 1";
  for (int i = 0; i < 20000; ++i) sum += " + 1";
  CHECK(marks_of(Kind::kPython, sum) == "");
  CHECK(marks_of(Kind::kPython, "\xff\xfe\x00") == "");
}

}  // namespace
}  // namespace berth::doctor::source
