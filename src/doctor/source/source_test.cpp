// Tests every row of the rules with a file that has the misleading line, and with the corrected
// file.
#include "doctor/source/source.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "doctor/source/article.hpp"
#include "doctor/source/device_pairs.hpp"
#include "doctor/source/pairs.hpp"
#include "doctor/source/readers.hpp"

namespace berth::doctor::source::source_test {
namespace {

constexpr Pair kPython[] = {
    {"set_device_cpu", 2, "import torch\ntorch.cuda.set_device('cpu')\n",
     "import torch\ntorch.cuda.set_device(0)\ndevice = torch.device('cpu')\n"},
    {"set_device_cpu", 2,
     "from torch.cuda import set_device as choose\nchoose(device=0) or choose('cpu')\n",
     "from mine import set_device as choose\nchoose('cpu')\n"},
    {"set_device_cpu", 3,
     "import torch\ndev = torch.device(type='cpu')\ntorch.cuda.set_device(device=dev)\n",
     "import torch\ndev = torch.device('cuda', 1)\ntorch.cuda.set_device(device=dev)\n"},
    {"is_available_replaced", 2,
     "import torch\nsetattr(torch.cuda, 'is_available', lambda: False)\n",
     "import torch\ndef f():\n  return True\ntorch.cuda.is_available = f\n"},
    {"is_available_replaced", 4,
     "import torch\ndef f():\n  return False\ntorch.cuda.is_available = f\n",
     "import torch\nsetattr(torch.cuda, 'is_available', True)\n"},
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
    {"half_without_scaler", 3,
     "import torch\nf(x).backward()\nwith torch.autocast('cuda', dtype=torch.float16):\n  f(x)\n",
     "import torch\nf(x).backward()\nwith torch.autocast('cuda', dtype=torch.float16):\n"
     "  with torch.inference_mode():\n    f(x)\nwith torch.no_grad(), torch.autocast('cuda', "
     "torch.half):\n  f(x)\n@torch.inference_mode()\ndef g():\n  with torch.autocast('cuda', "
     "torch.half):\n    f(x)\n"},
    {"benchmark_for_memory", 2,
     "import torch\ntorch.backends.cudnn.benchmark = True  # optimise memory\n",
     "import torch\ntorch.backends.cudnn.benchmark = True  # shapes are fixed\n"},
    {"benchmark_for_memory", 4,
     "import torch\n# the autotuner reduces the use of\n# GPU memory\n"
     "torch.backends.cudnn.benchmark = True\n",
     "import torch\n# the autotuner is faster,\n# but may need more GPU memory\n"
     "torch.backends.cudnn.benchmark = True\n"},
    {"benchmark_for_memory", 3,
     "import torch\nfrom torch.backends import cudnn\ncudnn.benchmark = True  # 节省显存\n",
     "import torch\nfrom torch.backends import cudnn\ncudnn.benchmark = True  # "
     "更快，但会占用更多显存\n"},
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

constexpr Pair kPythonOrder[] = {
    {"visible_too_late", 4,
     "import os, torch\nm = net().cuda()\n\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n",
     "import os, torch\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\nm = net().cuda()\n"},
    {"visible_too_late", 4,
     "import os, torch\nx = torch.ones(1, device='cuda:0')\nif a:\n  "
     "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n",
     "import os, torch\nif a:\n  x = torch.ones(1, device='cuda:0')\nelse:\n  "
     "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"},
    {"visible_maybe_late", 4,
     "import os, torch\nif a:\n  m = net().cuda()\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n",
     "import os, torch\nif a:\n  m = net().cuda()\n  raise "
     "SystemExit\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"},
    {"visible_maybe_late", 3,
     "import os, torch\ntorch.cuda.is_available()\nos.environ.setdefault('CUDA_VISIBLE_DEVICES', "
     "'1')\n",
     "import os, torch\ndef f():\n  "
     "torch.cuda.is_available()\nos.environ.setdefault('CUDA_VISIBLE_DEVICES', '1')\n"},
    {"visible_too_late", 4,
     "import os, torch\ndev = 'cuda:1'\nx.to(dev)\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n",
     "import os, torch\ndev = 'cpu'\nx.to(dev)\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"},
    {"visible_too_late", 4,
     "from os import environ\nimport torch\nx = torch.ones(1, device=torch.device(f'cuda:{n}'))\n"
     "environ |= {'CUDA_VISIBLE_DEVICES': '1'}\n",
     "from os import environ\nimport torch\nenv = environ.copy()\nx = torch.ones(1, "
     "device=torch.device(f'cuda:{n}'))\nenv |= {'CUDA_VISIBLE_DEVICES': '1'}\n"},
    {"visible_too_late", 5,
     "import os, torch\ndef start():\n  net().cuda()\ndef choose(n):\n  "
     "os.environ.update(CUDA_VISIBLE_DEVICES=str(n))\nstart()\nchoose(1)\n",
     "import os, torch\ndef start():\n  net().cuda()\ndef choose(n):\n  "
     "os.environ.update(CUDA_VISIBLE_DEVICES=str(n))\nchoose(1)\nstart()\n"},
    {"visible_too_late", 3,
     "import os, jax\njax.devices()\nos.putenv('CUDA_VISIBLE_DEVICES', '1')\n",
     "import os, jax\nos.putenv('CUDA_VISIBLE_DEVICES', '1')\njax.devices()\n"},
    {"visible_too_late", 4,
     "import os\nimport tensorflow as tf\ntf.config.list_physical_devices('GPU')\n"
     "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n",
     "import os\nimport tensorflow as tf\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"
     "tf.config.list_physical_devices('GPU')\n"},
    {"visible_too_late", 3,
     "import os, cupy as cp\ncp.zeros(3)\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n",
     "import os, subprocess, torch\ntorch.cuda.device_count()\nnet().cuda()\nfor n in range(4):\n"
     "  os.environ['CUDA_VISIBLE_DEVICES'] = str(n)\n  subprocess.Popen(['python', 'a.py'])\n"},
    {"visible_too_late", 3,
     "import os\nimport pycuda.autoinit\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n",
     "import os, subprocess, torch\nnet().cuda()\nsubprocess.run(['a'], env={**os.environ, "
     "'CUDA_VISIBLE_DEVICES': '1'})\nsubprocess.run(['a'], env=dict(os.environ, "
     "CUDA_VISIBLE_DEVICES='1'))\n"},
    {"library_path_too_late", 2,
     "import os\nos.environ['LD_LIBRARY_PATH'] = '/usr/local/cuda/lib64'\nimport torch\n",
     "import os, subprocess\nos.environ['LD_LIBRARY_PATH'] = '/usr/local/cuda/lib64'\n"
     "subprocess.run(['nvcc'])\n"},
    {"library_path_too_late", 2,
     "import os\nos.environ['LD_LIBRARY_PATH'] += ':/usr/local/cuda/lib64'\n",
     "import os, sys\nos.environ['LD_LIBRARY_PATH'] = '/x'\nos.execv(sys.executable, "
     "['python'])\n"},
    {"retry_inside_except", 5,
     "import torch\ntry:\n  y = step(b)\nexcept torch.cuda.OutOfMemoryError:\n  y = step(b // 2)\n",
     "import torch\ntry:\n  y = step(b)\nexcept torch.cuda.OutOfMemoryError:\n  y = None\nif y is "
     "None:\n  y = step(b // 2)\n"},
    {"retry_inside_except", 6,
     "try:\n  y = step(b)\nexcept RuntimeError as e:\n  if 'out of memory' not in str(e):\n    "
     "raise\n  y = step(1)\n",
     "try:\n  y = step(b)\nexcept RuntimeError as e:\n  y = step(1)\n"},
    {"retry_inside_except", 6,
     "import torch\ntry:\n  y = step(b)\nexcept torch.OutOfMemoryError:\n  "
     "c = None\n  "
     "y = step(b)\n",
     "import torch\ntry:\n  y = step(b)\nexcept torch.OutOfMemoryError:\n  b = b.to('cpu')\n  "
     "y = step(b)\n"},
    {"retry_on_any_cuda", 5,
     "while True:\n  try:\n    step()\n  except RuntimeError as e:\n    if 'CUDA' in str(e):\n     "
     " continue\n    raise\n",
     "while True:\n  try:\n    step()\n  except RuntimeError as e:\n    if 'CUDA' in str(e):\n     "
     " log(e)\n      raise\n"},
    {"retry_on_any_cuda", 5,
     "for i in range(3):\n  try:\n    step()\n  except RuntimeError as e:\n    if 'CUDA' in str(e) "
     "and i < 2:\n      continue\n    raise\n",
     "for i in range(3):\n  try:\n    step()\n  except RuntimeError as e:\n    if 'CUDA' in str(e) "
     "and 'out of memory' in str(e):\n      continue\n    raise\n"},
    {"retry_on_any_cuda", 5,
     "while True:\n  try:\n    step()\n  except RuntimeError as e:\n    if 'timed out' in str(e) "
     "or "
     "'CUDA error' in str(e):\n      continue\n    raise\n",
     "while True:\n  try:\n    step()\n  except RuntimeError as e:\n    if 'CUDA' in str(e) and "
     "is_oom(e):\n      continue\n    raise\n"},
    {"retry_on_any_cuda", 5,
     "def train(n):\n  try:\n    return fit(n)\n  except RuntimeError as e:\n    if 'CUDA' in "
     "str(e) and n > 1:\n      return train(n // 2)\n    raise\n",
     "def train(n):\n  try:\n    return fit(n)\n  except RuntimeError as e:\n    if 'CUDA' in "
     "str(e) and n > 1:\n      return other(n // 2)\n    raise\n"},
    {"work_inside_except", 5,
     "import torch\ndef train(n):\n  try:\n    return fit(n)\n  except torch.OutOfMemoryError: "
     "return train(n // 2)\n",
     "import torch\ndef train(n):\n  while n:\n    try:\n      return fit(n)\n    except "
     "torch.OutOfMemoryError:\n      n //= 2\n"},
    {"work_inside_except", 7,
     "import torch\nm = net().cuda()\ntry:\n  y = whole(x)\nexcept RuntimeError as e:\n  if 'out "
     "of "
     "memory' in str(e):\n    y = [m(part) for part in x.chunk(2)]\n",
     "import torch\nm = net().cuda()\ny = None\ntry:\n  y = whole(x)\nexcept RuntimeError as e:\n  "
     "if 'out of memory' not in str(e):\n    raise\nif y is None:\n  y = [m(part) for part in "
     "x.chunk(2)]\n"},
    {"work_inside_except", 5,
     "import torch\ntry:\n  step(x)\nexcept torch.OutOfMemoryError:\n  y = torch.zeros(9, "
     "device='cuda')\n",
     "import torch\nm = net().cuda()\ntry:\n  step(x)\nexcept torch.OutOfMemoryError:\n  m = "
     "m.to('cpu')\n  y = m(x.cpu())\n"},
    {"tensorflow_gpu", 2, "import os\nos.system('pip install tensorflow-gpu')\n",
     "import os\nos.system('pip install tensorflow')\n"},
    {"timed_launch", 4,
     "import timeit, torch\nx = torch.ones(9).cuda()\n\nt = timeit.timeit(lambda: x @ x)\n",
     "import timeit, torch\nx = torch.ones(9).cuda()\ndef f():\n  x @ x\n  "
     "torch.cuda.synchronize()\nt = timeit.timeit(lambda: f())\n"},
    {"timed_launch", 5,
     "import timeit, torch\nm = net().cuda()\ndef step():\n  m(x)\nt = timeit.timeit(step, "
     "number=9)\n",
     "import timeit, torch\nm = net().cuda()\ndef step():\n  m(x)\n  torch.cuda.synchronize()\nt = "
     "timeit.timeit(step, number=9)\n"},
    {"timed_launch", 6,
     "import timeit, torch\ndev = 'cuda' if torch.cuda.is_available() else 'cpu'\na = "
     "torch.rand(9, "
     "device=dev)\ndef f():\n  return a @ a\nt = timeit.repeat(f)\n",
     "import timeit, torch\ndev = 'cuda' if torch.cuda.is_available() else 'cpu'\na = "
     "torch.rand(9, "
     "device=dev)\nb = torch.rand(9)\ndef f():\n  return b @ b\nt = timeit.repeat(f)\n"},
    {"batch_from_cores", 2, "import os, torch\nbatch_size = 8 * os.cpu_count()\n",
     "import os, joblib\nbatch_size = 8 * os.cpu_count()\n"},
    {"batch_from_cores", 4,
     "import multiprocessing as mp\nfrom torch.utils.data import DataLoader\nn = mp.cpu_count()\nl "
     "= "
     "DataLoader(d, batch_size=n * 4)\n",
     "import multiprocessing as mp\nfrom torch.utils.data import DataLoader\nn = mp.cpu_count()\nl "
     "= "
     "DataLoader(d, batch_size=64, prefetch_factor=n)\n"},
    {"current_device_unguarded", 3,
     "import torch\nprint(torch.cuda.is_available())\nprint(torch.cuda.current_device())\n",
     "import torch\nif torch.cuda.is_available():\n  print(torch.cuda.current_device())\n"},
    {"current_device_unguarded", 3,
     "import torch\ndef show():\n  print(torch.cuda.current_device())\nshow()\n",
     "import torch\ndef show():\n  if not torch.cuda.is_available():\n    return\n  "
     "print(torch.cuda.current_device())\nshow()\n"},
    {"current_device_unguarded", 2, "import torch\ni = torch.cuda.current_device()\n",
     "import torch\nassert torch.cuda.is_available()\ni = torch.cuda.current_device()\ntry:\n  j = "
     "torch.cuda.current_device()\nexcept RuntimeError:\n  j = None\n"},
    {"data_parallel", 2, "from torch import nn\nm = nn.DataParallel(m)\n",
     "from mine import nn\nm = nn.DataParallel(m)\n"},
    {"ddp_without_device", 3,
     "from torch.nn.parallel import DistributedDataParallel as DDP\nm = net().cuda()\nm = DDP(m)\n",
     "from torch.nn.parallel import DistributedDataParallel as DDP\nimport "
     "torch\ntorch.cuda.set_device(rank)\nm = net().cuda()\nm = DDP(m)\n"},
    {"loader_without_sampler", 3,
     "from torch.nn.parallel import DistributedDataParallel as DDP\nfrom torch.utils.data import "
     "DataLoader\ntrain = DataLoader(d, shuffle=True)\nm = DDP(m, device_ids=[r])\n",
     "from torch.nn.parallel import DistributedDataParallel as DDP\nfrom torch.utils.data import "
     "DataLoader\nval = DataLoader(d)\ntrain = DataLoader(d, sampler=DistributedSampler(d))\nm = "
     "DDP(m, device_ids=[r])\n"},
    {"nccl_renamed", 2, "import os\nos.environ['NCCL_BLOCKING_WAIT'] = '1'\n",
     "import os\nos.environ['TORCH_NCCL_BLOCKING_WAIT'] = '1'\n"},
    {"launch_blocking", 2, "import os\nos.environ['CUDA_LAUNCH_BLOCKING'] = '1'\n",
     "import os\nos.environ['CUDA_LAUNCH_BLOCKING'] = '1'\n"
     "os.environ['CUBLAS_WORKSPACE_CONFIG'] = ':16:8'\n"},
    {"launch_blocking", 2, "import os\nos.environ['CUDA_LAUNCH_BLOCKING'] = '1'\n",
     "import os\nos.environ['CUDA_LAUNCH_BLOCKING'] = '0'\n"},
    {"tf_hides_errors", 2, "import os\nos.environ.update({'TF_CPP_MIN_LOG_LEVEL': '3'})\n",
     "import os\nos.environ.update({'TF_CPP_MIN_LOG_LEVEL': '1'})\n"},
    {"pruned_and_kept", 2,
     "from torch.nn.utils import prune\nprune.l1_unstructured(m, 'weight', 0.5)\n",
     "from torch.nn.utils import prune\nprune.l1_unstructured(m, 'weight', 0.5)\nprune.remove(m, "
     "'weight')\n"},
    {"workers_from_cores", 2, "import os\nl = DataLoader(d, num_workers=os.cpu_count() - 1)\n",
     "import os\nl = DataLoader(d, num_workers=len(os.sched_getaffinity(0)))\nnum_workers = min(8, "
     "os.cpu_count())\n"},
    {"fork_after_cuda", 5,
     "import torch.multiprocessing as mp\ndef f():\n  "
     "x.to('cuda')\ny.cuda()\nmp.Process(target=f).start()\n",
     "import torch.multiprocessing as mp\ndef f():\n  "
     "x.to('cuda')\nmp.set_start_method('spawn')\ny.cuda()\nmp.Process(target=f).start()\n"},
    {"pool_after_cuda", 3, "import multiprocessing as mp\ny.cuda()\np = mp.Pool(4)\n",
     "import multiprocessing as mp\np = mp.Pool(4)\ny.cuda()\n"},
    {"waits_every_step", 4, "for x in data:\n  loss = f(x)\n  loss.backward()\n  print(loss)\n",
     "for i, x in enumerate(data):\n  loss = f(x)\n  loss.backward()\n  if i % 50 == 0:\n    "
     "print(loss)\n"},
    {"waits_every_step", 5,
     "for epoch in range(9):\n  for x in data:\n    loss = f(x)\n    loss.backward()\n    "
     "a.append(loss.item())\n",
     "for n in range(9):\n  for x in data:\n    loss = f(x)\n    loss.backward()\n  "
     "print(loss.item())\nfor epoch in range(9):\n  loss = f(all)\n  loss.backward()\n  "
     "print(loss)\n"},
    {"loss_keeps_graph", 4, "for x in data:\n  loss = f(x)\n  loss.backward()\n  total += loss\n",
     "for x in data:\n  loss = f(x)\n  loss.backward()\n  total += loss.detach()\n"},
    {"loss_keeps_graph", 4,
     "for x in data:\n  loss = f(x)\n  loss.backward()\n  running = running + loss\n",
     "for x in data:\n  loss = f(x)\n  loss.backward()\n  running = running + loss.detach()\n"
     "  seen = loss + 1\n"},
    {"loss_keeps_graph", 4,
     "for x in data:\n  loss = f(x)\n  loss.backward()\n  self.total = loss / 2 + self.total\n",
     "import torch\nfor x in data:\n  loss = f(x)\n  loss.backward()\n  with torch.no_grad():\n"
     "    total += loss\n"},
    {"loss_keeps_graph", 4,
     "for x in data:\n  loss = f(x)\n  loss.backward()\n  seen.append(loss)\n",
     "for x in data:\n  loss = 0\n  for y in x:\n    part = f(y)\n    loss += part\n  "
     "loss.backward()\n"},
    {"visible_with_blank", 2, "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0, 1'\n",
     "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0,1'\n"},
};

constexpr Pair kShell[] = {
    {"device_chmod", 2, "# make it work\nsudo chmod 777 /dev/nvidia*\n",
     "chmod 777 /tmp/x\nls /dev/nvidia*\n"},
    {"tensorflow_gpu", 1, "python -m pip install -U numpy tensorflow-gpu\n",
     "pip install 'tensorflow[and-cuda]'\necho pip install tensorflow-gpu\n"},
    {"tensorflow_gpu_pinned", 1, "pip3 install tensorflow-gpu==2.9\n",
     "pip3 install tensorflow-gpu-tools==2.9\n"},
    {"cudnn_copied", 1, "sudo cp cudnn-*/lib/libcudnn* /usr/local/cuda/lib64\n",
     "cp cudnn.tar /tmp/\n"},
    {"library_path_for_wheels", 1,
     "export LD_LIBRARY_PATH=/usr/local/cuda/lib64:$LD_LIBRARY_PATH\npip install torch\n",
     "export LD_LIBRARY_PATH=/usr/local/cuda/lib64:$LD_LIBRARY_PATH\nmake\n"},
    {"conda_pytorch", 1, "conda install pytorch torchvision cudatoolkit=11.3 -c pytorch\n",
     "conda install pytorch-gpu -c conda-forge\n"},
    {"extra_index", 1,
     "pip install torch --extra-index-url https://download.pytorch.org/whl/cu121\n",
     "pip install torch --index-url https://download.pytorch.org/whl/cu121\npip install "
     "torch==2.1.0+cu121 --extra-index-url https://download.pytorch.org/whl/cu121\n"},
    {"extra_index_mixed", 1,
     "pip install torch numpy --extra-index-url https://download.pytorch.org/whl/cu121\n",
     "pip install torch==2.5.1 numpy --extra-index-url https://download.pytorch.org/whl/cu121\n"},
    {"nvcc_version", 1, "nvcc --version\n", "nvcc -o a a.cu\n"},
    {"nvprof", 2, "cd x &&\nnvprof python train.py\n",
     "nsys profile python train.py\necho \"nvprof python\"\n"},
    {"nccl_p2p_off", 1, "NCCL_P2P_DISABLE=1 python train.py\n",
     "NCCL_P2P_DISABLE=0 python train.py\n"},
    {"nccl_debug", 1, "export NCCL_DEBUG=INFO\n",
     "export NCCL_DEBUG=WARN\ncat <<EOF\nexport NCCL_DEBUG=INFO\nEOF\n"},
    {"launch_blocking", 1, "export CUDA_LAUNCH_BLOCKING=1\n", "# export CUDA_LAUNCH_BLOCKING=1\n"},
    {"visible_split", 1, "export CUDA_VISIBLE_DEVICES=0, 1, 2\n",
     "export CUDA_VISIBLE_DEVICES=0,1,2\n"},
    {"visible_with_blank", 1, "CUDA_VISIBLE_DEVICES=\"0, 1\" python a.py\n",
     "CUDA_VISIBLE_DEVICES=$A, python a.py\n"},
    {"visible_ends_in_comma", 1, "export CUDA_VISIBLE_DEVICES=0,\n",
     "export CUDA_VISIBLE_DEVICES=\n"},
    {"batch_of_one_process", 2, "#!/bin/bash\n#SBATCH --gres=gpu:a100:4\npython train.py\n",
     "#!/bin/bash\n#SBATCH --gres=gpu:a100:4\nsrun torchrun --nproc-per-node=4 train.py\n"},
    {"batch_of_one_process", 2,
     "#!/bin/bash\n#SBATCH --gpus=2\n#SBATCH --ntasks=1\nsrun python train.py\n",
     "#!/bin/bash\n#SBATCH --gpus=2\n#SBATCH --ntasks-per-node=2\nsrun python train.py\n"},
    {"batch_of_one_process", 1,
     "#SBATCH --gres=gpu:4\nexport CUDA_VISIBLE_DEVICES=0,1,2,3\npython train.py\n",
     "#SBATCH --gres=gpu:2\nCUDA_VISIBLE_DEVICES=0 python a.py &\nCUDA_VISIBLE_DEVICES=1 python "
     "b.py\n"},
    {"batch_of_one_process", 1, "#SBATCH --gres=gpu:4\nsrun --ntasks=1 python train.py\n",
     "#SBATCH --gres=gpu:4\nsrun -n 4 python train.py\n"},
};

constexpr Pair kDockerfile[] = {
    {"visible_in_image", 2, "FROM x\nENV CUDA_VISIBLE_DEVICES=\"0\"\n",
     "FROM x\nENV CUDA_VISIBLE_DEVICES=\"\"\n"},
    {"visible_split", 1, "ENV CUDA_VISIBLE_DEVICES=-1, 1\n", "ENV CUDA_VISIBLE_DEVICES=-1 A=1\n"},
    {"visible_in_image", 2, "FROM x\nENV CUDA_VISIBLE_DEVICES 0\n",
     "FROM x\nENV NVIDIA_VISIBLE_DEVICES all\n"},
    {"tensorflow_gpu", 4,
     "FROM x\nRUN apt-get update && \\\n  # why not\n  pip install tensorflow-gpu\n",
     "FROM x\nRUN pip install tensorflow\n# RUN pip install tensorflow-gpu\n"},
    {"old_cuda_image", 1, "FROM nvidia/cuda:11.3.1-base-ubuntu20.04 AS b\n",
     "FROM nvidia/cuda:12.4.1-base-ubuntu22.04\n"},
    {"old_torch_image", 1,
     "FROM --platform=linux/amd64 pytorch/pytorch:1.9.0-cuda11.1-cudnn8-runtime\n",
     "FROM pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime\n"},
    {"old_system_image", 1, "FROM nvidia/cuda:12.1.0-base-ubuntu20.04\n",
     "ARG C\nFROM nvidia/cuda:${C}-base\n"},
};

constexpr Pair kRequirements[] = {
    {"tensorflow_gpu_listed", 2, "numpy\ntensorflow-gpu>=2\n",
     "numpy\ntensorflow[and-cuda]\n# tensorflow-gpu\n"},
    {"extra_index_listed", 1, "--extra-index-url https://download.pytorch.org/whl/cu121\ntorch\n",
     "--extra-index-url https://download.pytorch.org/whl/cu121\ntorch==2.1.0+cu121\n"},
    {"extra_index_listed", 1, "--extra-index-url=https://download.pytorch.org/whl/cu121\ntorch\n",
     "--extra-index-url https://pypi.company/simple\ntorch\n"},
    {"extra_index_listed", 2,
     "torch==2.*\n--extra-index-url https://download.pytorch.org/whl/cu121\n",
     "torch==2.5.1  # of that index\n--extra-index-url https://download.pytorch.org/whl/cu121\n"},
};

constexpr Pair kYaml[] = {
    {"conda_pytorch_listed", 6,
     "channels:\n  - pytorch\n  - defaults\ndependencies:\n  - pytorch\n  - cudatoolkit=11.3\n",
     "channels:\n  - conda-forge\ndependencies:\n  - pytorch\n  - cudatoolkit=11.3\n"},
    {"conda_pytorch_listed", 2,
     "dependencies:\n  - pytorch-cuda=12.1\nchannels: [\"pytorch\", nvidia]\n",
     "channels: [nvidia, conda-forge]\ndependencies: [pytorch-cuda=12.1]\n"},
    {"conda_pytorch_listed", 2, "channels: [pytorch]\ndependencies: [python, 'cudatoolkit=11.3']\n",
     "channels:\n- conda-forge\ndependencies: [python, cudatoolkit=11.3]\n"},
    {"visible_with_blank", 4,
     "services:\n  a:\n    environment:\n      CUDA_VISIBLE_DEVICES: \"0, 1\"\n",
     "services:\n  a:\n    environment:\n      CUDA_VISIBLE_DEVICES: \"0,1\"\n"},
    {"visible_with_blank", 4,
     "services:\n  a:\n    environment:\n    - \"CUDA_VISIBLE_DEVICES=0, 1\"\n",
     "services:\n  a:\n    environment:\n    - CUDA_VISIBLE_DEVICES=${GPUS}\n"},
    {"tensorflow_gpu_listed", 4, "dependencies:\n  - python\n  - pip:\n    - tensorflow-gpu\n",
     "dependencies:\n  - pip:\n    - numpy\n  - tensorflow-gpu\n"},
    {"service_without_gpu", 3,
     "services:\n  train:\n    image: nvidia/cuda:12.4.1-base\n    command: x\n  db:\n    image: "
     "y\n    runtime: nvidia\n",
     "services:\n  train:\n    image: nvidia/cuda:12.4.1-base\n    runtime: nvidia\n"},
    {"pod_without_gpu", 5,
     "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - image: nvidia/cuda:12.4.1-base\n",
     "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - image: nvidia/cuda:12.4.1-base\n    "
     "resources: {limits: {nvidia.com/gpu: 1}}\n"},
    {"pod_without_gpu", 5,
     "kind: Deployment\nspec:\n  nodeSelector:\n    nvidia.com/gpu.present: \"true\"\n  image: "
     "vllm/vllm-openai:v1\n  tolerations:\n  - key: nvidia.com/gpu\n    operator: Exists\n",
     "kind: Deployment\nspec:\n  nodeSelector:\n    nvidia.com/gpu.present: \"true\"\n  image: "
     "vllm/vllm-openai:v1\n  resources:\n    limits:\n      memory: 4Gi\n      nvidia.com/gpu: "
     "1\n"},
    {"request_without_limit", 7,
     "kind: Deployment\nspec:\n  resources:\n    limits:\n      memory: 4Gi\n    requests:\n      "
     "nvidia.com/gpu: 1\n",
     "kind: Deployment\nspec:\n  resources:\n    limits:\n      nvidia.com/gpu: 1\n    requests:\n "
     " "
     "    nvidia.com/gpu: 1\n"},
    {"node_without_gpu", 5,
     "kind: Deployment\nspec:\n  image: mine:1\n  tolerations:\n  - key: nvidia.com/gpu\n",
     "kind: Deployment\nmetadata:\n  annotations:\n    nvidia.com/note: x\nspec:\n  image: "
     "mine:1\n"},
    {"program_without_gpu", 3, "kind: Deployment\nspec:\n  command: [\"vllm serve model\"]\n",
     "kind: Deployment\nspec:\n  command: [\"vllm serve model\"]\n  resources: {limits: "
     "{nvidia.com/gpu: 1}}\n"},
    {"program_without_gpu", 4,
     "kind: Pod\nspec:\n  env:\n  - name: NVIDIA_VISIBLE_DEVICES\n    value: all\n",
     "kind: Pod\nspec:\n  env:\n  - name: NVIDIA_VISIBLE_DEVICES\n    value: \"none\"\n"},
    {"training_deployment", 2,
     "apiVersion: apps/v1\nkind: Deployment\nspec:\n  command: [python, train.py]\n  limits:\n    "
     "nvidia.com/gpu: 1\n",
     "apiVersion: apps/v1\nkind: Deployment\nspec:\n  command: [python, serve.py]\n  limits:\n    "
     "nvidia.com/gpu: 1\n"},
};

TEST_CASE("each line that misleads by its order is found, and its correct twin is not") {
  check(Kind::kPython, kPythonOrder);
  check(Kind::kPython, kPythonDevices);
}
TEST_CASE("each command that misleads is found, and its correct twin is not") {
  check(Kind::kShell, kShell);
  check(Kind::kShell, kShellSettings);
}
TEST_CASE("each line of a Dockerfile that misleads is found, and its correct twin is not") {
  check(Kind::kDockerfile, kDockerfile);
  check(Kind::kDockerfile, kDockerImages);
}
TEST_CASE("each requirement that misleads is found, and its correct twin is not") {
  check(Kind::kRequirements, kRequirements);
  check(Kind::kRequirements, kPins);
}
TEST_CASE("each line of YAML that misleads is found, and its correct twin is not") {
  check(Kind::kYaml, kYaml);
  check(Kind::kYaml, kServices);
}

TEST_CASE("every row has a pair") {
  std::set<std::string> tested = {"export_in_subshell", "library_path_in_notebook",
                                  "export_in_system", "visible_in_one", "visible_names_nothing"};
  for (const std::span<const Pair> pairs : std::initializer_list<std::span<const Pair>>{
           kPython, kPythonOrder, kPythonDevices, kShell, kShellSettings, kDockerfile,
           kDockerImages, kRequirements, kPins, kYaml, kServices})
    for (const Pair& pair : pairs) tested.insert(pair.what);
  for (const Row& row : rows()) CHECK_MESSAGE(tested.count(row.what) == 1, row.what);
}

constexpr std::string_view kNotebook = R"json({
 "cells": [
  {"cell_type": "markdown", "source": ["!export CUDA_VISIBLE_DEVICES=1"]},
  {"cell_type": "code", "source": [
    "import torch\n",
    "!export CUDA_VISIBLE_DEVICES=1\n",
    "if torch.cuda.is_available():\n",
    "    !nvprof python train.py\n",
    "%env NCCL_DEBUG=INFO"
   ]},
  {"cell_type": "code", "source": ["%%bash\n", "export CUDA_VISIBLE_DEVICES=1\n", "pip install tensorflow-gpu"]},
  {"cell_type": "code", "source": ["torch.cuda.set_device('cpu')"]}
 ]})json";

TEST_CASE("a notebook's cells are one program, and a finding names the line of the file") {
  CHECK(marks_of(Kind::kNotebook, kNotebook) ==
        "export_in_subshell:6 nvprof:8 nccl_debug:9 tensorflow_gpu:11 set_device_cpu:12 ");
  const auto marks = read_bytes("a.ipynb", Kind::kNotebook, kNotebook).marks;
  CHECK(marks.back().where == "code cell 3, line 1");
  CHECK(marks.back().code == "torch.cuda.set_device('cpu')");
  const std::string right =
      "{\"cells\": [{\"cell_type\": \"code\", \"source\": "
      "\"%env CUDA_VISIBLE_DEVICES=1\\n!export CUDA_VISIBLE_DEVICES=1 && python "
      "a.py\\n%matplotlib inline\\nx = 1\"}]}";
  CHECK(marks_of(Kind::kNotebook, right) == "");
}

std::string marks_of_cells(const std::vector<std::string>& cells) {
  std::string json = "{\"cells\": [";
  for (const std::string& cell : cells)
    json += (json.ends_with('[') ? "" : ",\n") +
            std::string("{\"cell_type\": \"code\", \"source\": \"") + cell + "\"}";
  return marks_of(Kind::kNotebook, json + ",\n{\"cell_type\": \"raw\", \"source\": \"((\"}]}");
}

TEST_CASE("a notebook's own spellings do not hide the rest of it") {
  const std::string wrong = "torch.cuda.set_device('cpu')";
  // In this order: the first cell of a Colab notebook, a command on two lines, a magic between
  // Python statements, pip without "!".
  CHECK(marks_of_cells({"gpu_info = !nvidia-smi\\ngpu_info = '\\\\n'.join(gpu_info)",
                        "!pip install \\\\\\n  torch", "n = %env A\\nif n:\\n  %time f()\\n",
                        "pip install torch", "?torch", "import torch\\n" + wrong}) ==
        "set_device_cpu:6 ");
  // A continued line that starts with "%" is not a magic.
  CHECK(marks_of_cells({"import torch\\nprint('a %s' %\\n  x)\\ny = (7\\n  %z)\\n" + wrong}) ==
        "set_device_cpu:1 ");
}

TEST_CASE("a cell that is not Python is skipped and reported, and the others are read") {
  const std::string json =
      "{\"cells\": [{\"cell_type\": \"code\", \"source\": \"this is no Python\"},\n"
      "{\"cell_type\": \"code\", \"source\": \"import torch\\ntorch.cuda.set_device('cpu')\"}]}";
  const Source source = read_bytes("a.ipynb", Kind::kNotebook, json);
  REQUIRE(source.marks.size() == 1);
  CHECK(source.marks.front().what == "set_device_cpu");
  CHECK(source.no_tree == "code cell 1 is not Python");
}

TEST_CASE("LD_LIBRARY_PATH in a notebook is too late for it, and not for the commands it runs") {
  CHECK(marks_of_cells({"%env LD_LIBRARY_PATH=/usr/lib64-nvidia", "import torch"}) ==
        "library_path_in_notebook:1 ");
  CHECK(marks_of_cells({"import os\\nos.environ['LD_LIBRARY_PATH'] = '/x'"}) ==
        "library_path_in_notebook:1 ");
  CHECK(marks_of_cells({"%env LD_LIBRARY_PATH=/usr/lib64-nvidia", "!python train.py"}).empty());
}

std::string code_of(std::string_view text) {
  std::string all;
  for (const CodeBlock& block : code_blocks(text))
    for (const auto& [number, line] : block.lines)
      all += std::to_string(number) + ":" + line + "\n";
  return all;
}

TEST_CASE("the code of an article is taken out of its text") {
  CHECK(code_of("Text.\n```python\n  x = 1\n    y = 2\n```\nmore\n```c++\nint x;\n```\n") ==
        "3:x = 1\n4:  y = 2\n");
  CHECK(code_of("~~~~sh\n~~~\nls\n~~~~\nls is a command\n") == "2:~~~\n3:ls\n");
  // Line numbers before each line of code, and line numbers that are on separate lines.
  CHECK(code_of("```\n1 import torch\n2 if a:\n3     b()\n```\n") ==
        "2:import torch\n3:if a:\n4:    b()\n");
  CHECK(code_of("import torch\nx = 1\n1\n2\n3\n\nThe end.\n") ==
        "1:import torch\n2:x = 1\n3:\n4:\n5:\n");
  // If an article shows only the first line of a function, "pass" is added.
  CHECK(code_of("```python\n@a\ndef f():\n```\n") == "2:@a\n3:def f():\n3:    pass\n");
  // Numbers that are not consecutive are not line numbers.
  CHECK(code_of("```python\n1 + 2\n7\n```\n") == "2:1 + 2\n3:7\n");
  // Prose is not code, even if it begins with a word of Python.
  CHECK(code_of("If you want to import it: wait.\nfor example\n1. pick one\n").empty());
}

TEST_CASE("indentation that was lost is guessed, and other indentation stays") {
  CHECK(code_of("```python\ndef f(x):\nfor i in x:\ntry:\ng(i)\nbreak\nexcept E:\npass\nelse:\nh("
                "1,\n2)\n\nreturn x\nf(3)\n```\n") ==
        "2:def f(x):\n3:    for i in x:\n4:        try:\n5:            g(i)\n6:            break\n"
        "7:        except E:\n8:            pass\n9:        else:\n10:            h(1,\n"
        "11:                2)\n12:\n13:    return x\n14:f(3)\n");
  CHECK(
      code_of("```python\nclass A:\ndef f(self):\nif a:\nreturn 1\nelse:\nb()\ndef g(self):\nc()\n"
              "import d\n```\n") ==
      "2:class A:\n3:    def f(self):\n4:        if a:\n5:            return 1\n6:        else:\n"
      "7:            b()\n8:    def g(self):\n9:        c()\n10:import d\n");
  CHECK(code_of("```python\nif a:\n  b()\nc()\n```\n") == "2:if a:\n3:  b()\n4:c()\n");
}

TEST_CASE("hostile files of every kind are read without a crash") {
  const std::string zeros("\0\0'\"\\\n", 6);
  for (const Kind kind : {Kind::kPython, Kind::kNotebook, Kind::kShell, Kind::kDockerfile,
                          Kind::kRequirements, Kind::kYaml, Kind::kArticle}) {
    for (const std::string& bytes :
         {std::string(), zeros, std::string("\\"), std::string("cat <<"), std::string("cat <<'"),
          std::string("'"), std::string(1 << 20, '['), std::string(1 << 20, '\n'),
          "{\"cells\":" + std::string(1 << 20, '[')})
      CHECK(marks_of(kind, bytes) == "");
  }
}

TEST_CASE("every row is unique, in order, and has a fix") {
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

TEST_CASE("without a syntax tree, unmistakable lines are found and the rest is not checked") {
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
}  // namespace berth::doctor::source::source_test
