// Options and examples of the verbs that estimate and measure: plan, compare, bench.
#pragma once

#include <array>

#include "cli/device_options.hpp"

namespace berth::cli {

inline constexpr auto kPlanOptions = std::to_array<Option>({
    {"--for", "MODEL", "the same as the operand MODEL"},
    {"--params", "N", "instead of MODEL: a decoder with this many parameters (7B, 350M)"},
    {"--layers", "N",
     "keep only this many layers of MODEL (pruning); with --params: assume this many layers"},
    {"--gpu", "NAME|here", "check this GPU (A100-SXM4-80GB), or the GPU of this machine"},
    {"--task", "inference|train|finetune|lora|qlora", "the task (default: inference)"},
    {"--batch", "N", "sequences in a batch (default: 1; measure: those of the program)"},
    {"--seq", "N", "tokens of a sequence (default: 2048; measure: those of the program)"},
    {"--precision", "fp32|amp|bf16|fp16|int8|int4|nf4",
     "precision of the weights (default: bf16; for train and finetune amp, for qlora nf4)"},
    {"--optimizer", "adamw|adamw-8bit|sgd-momentum|sgd", "optimizer for training (default: adamw)"},
    {"--rank", "N", "rank of lora and qlora (default: 16)"},
    {"--checkpointing", nullptr, "recompute activations instead of keeping them"},
    {"--torch", "VERSION",
     "fit: version of PyTorch; AdamW needs more memory in 2.0 (default: 2.1 or later)"},
    {"--cpu", nullptr, "measure: run the program on the CPU"},
    {"--time-limit", "DURATION", "measure: end a run after this long (default: 10m)"},
    {"--prices", "FILE", "gpu, cost: your prices instead of the known ones (docs/plan.md)"},
    {"--gpus", "N", "fit: number of GPUs that share the model; cost: number of GPUs (default: 1)"},
    {"--zero", "0|1|2|3",
     "fit: with --gpus, shard the optimizer (1), gradients too (2), weights too (3) (default: 0)"},
    {"--kv", "fp32|fp16|bf16|fp8|int8|int4", "fit: precision of the KV cache (default: 16 bit)"},
    {"--hours", "N", "cost: hours of use a day (default: 24)"},
    {"--months", "N", "cost: number of months (default: 36)"},
    {"--card-price", "PRICE", "cost: what one card costs"},
    {"--power-price", "PRICE", "cost: what a kWh costs"},
    {"--load", "PERCENT",
     "cost: mean power in these hours, in percent of the maximum (default: 100)"},
    {"--resale", "PERCENT",
     "cost: value of the cards at the end, in percent of their price (default: 0)"},
    {"--lost", "PERCENT",
     "cost: percent of the time on spot instances that interruptions waste (default: 0)"},
    {"--svg", "FILE", "cost: write a picture of renting against buying (.svg, or .png)"},
});
inline constexpr auto kPlanExamples = std::to_array<Example>({
    {"berth plan fit Llama-3.1-8B --gpu 'RTX 4090'",
     "check whether the model can be served on this GPU"},
    {"berth plan fit Qwen2.5-7B --task qlora --gpu here",
     "check whether the model can be finetuned on this machine's GPU"},
    {"berth plan fit Llama-3.1-8B --task train --gpus 8 --zero 3 --gpu L40S",
     "estimate training with gradients, optimizer states and weights sharded across eight GPUs"},
    {"berth plan fit ./model.safetensors --gpu L4",
     "estimate a model file, or a folder with one; only its header is read"},
    {"berth plan fit --params 7B --task train --batch 4",
     "estimate a model that is not in the catalogue"},
    {"berth plan measure -- python3 train.py",
     "run a few steps, and predict the peak for other batches"},
    {"berth plan measure --batch 32 -- python3 train.py -b {batch}",
     "measure a program without a DataLoader"},
    {"berth plan gpu --for Llama-3.1-8B --precision int8",
     "list the GPUs that hold the model, cheapest first"},
    {"berth plan cost --gpu L4 --hours 8", "compare renting with buying"},
    {"berth plan cost --gpu L4 --svg cost.svg", "draw the comparison, with the break-even month"},
});

inline constexpr auto kCompareOptions = std::to_array<Option>({
    {"--cpu", nullptr, "also compare a run on the CPU, with all GPUs hidden"},
    {"--gpus", "N,…", "for each number in the list, also compare a run on that many GPUs", true},
    {"--threads", "N,…",
     "for each number in the list, also compare a run on that many cores of the CPU", true},
    {"--preset", "NAME",
     "also compare a run of the last --cpu, --gpus or --threads setting, with this preset (tf32, "
     "cudnn-benchmark, deterministic, …)",
     true},
    {"--set", "NAME=VALUE",
     "also compare a run of the last --cpu, --gpus or --threads setting, with this variable set",
     true},
    {"--runs", "N", "number of measured runs of each setting (default: 3)"},
    {"--warmup", "N", "number of runs of each setting before the measurement (default: 1)"},
    {"--compare-output", "FILE|-",
     "output to compare: standard output (-) or a file; a setting whose output differs cannot win"},
    {"--output-lines", "TEXT", "compare only the output lines with this text (loss)", true},
    {"--tolerance", "NUMBER|TYPE",
     "largest relative difference of numbers: 1e-3, float32, tf32, bfloat16 (default: 1e-4)"},
    {"--profile", nullptr,
     "run each setting once more with PyTorch's profiler, and show the slowest operators"},
    {"--svg", "FILE", "write a picture of the times (.svg, or .png)"},
});
inline constexpr auto kCompareExamples = std::to_array<Example>({
    {"berth compare -- python train.py", "run on the CPU, then on one GPU: is the GPU worth it?"},
    {"berth compare --threads 1,4,8 -- python train.py",
     "find out how many threads the program needs"},
    {"berth compare --cpu --gpus 1,2 --runs 5 -- python train.py",
     "compare the CPU, one GPU and two GPUs"},
    {"berth compare --gpus 1 --preset tf32 -- python train.py",
     "measure how much faster a PyTorch setting is"},
    {"berth compare --compare-output - --output-lines loss -- python train.py",
     "check whether the losses on CPU and GPU are the same"},
    {"berth compare --profile -- python train.py", "show which operators take the most time"},
    {"berth compare --svg times.svg -- python train.py", "write a picture to share"},
});

inline constexpr auto kBenchOptions = std::to_array<Option>({
    kDevice,
    {"--cpu", nullptr, "only the CPU"},
    {"--model", "resnet50|resnet18|mobilenet_v2|gpt2|gpt2-tiny",
     "train, infer: the model (default: resnet50)"},
    {"--batch", "N", "train, infer: the batch size (default: 32 images, 4 or 8 texts)"},
    {"--python", "PATH",
     "the Python with PyTorch, or for gemm with cuBLAS (default: the active one)"},
    {"--precision", "LIST",
     "gemm: one of fp32,tf32,fp16,bf16,fp64; train: some of fp32,tf32,amp; infer: some of "
     "fp32,fp16,bf16,int8 (default: all)"},
    {"--size", "N", "gemm: rows of the matrices (default: as many as --seconds allows)"},
    {"--seconds", "N", "how long each case is repeated (default: 1; train, infer: 3)"},
    {"--save", "FILE", "write the results to a file, as --json prints them"},
    {"--svg", "FILE", "write a bar chart of the results (.svg, or .png)"},
    {"--against", "FILE", "compare with the results of an earlier --save; exit 1 if slower"},
    {"--keep", nullptr, "keep the results for `berth health`, which reports slower cards"},
    kOpenCl,
    kNoOpenCl,
});
inline constexpr auto kBenchExamples = std::to_array<Example>({
    {"berth bench gemm --cpu", "measure matrix products per second on the CPU"},
    {"berth bench gemm --precision fp32 --size 10000",
     "compare CPU and GPUs on the product of two matrices with 10,000 rows"},
    {"berth bench peer", "measure the links between GPUs"},
    {"berth bench --save fast.json",
     "measure every case on every idle device, and keep the results as a baseline"},
    {"berth bench --svg bench.svg", "a bar chart to share"},
    {"berth bench train --model resnet50 --svg train.svg",
     "compare training in fp32, tf32 and amp: steps per second, and memory"},
    {"berth bench infer --model gpt2 --precision fp32,bf16,int8",
     "compare latency, memory and drift (output error) of lower precisions, and propose one"},
    {"berth bench --against fast.json", "check whether something is slower now than in fast.json"},
});

}  // namespace berth::cli
