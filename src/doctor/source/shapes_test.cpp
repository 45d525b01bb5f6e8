// Tests that rules also find the mistakes of source_test.cpp in code that is written differently.
#include "doctor/source/pairs.hpp"

namespace berth::doctor::source::shapes_test {
namespace {

/// Loops with mixed precision or accelerate, and several notations of a sum.
constexpr Pair kPythonSteps[] = {
    {"loss_keeps_graph", 4,
     "for x in data:\n  loss = f(x)\n  scaler.scale(loss).backward()\n  total += loss\n",
     "for x in data:\n  loss = f(x)\n  scaler.scale(loss).backward()\n  total += "
     "loss.detach()\n"},
    {"loss_keeps_graph", 4,
     "for x in data:\n  loss = f(x)\n  accelerator.backward(loss)\n  seen.append(loss)\n",
     "for x in data:\n  loss = f(x)\n  seen += [loss]\n  total = total + loss\n"
     "accelerator.backward(total + sum(seen))\n"},
    {"loss_keeps_graph", 4,
     "for x in data:\n  loss = f(x)\n  (loss / 4).backward()\n  total += loss.mean()\n",
     "for x in data:\n  loss = f(x)\n  (loss / 4).backward()\n  loss = loss.detach()\n  total += "
     "loss * 4\n"},
    {"loss_keeps_graph", 4, "for x in data:\n  loss = f(x)\n  loss.backward()\n  seen += [loss]\n",
     "for x in data:\n  loss = f(x)\n  loss.backward()\n  seen += [loss]\n  seen.clear()\n"},
    {"loss_keeps_graph", 4,
     "for x in data:\n  loss = f(x)\n  loss.backward()\n  d['loss'] += loss\n",
     "for x in data:\n  d = new()\n  loss = f(x)\n  loss.backward()\n  d['loss'] += loss\n"},
    {"loss_keeps_graph", 4,
     "for x in data:\n  loss = f(x)\n  loss.backward()\n  seen = seen + [loss]\n",
     "for x in data:\n  y = f(x)\n  y.backward(grad)\n  seen = seen + [grad]\n"},
    {"loss_keeps_graph", 4,
     "class M(L.LightningModule):\n  def training_step(self, b, i):\n    loss = f(b)\n    "
     "self.total += loss\n    return {'loss': loss}\n",
     "class M(L.LightningModule):\n  def training_step(self, b, i):\n    loss = f(b)\n    "
     "self.total += loss.detach()\n    n = 0\n    n += loss\n    return loss\n"},
    {"waits_every_step", 4,
     "for x in data:\n  loss = f(x)\n  scaler.scale(loss).backward()\n  print(f'{loss:.3f}')\n",
     "for x in data:\n  loss = f(x)\n  scaler.scale(loss).backward()\nprint(f'{loss:.3f}')\n"},
    {"visible_too_late", 5,
     "import os\nfrom tensorflow import keras\nm = keras.Sequential([])\nm.fit(x, y)\n"
     "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n",
     "import os\nfrom sklearn import svm\nm = svm.SVC()\nm.fit(x, y)\n"
     "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"},
    {"visible_too_late", 4,
     "import os\nfrom transformers import pipeline\np = pipeline('text-generation', device=0)\n"
     "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n",
     "import os\nfrom transformers import pipeline\np = pipeline('text-generation', device=-1)\n"
     "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"},
    {"visible_too_late", 5,
     "import os\nfrom transformers import Trainer\nt = Trainer(model=m)\nt.train()\n"
     "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n",
     "import os\nfrom transformers import Trainer\nt = Trainer(model=m, "
     "args=A(use_cpu=True))\nt.train()\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"},
    {"visible_too_late", 5,
     "import os\nimport pytorch_lightning as pl\nt = pl.Trainer(gpus=1)\nt.fit(m)\n"
     "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n",
     "import os\nimport pytorch_lightning as pl\nt = pl.Trainer(accelerator='cpu')\nt.fit(m)\n"
     "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"},
    {"fork_after_cuda", 6,
     "import torch, multiprocessing as mp\ndef w(i):\n  torch.zeros(3, device='cuda')\n"
     "dev = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\nm.to(dev)\n"
     "mp.Process(target=w, args=(1,)).start()\n",
     "import torch, multiprocessing as mp\ndef w(i):\n  print(i)\n"
     "dev = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\nm.to(dev)\n"
     "mp.Process(target=w, args=(1,)).start()\n"},
    {"pool_after_cuda", 6,
     "import torch, multiprocessing as mp\ndef w(i):\n  torch.zeros(3, device='cuda')\n"
     "dev = 'cuda' if torch.cuda.is_available() else 'cpu'\nm.to(dev)\nwith mp.Pool(4) as p:\n  "
     "p.map(w, [1])\n",
     "import torch, multiprocessing as mp\ndef w(i):\n  return i\n"
     "dev = 'cuda' if torch.cuda.is_available() else 'cpu'\nm.to(dev)\nwith mp.Pool(4) as p:\n  "
     "p.map(w, [1])\n"},
    {"timed_launch", 3,
     "import timeit\nm = net().cuda()\nprint(timeit.timeit('m(x)', globals=globals()))\n",
     "import timeit\nm = net()\nprint(timeit.timeit('m(x)', globals=globals()))\n"},
    {"workers_from_cores", 3,
     "import os\nn = os.cpu_count() // 2\nl = DataLoader(d, num_workers=n)\n",
     "import os\nn = min(8, os.cpu_count())\nl = DataLoader(d, num_workers=n)\n"},
    {"pruned_and_kept", 2,
     "from torch.nn.utils import prune\nprune.global_unstructured(p, "
     "pruning_method=prune.L1Unstructured, amount=0.2)\n",
     "from torch.nn.utils import prune\nprune.is_pruned(m)\n"},
    {"set_device_cpu", 1, "torch.cuda.set_device('cpu')\n",
     "def f():\n  class torch:\n    class cuda:\n      set_device = print\n  "
     "torch.cuda.set_device('cpu')\n"},
};

TEST_CASE("a training loop is recognised by its backward pass, however it is written") {
  check(Kind::kPython, kPythonSteps);
}

TEST_CASE("a long file is read to its end: no rule goes over all of it for each line") {
  std::string text = "import os, torch\n";
  for (int i = 0; i < 2500; ++i)
    text += "def f" + std::to_string(i) +
            "():\n  return g()\nif a:\n  for x in data:\n    loss = "
            "f(x)\n    loss.backward()\n    total += loss.item()\n  "
            "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\nm.cuda()\n";
  Source source = read_bytes("a.py", Kind::kPython, text);
  // On a busy machine, python3 may exceed its ten seconds, so try again.
  for (int more = 0; more < 5 && !source.no_tree.empty(); ++more)
    source = read_bytes("a.py", Kind::kPython, text);
  CHECK(source.no_tree == "");
  CHECK(source.marks.size() > 4000);
}

constexpr Pair kPythonCommands[] = {
    {"export_in_system", 2, "import os\nos.system('export CUDA_VISIBLE_DEVICES=1')\n",
     "import os\nos.system('export CUDA_VISIBLE_DEVICES=1; python train.py')\n"},
    {"visible_in_one", 2, "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0;1'\n",
     "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = 'GPU-1-2,MIG-3 4'\n"},
    {"visible_in_one", 2, "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0-3'\n",
     "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '-1'\n"},
    {"visible_in_one", 2, "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0 1'\n",
     "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = ''\n"},
    {"visible_names_nothing", 2, "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '[0,1]'\n",
     "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = str([0, 1])[1:-1]\n"},
    {"visible_names_nothing", 2, "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = 'cuda:0'\n",
     "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = f'{gpu}'\n"},
    {"visible_names_nothing", 2, "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = 'None'\n",
     "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = 'none'\n"},
};

constexpr Pair kDockerfile[] = {
    {"tensorflow_gpu", 3, "FROM x\nRUN make -j$((1<<N))\nRUN pip install tensorflow-gpu\n", ""},
    {"tensorflow_gpu", 3, "FROM x\nRUN <<EOF\npip install tensorflow-gpu\nEOF\n",
     "FROM x\nRUN python <<EOF\npip install tensorflow-gpu\nEOF\nCOPY <<E /a\n"
     "RUN pip install tensorflow-gpu\nE\n"},
    {"device_chmod", 4, "RUN bash <<-'X'\n\ntrue\nchmod 777 /dev/nvidia0\nX\nRUN true\n",
     "RUN x <<< y\nRUN echo $((1<<2))\nRUN true\n"},
    {"nvprof", 1, "CMD [\"nvprof\", \"python\", \"train.py\"]\n", "CMD [\"python\", \"nvprof\"]\n"},
    {"tensorflow_gpu", 1, "RUN [\"pip\",\"install\",\"tensorflow-gpu\"]\n",
     "RUN [\"pip\",\"uninstall\",\"tensorflow-gpu\"]\n"},
    {"tensorflow_gpu", 1, "RUN [\"/bin/sh\", \"-c\", \"pip install tensorflow-gpu\"]\n",
     "RUN [\"/bin/sh\", \"-c\", \"echo pip install tensorflow-gpu\"]\n"},
    {"old_cuda_image", 2, "ARG CUDA=11.3.1\nFROM nvidia/cuda:${CUDA}-base-ubuntu20.04\n",
     "ARG CUDA=12.6.1\nFROM nvidia/cuda:${CUDA}-base-ubuntu22.04\n"},
    {"library_path_for_wheels", 2,
     "FROM x AS b\nENV LD_LIBRARY_PATH=/usr/local/cuda/lib64\nFROM b AS c\nRUN pip install torch\n",
     "FROM x AS b\nENV LD_LIBRARY_PATH=/usr/local/cuda/lib64\nFROM y\nRUN pip install torch\n"},
};

constexpr Pair kRequirements[] = {
    {"tensorflow_gpu_listed", 1, "tensorflow-gpu ; python_version >= '3.8'\n",
     "tensorflow-gpu ; python_version<\"3.8\"\n"},
    {"tensorflow_gpu_listed", 1, "tensorflow-gpu ; python_version == '3.9'\n",
     "tensorflow-gpu ; python_version < '3.9'\n"},
    {"tensorflow_gpu_listed", 1, "tensorflow-gpu ; python_version <= '3.9'\n",
     "tensorflow-gpu ; python_version <= '3.8'\n"},
};

constexpr Pair kYaml[] = {
    {"extra_index_listed", 3,
     "dependencies:\n  - pip:\n    - --extra-index-url https://download.pytorch.org/whl/cu121\n"
     "    - torch\n",
     "dependencies:\n  - pip:\n    - --extra-index-url https://download.pytorch.org/whl/cu121\n"
     "    - torch==2.3.1+cu121\n"},
    {"visible_with_blank", 3, "dependencies:\nvariables:\n  CUDA_VISIBLE_DEVICES: \"0, 1\"\n",
     "dependencies:\nvariables:\n  CUDA_VISIBLE_DEVICES: \"0,1\"\n"},
    {"launch_blocking", 3, "dependencies:\nvariables:\n  CUDA_LAUNCH_BLOCKING: 1\n",
     "dependencies:\nvariables:\n  CUDA_LAUNCH_BLOCKING: 0\n"},
    {"launch_blocking", 3,
     "services:\n  a:\n    environment: {A: \"x, y\", CUDA_LAUNCH_BLOCKING: \"1\"}\n",
     "services:\n  a:\n    environment: {A: \"CUDA_LAUNCH_BLOCKING: 1\"}\n"},
};

TEST_CASE(
    "commands and lists in Python, and here-documents, exec forms and stages in a Dockerfile") {
  check(Kind::kPython, kPythonCommands);
  check(Kind::kDockerfile, kDockerfile);
}

TEST_CASE("requirements that no Python of today takes, and variables in YAML") {
  check(Kind::kRequirements, kRequirements);
  check(Kind::kYaml, kYaml);
}

TEST_CASE("a notebook's magic has its place in the order, and a cell of the shell its end") {
  const auto cells = [](const std::string& first, const std::string& then) {
    return marks_of(Kind::kNotebook, "{\"cells\": [{\"cell_type\": \"code\", \"source\": \"" +
                                         first + "\"},\n{\"cell_type\": \"code\", \"source\": \"" +
                                         then + "\"}]}");
  };
  CHECK(cells("m.cuda()", "%env CUDA_VISIBLE_DEVICES=1") == "visible_too_late:2 ");
  CHECK(cells("m.cuda()", "%set_env CUDA_VISIBLE_DEVICES=$gpu") == "visible_too_late:2 ");
  CHECK(cells("%env CUDA_VISIBLE_DEVICES=1", "m.cuda()") == "");
  CHECK(cells("m.cuda()", "%env CUDA_VISIBLE_DEVICES=1\\n!python train.py") == "");
  CHECK(cells("%env CUDA_VISIBLE_DEVICES=0, 1", "m.cuda()") == "visible_with_blank:1 ");
  CHECK(cells("x = 1", "%%bash\\nexport CUDA_VISIBLE_DEVICES=1") == "export_in_subshell:2 ");
  CHECK(cells("x = 1", "%%bash\\nexport CUDA_VISIBLE_DEVICES=1\\npython a.py") == "");
  CHECK(cells("x = m.cuda()", "%timeit x @ x") == "timed_launch:2 ");
  CHECK(cells("x = m", "%timeit x @ x") == "");
}

}  // namespace
}  // namespace berth::doctor::source::shapes_test
