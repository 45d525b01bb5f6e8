// Examples for source_test.cpp about settings, devices, images and pins: a file with a misleading
// line, and the correct version of that file.
#pragma once

#include "doctor/source/pairs.hpp"

namespace berth::doctor::source {

inline constexpr Pair kPythonDevices[] = {
    {"misspelt_variable", 2, "import os\nos.environ['CUDA_VISIBLE_DEVISES'] = '0'\n",
     "import os\nos.environ['CUDA_DEVICE_ORDER'] = 'PCI_BUS_ID'\n"},
    {"misspelt_key", 2,
     "import os\nos.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segment:True'\n",
     "import os\nos.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'\n"},
    {"move_dropped", 3, "import torch\nx = torch.ones(3)\nx.to('cuda')\n",
     "import torch\nx = torch.ones(3)\nx = x.to('cuda')\nm = net()\nm.to('cuda')\n"},
    {"move_dropped", 4,
     "from torch.utils.data import DataLoader\nl = DataLoader(d)\nfor x, y in l:\n  x.cuda()\n",
     "from torch.utils.data import DataLoader\nl = DataLoader(d)\nfor x, y in l:\n  x = "
     "x.cuda()\n"},
    {"session_without_gpu", 2,
     "import tensorflow as tf\nc = tf.ConfigProto(device_count={'GPU': 0})\n",
     "import tensorflow as tf\nc = tf.ConfigProto(device_count={'CPU': 2})\n"},
    {"rank_as_device", 3,
     "import os, torch\nrank = int(os.environ['RANK'])\ntorch.cuda.set_device(rank)\n",
     "import os, torch\nrank = int(os.environ['LOCAL_RANK'])\ntorch.cuda.set_device(rank)\n"},
    {"rank_as_device", 2, "import torch.distributed as dist\nm.to(f'cuda:{dist.get_rank()}')\n",
     "import torch\nimport torch.distributed as dist\n"
     "m.to(dist.get_rank() % torch.cuda.device_count())\n"},
    {"rank_as_device", 3,
     "import os, torch\nlocal_rank = int(os.environ['RANK'])\ntorch.cuda.set_device(local_rank)\n",
     "import os, torch\nlocal_rank = int(os.environ['LOCAL_RANK'])\n"
     "torch.cuda.set_device(local_rank)\n"},
    {"cuda_in_worker", 4,
     "from torch.utils.data import DataLoader, Dataset\nclass D(Dataset):\n"
     "  def __getitem__(self, i):\n    return self.x[i].cuda()\nl = DataLoader(D(), "
     "num_workers=4)\n",
     "from torch.utils.data import DataLoader, Dataset\nclass D(Dataset):\n"
     "  def __getitem__(self, i):\n    return self.x[i].cuda()\nl = DataLoader(D())\n"},
};

inline constexpr Pair kDockerImages[] = {
    {"image_hides_gpus", 2, "FROM x\nENV NVIDIA_VISIBLE_DEVICES=none\n",
     "FROM x\nENV NVIDIA_VISIBLE_DEVICES=all\n"},
    {"image_without_compute", 1, "ENV NVIDIA_DRIVER_CAPABILITIES=utility\n",
     "ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility\n"},
    {"driver_in_image", 2, "FROM x\nRUN apt-get update && apt-get install -y nvidia-driver-535\n",
     "FROM x\nRUN apt-get install -y cuda-toolkit-12-4\n"},
    {"smi_in_build", 2, "FROM x\nRUN nvidia-smi\n",
     "FROM x\nRUN nvidia-smi || true\nCMD nvidia-smi\n"},
    {"smi_in_build", 2, "FROM x\nRUN --mount=type=cache,target=/root nvidia-smi\n",
     "FROM x\nRUN --device=nvidia.com/gpu=all ls && nvidia-smi\n"},
};

inline constexpr Pair kPins[] = {
    {"pins_of_other_torch", 2, "torch==2.1.0\ntorchvision==0.17.0\n",
     "torch==2.1.0\ntorchvision==0.16.0\ntorchaudio==2.1.0\n"},
    {"pins_of_other_torch", 2, "torch==1.13.1+cu117\ntorchaudio==0.12.1\n",
     "torch==1.13.1+cu117\ntorchvision==0.14.1+cu117\ntorchaudio==0.13.1\n"},
    {"pins_of_other_cuda", 2, "torch==2.1.0+cu118\nnvidia-cublas-cu12==12.1.3.1\n",
     "torch==2.1.0+cu121\nnvidia-cublas-cu12==12.1.3.1\n"},
    {"pins_of_other_cuda", 2, "torch==2.1.0+cu118\ntorchvision==0.16.0+cu121\n",
     "torch==2.1.0+cu118\ntorchvision==0.16.0+cu118\n"},
};

inline constexpr Pair kServices[] = {
    {"service_without_gpu", 3, "services:\n  serve:\n    image: vllm/vllm-openai:v0.8.5\n",
     "services:\n  serve:\n    image: vllm/vllm-openai:v0.8.5\n    gpus: all\n"},
    {"setting_without_gpu", 5,
     "services:\n  train:\n    image: mine\n    environment:\n      - "
     "NVIDIA_VISIBLE_DEVICES=all\n",
     "services:\n  train:\n    image: mine\n    runtime: nvidia\n    environment:\n      - "
     "NVIDIA_VISIBLE_DEVICES=all\n"},
    {"pins_of_other_torch", 4,
     "dependencies:\n  - pip:\n    - torch==2.1.0\n    - torchvision==0.15.2\n",
     "dependencies:\n  - pip:\n    - torch==2.1.0\n    - torchvision==0.16.2\n"},
};

inline constexpr Pair kShellSettings[] = {
    {"misspelt_variable", 1, "export CUDA_VISABLE_DEVICES=0\n",
     "export MUSA_VISIBLE_DEVICES=0\nexport TF_CPP_MIN_VLOG_LEVEL=1\n"},
    {"misspelt_key", 1, "PYTORCH_CUDA_ALLOC_CONF=max_split_size:128 python a.py\n",
     "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128,backend:native python a.py\n"},
    {"set_of_windows", 1, "set CUDA_VISIBLE_DEVICES=0\n", "set -e\nset A=0\n"},
    {"blanks_around_equals", 1, "export CUDA_VISIBLE_DEVICES = 0\n",
     "[ \"$CUDA_VISIBLE_DEVICES\" = 0 ]\n"},
    {"blanks_around_equals", 1, "CUDA_VISIBLE_DEVICES= 0 python a.py\n",
     "CUDA_VISIBLE_DEVICES= python a.py\n"},
    {"pins_of_other_torch", 1, "pip install torch==2.1.0 torchvision==0.17.0\n",
     "pip install torch==2.1.0 torchvision==0.16.2 torchaudio==2.1.1\n"},
};

}  // namespace berth::doctor::source
