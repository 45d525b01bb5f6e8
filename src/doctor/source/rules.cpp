// What a mark means: one row each, in the order of the rules' numbers. The readers find, this says.
#include "doctor/source/source.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"

namespace berth::doctor::source {
namespace {

using model::Finding;
using model::Severity;

constexpr Row kRows[] = {
    {"device_chmod", "SRC01", Severity::kError, "chmod 777 /dev/nvidia0",
     msgid("device nodes are normally 0666 already; this mends nothing and lasts until they are "
           "made anew"),
     "",
     msgid("add yourself to the group of the node, or give the container the device: berth doctor "
           "says which"),
     "pnsd"},
    {"set_device_cpu", "SRC02", Severity::kError, "torch.cuda.set_device('cpu')",
     msgid("raises ValueError; it does not switch to the CPU"),
     "berth run --gpus none -- python {file}", "", "pn"},
    {"is_available_replaced", "SRC03", Severity::kError, "torch.cuda.is_available = lambda: False",
     msgid("hides no GPU: .cuda() and .to(\"cuda\") still work, and other libraries ask elsewhere"),
     "berth run --gpus none -- python {file}", "", "pn"},
    {"cudnn_off_for_cpu", "SRC04", Severity::kError, "torch.backends.cudnn.enabled = False",
     msgid("switches off cuDNN alone: the GPU is still used, slower"),
     "berth run --gpus none -- python {file}", "", "pn"},
    {"cudnn_off", "SRC04", Severity::kInfo, "torch.backends.cudnn.enabled = False",
     msgid("switches off cuDNN alone: the GPU is still used, slower"), "",
     msgid("leave it out, unless cuDNN itself is in doubt"), "pn"},
    {"visible_too_late", "SRC05", Severity::kError,
     "os.environ['CUDA_VISIBLE_DEVICES'] = '1' after a CUDA call",
     msgid("too late: CUDA is initialised on line {1}"), "berth run {2} -- python {file}",
     msgid("or move it above what uses CUDA first"), "pn"},
    {"visible_maybe_late", "SRC05", Severity::kWarning,
     "os.environ['CUDA_VISIBLE_DEVICES'] = '1' after torch.cuda.is_available()",
     msgid("may be too late: line {1} has asked CUDA for its devices"),
     "berth run {2} -- python {file}", msgid("or move it above that line"), "pn"},
    {"export_in_subshell", "SRC06", Severity::kError, "!export CUDA_VISIBLE_DEVICES=1",
     msgid("sets {0} in a shell of its own, which ends with the line"), "%env {2}",
     msgid("in a cell before the first that uses CUDA"), "n"},
    {"export_in_system", "SRC06", Severity::kError, "os.system('export CUDA_VISIBLE_DEVICES=1')",
     msgid("sets {0} in a shell of its own, which ends with the line"),
     "os.environ[\"{0}\"] = \"{2}\"", msgid("before the first line that uses CUDA"), "pn"},
    {"visible_in_image", "SRC07", Severity::kWarning, "ENV CUDA_VISIBLE_DEVICES=0",
     msgid("chooses GPU {0} of those that the container gets; it hides none from it"),
     "docker run --gpus '\"device={2}\"' …",
     msgid("chooses at the start; inside, they are numbered from 0"), "d"},
    {"setting_nobody_reads", "SRC08", Severity::kWarning,
     "os.environ['AMP_ENABLE'], os.environ['DIST_URL']",
     msgid("PyTorch does not read the variable {0}"), "",
     msgid("pass it to the call that should use it: torch.autocast(…), "
           "init_process_group(init_method=…)"),
     "pn"},
    {"old_autocast", "SRC09", Severity::kInfo, "torch.cuda.amp.autocast()",
     msgid("deprecated since PyTorch 2.4"), "torch.amp.autocast({2})", "", "pn"},
    {"old_grad_scaler", "SRC09", Severity::kInfo, "torch.cuda.amp.GradScaler()",
     msgid("deprecated since PyTorch 2.4"), "torch.amp.GradScaler({2})",
     msgid("bfloat16 needs no scaler"), "pn"},
    {"apex_amp", "SRC10", Severity::kInfo, "from apex import amp",
     msgid("mixed precision is part of PyTorch since 1.6; Apex is not needed for it"),
     "with torch.amp.autocast(\"cuda\"):", "", "pn"},
    {"half_without_scaler", "SRC11", Severity::kInfo,
     "autocast(dtype=torch.float16) and backward()",
     msgid("float16 without a GradScaler: small gradients become 0"),
     "torch.amp.autocast(\"cuda\", dtype=torch.bfloat16)",
     msgid("where the hardware has bfloat16; else scale the loss by torch.amp.GradScaler"), "pn"},
    {"benchmark_for_memory", "SRC12", Severity::kInfo,
     "torch.backends.cudnn.benchmark = True  # memory",
     msgid("picks convolution algorithms by timing; it may use more memory, not less"), "",
     msgid("leave it out to save memory; it pays where the shapes stay the same"), "pn"},
    {"empty_cache_every_step", "SRC13", Severity::kWarning,
     "torch.cuda.empty_cache() in a training loop",
     msgid("in every step of the loop on line {1}: costs time and frees no live tensor"), "",
     msgid("leave it out; the cache is reused by the next step"), "pn"},
    {"empty_cache_as_cure", "SRC13", Severity::kInfo, "except …: torch.cuda.empty_cache()",
     msgid("returns unused cache alone; live tensors stay"), "",
     msgid("drop what holds the tensors first; a smaller batch helps where they are needed"), "pn"},
    {"retry_inside_except", "SRC14", Severity::kWarning,
     "except torch.OutOfMemoryError: the same call again",
     msgid("a second try inside the handler of line {1}: the exception still holds the tensors"),
     "", msgid("only note it in the handler, and try again after it"), "pn"},
    {"retry_on_any_cuda", "SRC15", Severity::kWarning, "if \"CUDA\" in str(error): continue",
     msgid("tries again after every error with \"{0}\" in it; after an illegal address or an "
           "assert the process can't use the GPU any more"),
     "except torch.OutOfMemoryError:", "", "pn"},
    {"tensorflow_gpu", "SRC16", Severity::kError, "pip install tensorflow-gpu",
     msgid("tensorflow-gpu was removed; installing it fails"), "pip install 'tensorflow[and-cuda]'",
     msgid("for Linux and WSL2; on native Windows the last version with GPU support is 2.10"),
     "pnsd"},
    {"tensorflow_gpu_listed", "SRC16", Severity::kError, "tensorflow-gpu",
     msgid("tensorflow-gpu was removed; installing it fails"), "tensorflow[and-cuda]",
     msgid("for Linux and WSL2; on native Windows the last version with GPU support is 2.10"),
     "ry"},
    {"tensorflow_gpu_pinned", "SRC16", Severity::kWarning, "tensorflow-gpu==2.9",
     msgid("tensorflow-gpu is no longer made: {0} is old, and needs an old Python"),
     "tensorflow[and-cuda]",
     msgid("for Linux and WSL2; on native Windows the last version with GPU support is 2.10"),
     "pnsdry"},
    {"cudnn_copied", "SRC17", Severity::kWarning, "cp cudnn/lib/* /usr/local/cuda/lib64",
     msgid("frameworks from wheels or conda bring a cuDNN of their own, and do not look here"), "",
     msgid("leave it out; a program that is compiled here finds cuDNN from your distribution's "
           "package"),
     "nsd"},
    {"library_path_for_wheels", "SRC17", Severity::kWarning,
     "LD_LIBRARY_PATH=/usr/local/cuda/lib64 beside pip install torch",
     msgid("wheels bring their CUDA libraries and find them by themselves; the variable can put "
           "others before them"),
     "", msgid("leave it out"), "nsd"},
    {"conda_pytorch", "SRC18", Severity::kWarning, "conda install -c pytorch cudatoolkit=11.3",
     msgid("the channel pytorch ended with PyTorch 2.5, so that {0} brings an old one"),
     "pip install torch --index-url https://download.pytorch.org/whl/{2}",
     msgid("or conda install -c conda-forge pytorch-gpu"), "nsd"},
    {"conda_pytorch_listed", "SRC18", Severity::kWarning, "channels: [pytorch], cudatoolkit=11.3",
     msgid("the channel pytorch ended with PyTorch 2.5, so that {0} brings an old one"),
     "- pytorch-gpu",
     msgid(
         "of the channel conda-forge, which looks at the driver, in the place of pytorch and {0}"),
     "y"},
    {"extra_index", "SRC19", Severity::kWarning,
     "pip install torch --extra-index-url https://download.pytorch.org/whl/cu121",
     msgid("a second index: pip takes the highest version of both, which can be a build for "
           "another CUDA or the CPU"),
     "--index-url {0}",
     msgid("in a command for torch alone, or name the build: torch==VERSION+{2}"), "nsd"},
    {"extra_index_mixed", "SRC19", Severity::kWarning,
     "pip install torch numpy --extra-index-url https://download.pytorch.org/whl/cu121",
     msgid("a second index: pip takes the highest version of both, which can be a build for "
           "another CUDA or the CPU"),
     "{2}", msgid("PyTorch's packages from its own index, all others from PyPI"), "nsd"},
    {"extra_index_listed", "SRC19", Severity::kWarning,
     "--extra-index-url https://download.pytorch.org/whl/cu121",
     msgid("a second index: pip takes the highest version of both, which can be a build for "
           "another CUDA or the CPU"),
     "torch==VERSION+{2}",
     msgid("names the build; --index-url {0} would be for all packages of the file, and most are "
           "not there"),
     "ry"},
    {"nvcc_version", "SRC20", Severity::kInfo, "nvcc --version",
     msgid("the toolkit's version; PyTorch brings its own CUDA, and the driver has a third number"),
     "berth doctor", msgid("shows what is in use"), "nsd"},
    {"old_cuda_image", "SRC23", Severity::kWarning, "FROM nvidia/cuda:11.3.1-…",
     msgid("an old image: CUDA before 11.8 has no code for compute capability 8.9 and 9.0"), "",
     msgid("take one of the versions that are still looked after"), "d"},
    {"old_torch_image", "SRC23", Severity::kWarning, "FROM pytorch/pytorch:1.9.0-…",
     msgid("an old image: PyTorch {0} has no code for compute capability 9.0"), "",
     msgid("take one of the versions that are still looked after"), "d"},
    {"old_system_image", "SRC23", Severity::kWarning, "FROM nvidia/cuda:12.1.0-base-ubuntu20.04",
     msgid("an old image: the system in {0} gets no free updates any more"), "",
     msgid("take one of the versions that are still looked after"), "d"},
    {"timed_launch", "SRC24", Severity::kWarning, "timeit.timeit(lambda: model(x))",
     msgid("measures how long launching takes, not the work: nothing waits for the GPU"),
     "torch.utils.benchmark.Timer(…)",
     msgid("it waits; or call torch.cuda.synchronize() inside what is measured"), "pn"},
    {"data_parallel", "SRC25", Severity::kInfo, "torch.nn.DataParallel(model)",
     msgid("one process drives all GPUs and copies the model in every step; "
           "DistributedDataParallel is faster"),
     "torchrun --nproc-per-node=gpu {file}",
     msgid("with torch.nn.parallel.DistributedDataParallel"), "pn"},
    {"ddp_without_device", "SRC26", Severity::kWarning,
     "DistributedDataParallel(model) without a local device",
     msgid("nothing chooses a GPU for each rank: all of them meet on GPU 0"),
     "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))", msgid("before the first CUDA call"),
     "pn"},
    {"loader_without_sampler", "SRC27", Severity::kWarning,
     "DataLoader(…) without a sampler beside DistributedDataParallel",
     msgid("every rank sees all data: line {1} makes it distributed"),
     "DataLoader(…, sampler=DistributedSampler(dataset))", "", "pn"},
    {"nvprof", "SRC28", Severity::kWarning, "nvprof python train.py",
     msgid("nvprof does not support compute capability 8.0 and later"), "nsys profile python …",
     msgid("or torch.profiler"), "pnsd"},
    {"nccl_renamed", "SRC29", Severity::kInfo, "NCCL_ASYNC_ERROR_HANDLING=1",
     msgid("{0} is PyTorch's, and is called TORCH_{0} now"), "",
     msgid("it reports a hang and mends none"), "pnsdy"},
    {"nccl_p2p_off", "SRC29", Severity::kInfo, "NCCL_P2P_DISABLE=1",
     msgid("keeps GPUs from copying to each other directly: slower"), "",
     msgid("good to find a fault; leave it out when it is found"), "pnsdy"},
    {"nccl_debug", "SRC29", Severity::kInfo, "NCCL_DEBUG=INFO",
     msgid("writes much, and mends nothing"), "NCCL_DEBUG=WARN", "", "pnsdy"},
    {"launch_blocking", "SRC30", Severity::kWarning, "CUDA_LAUNCH_BLOCKING=1",
     msgid("waits for every kernel before the next: slow"), "",
     msgid("good to find the line of an error; leave it out when it is found"), "pnsdy"},
    {"tf_hides_errors", "SRC31", Severity::kInfo, "TF_CPP_MIN_LOG_LEVEL=3",
     msgid("hides errors, too"), "TF_CPP_MIN_LOG_LEVEL=1", msgid("hides information alone"),
     "pnsdy"},
    {"pruned_and_kept", "SRC32", Severity::kInfo, "torch.nn.utils.prune.l1_unstructured(…)",
     msgid("only masks weights: they stay as dense as they were, and a mask is added"),
     "torch.nn.utils.prune.remove(module, name)", msgid("drops the mask; memory does not shrink"),
     "pn"},
    {"workers_from_cores", "SRC33", Severity::kInfo, "num_workers=os.cpu_count()",
     msgid("counts the machine's cores, not those that this process may use"),
     "num_workers=len(os.sched_getaffinity(0))",
     msgid("a container's quota can be less still: berth run says it"), "pn"},
    {"fork_after_cuda", "SRC34", Severity::kError, "multiprocessing.Process(…) after a CUDA call",
     msgid("forks after CUDA was initialised on line {1}: CUDA fails in the child"),
     "multiprocessing.set_start_method(\"spawn\")", msgid("before anything else"), "pn"},
    {"pool_after_cuda", "SRC34", Severity::kWarning, "multiprocessing.Pool(…) after a CUDA call",
     msgid("forks after CUDA was initialised on line {1}: children can't use the GPU"),
     "multiprocessing.get_context(\"spawn\")", "", "pn"},
    {"waits_every_step", "SRC35", Severity::kInfo, "loss.item() in every step",
     msgid("{0} in every step of the loop on line {1} waits for the GPU"), "",
     msgid("add up on the GPU, and ask every 50 steps or so"), "pn"},
    {"loss_keeps_graph", "SRC36", Severity::kWarning, "total += loss",
     msgid("keeps the graph of every step: memory grows"), "{0}.detach()", "", "pn"},
    {"visible_with_blank", "SRC37", Severity::kError, "CUDA_VISIBLE_DEVICES=\"0, 1\"",
     msgid("\"{0}\" begins with a blank: CUDA drops it and all after it"),
     "CUDA_VISIBLE_DEVICES={2}", "", "pnsdy"},
    {"visible_in_one", "SRC37", Severity::kError, "CUDA_VISIBLE_DEVICES=\"0;1\"",
     msgid("CUDA knows commas alone: of \"{0}\" it takes the number at the begin, and drops the "
           "rest"),
     "CUDA_VISIBLE_DEVICES={2}", "", "pnsdy"},
    {"visible_names_nothing", "SRC37", Severity::kError, "CUDA_VISIBLE_DEVICES=\"cuda:0\"",
     msgid("\"{0}\" begins with no number and no GPU's name: CUDA takes it for none at all"),
     "CUDA_VISIBLE_DEVICES={2}", "", "pnsdy"},
    {"visible_split", "SRC37", Severity::kError, "export CUDA_VISIBLE_DEVICES=0, 1",
     msgid("the value ends at the blank: it is \"{0}\", and what follows is a word of its own"),
     "CUDA_VISIBLE_DEVICES={2}", "", "nsd"},
    {"visible_ends_in_comma", "SRC37", Severity::kWarning, "CUDA_VISIBLE_DEVICES=0,",
     msgid("ends in a comma: is a GPU missing?"), "CUDA_VISIBLE_DEVICES={2}",
     msgid("or add the number that is missing"), "pnsdy"},
    {"service_without_gpu", "SRC38", Severity::kWarning,
     "compose: image: nvidia/cuda:… without a GPU",
     msgid("the service's image is for CUDA, and nothing gives it a GPU"), "gpus: all",
     msgid("or deploy.resources.reservations.devices with driver: nvidia"), "y"},
    {"pod_without_gpu", "SRC38", Severity::kWarning,
     "Kubernetes: image: nvidia/cuda:… without nvidia.com/gpu",
     msgid("the image is for CUDA, and no container asks for a GPU"),
     "resources: {limits: {nvidia.com/gpu: 1}}", "", "y"},
    {"training_deployment", "SRC38", Severity::kWarning, "kind: Deployment for a training",
     msgid("a Deployment starts a training again whenever it ends"), "kind: Job", "", "y"},
    {"batch_of_one_process", "SRC39", Severity::kWarning, "#SBATCH --gres=gpu:4 with one task",
     msgid("one process gets {0} GPUs, and nothing starts more: most programs use one"),
     "srun torchrun --nproc-per-node={0} …", msgid("or ask for one GPU"), "s"},
    {"library_path_too_late", "SRC40", Severity::kWarning,
     "os.environ['LD_LIBRARY_PATH'] = '/usr/local/cuda/lib64'",
     msgid("too late for this process: the loader has read {0} when it began"),
     "{0}=… python {file}", msgid("before the program starts, and not in it"), "p"},
    {"library_path_in_notebook", "SRC40", Severity::kWarning,
     "%env LD_LIBRARY_PATH=/usr/local/cuda/lib64",
     msgid("too late for this process: the loader has read {0} when it began"), "{0}=… jupyter lab",
     msgid("before Jupyter starts; on a hosted one for !-commands alone"), "n"},
};

char letter(Kind kind) {
  switch (kind) {
    case Kind::kPython:
      return 'p';
    case Kind::kNotebook:
      return 'n';
    case Kind::kShell:
      return 's';
    case Kind::kDockerfile:
      return 'd';
    case Kind::kRequirements:
      return 'r';
    case Kind::kYaml:
      return 'y';
    case Kind::kUnknown:
      break;
  }
  return '?';
}

bool applies(const Row& row, Kind kind) {
  return std::string_view(row.kinds).find(letter(kind)) != std::string_view::npos;
}

/// The text with what the mark knows filled in.
std::string filled(std::string all, const Source& source, const Mark& mark) {
  const std::string meant = mark.meant.empty() ? "…" : mark.meant;
  constexpr std::string_view kScript = "-- python {file}";
  if (const auto at = all.find(kScript); source.kind == Kind::kNotebook && at != std::string::npos)
    all.replace(at, kScript.size(), "-- jupyter lab {file}");
  for (const auto& [place, value] : {std::pair("{file}", shell_word(printable(source.path))),
                                     std::pair("{0}", mark.value), std::pair("{2}", meant)})
    if (const auto at = all.find(place); at != std::string::npos)
      all.replace(at, std::strlen(place), value);
  return all;
}

Finding finding_of(const Source& source, const Mark& mark, const Row& row) {
  Finding finding;
  finding.id = row.id;
  finding.layer = model::Layer::kSource;
  finding.severity = row.severity;
  finding.confidence = model::Confidence::kLow;  // no public case names a rule of these yet
  finding.title = text(row.title, mark.value, mark.other);
  finding.evidence.push_back(mark.code);
  if (!mark.where.empty()) finding.evidence.push_back(mark.where);
  const std::string says = row.says[0] == '\0' ? "" : std::string(tr(row.says));
  finding.fix.push_back({filled(row.command, source, mark), filled(says, source, mark)});
  finding.file = source.path;
  finding.line = mark.line;
  return finding;
}

bool wanted(const std::vector<std::string>& only, const std::string& id) {
  return only.empty() || std::find(only.begin(), only.end(), id) != only.end();
}

}  // namespace

std::span<const Row> rows() {
  return kRows;
}

model::Diagnosis diagnose(const std::vector<Source>& sources,
                          const std::vector<std::string>& only) {
  model::Diagnosis diagnosis;
  std::map<std::string, std::string> unseen;  // rule → why
  std::map<std::string, bool> found;          // rules that some file could hold → one did
  for (const Source& source : sources) {
    for (const Row& row : kRows) {
      if (!applies(row, source.kind) || !wanted(only, row.id)) continue;
      found.try_emplace(row.id, false);
      if (!source.no_tree.empty())
        unseen.try_emplace(row.id, printable(source.path) + ": " + source.no_tree);
      for (const Mark& mark : source.marks) {
        if (mark.what != row.what) continue;
        diagnosis.findings.push_back(finding_of(source, mark, row));
        found[row.id] = true;
      }
    }
  }
  for (const auto& [id, once] : found) {
    if (const auto why = unseen.find(id); why != unseen.end())
      diagnosis.not_checked.push_back({id, why->second});
    else if (!once)
      diagnosis.checked.push_back(id);
  }
  for (const std::string& id : only)
    if (!found.contains(id) && id.starts_with("SRC"))
      diagnosis.not_checked.push_back({id, text("it is about other kinds of files")});
  // The files in the order given, each from its top to its end.
  std::stable_sort(diagnosis.findings.begin(), diagnosis.findings.end(),
                   [&](const Finding& a, const Finding& b) {
                     const auto place = [&](const Finding& one) {
                       return std::find_if(sources.begin(), sources.end(),
                                           [&](const Source& s) { return s.path == one.file; });
                     };
                     return std::pair(place(a), a.line) < std::pair(place(b), b.line);
                   });
  const auto worst =
      std::max_element(diagnosis.findings.begin(), diagnosis.findings.end(),
                       [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  diagnosis.verdict =
      model::is_empty_look(diagnosis) ? std::string(tr("nothing could be checked"))
      : worst == diagnosis.findings.end() || worst->severity == Severity::kInfo
          ? std::string(tr("nothing wrong was found"))
          : fmt::format("{}:{}: {}", printable(worst->file), worst->line, worst->title);
  return diagnosis;
}

}  // namespace berth::doctor::source
