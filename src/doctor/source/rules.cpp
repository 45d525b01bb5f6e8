// Findings from the marks in people's files. data/source_rules.toml says what each mark means.
#include "doctor/source/source.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::doctor::source {
namespace {

using model::Finding;
using model::Severity;

constexpr Row kRows[] = {
    {"device_chmod", "SRC01", Severity::kError, "chmod 777 /dev/nvidia0",
     msgid("device nodes are normally 0666 already; this fixes nothing and is lost when they are "
           "recreated"),
     "",
     msgid("add yourself to the group of the node, or give the container the device: berth doctor "
           "says which"),
     "pnsd"},
    {"set_device_cpu", "SRC02", Severity::kError, "torch.cuda.set_device('cpu')",
     msgid("raises ValueError; it does not switch to the CPU"),
     "berth run --gpus none -- python {file}", "", "pn"},
    {"is_available_replaced", "SRC03", Severity::kError, "torch.cuda.is_available = lambda: False",
     msgid("hides no GPU: .cuda() and .to(\"cuda\") still work, and other libraries detect GPUs in "
           "other ways"),
     "berth run --gpus none -- python {file}", "", "pn"},
    {"cudnn_off_for_cpu", "SRC04", Severity::kError, "torch.backends.cudnn.enabled = False",
     msgid("only disables cuDNN: the GPU is still used, but slower"),
     "berth run --gpus none -- python {file}", "", "pn"},
    {"cudnn_off", "SRC04", Severity::kInfo, "torch.backends.cudnn.enabled = False",
     msgid("only disables cuDNN: the GPU is still used, but slower"), "",
     msgid("remove it, unless cuDNN itself is suspected"), "pn"},
    {"visible_too_late", "SRC05", Severity::kError,
     "os.environ['CUDA_VISIBLE_DEVICES'] = '1' after a CUDA call",
     msgid("too late: CUDA is initialised on line {1}"), "berth run {2} -- python {file}",
     msgid("or move it above what uses CUDA first"), "pn"},
    {"visible_maybe_late", "SRC05", Severity::kWarning,
     "os.environ['CUDA_VISIBLE_DEVICES'] = '1' after torch.cuda.is_available()",
     msgid("may be too late: line {1} has already queried CUDA's devices"),
     "berth run {2} -- python {file}", msgid("or move it above that line"), "pn"},
    {"export_in_subshell", "SRC06", Severity::kError, "!export CUDA_VISIBLE_DEVICES=1",
     msgid("sets {0} in a separate shell, which ends with the line"), "%env {2}",
     msgid("in a cell before the first that uses CUDA"), "n"},
    {"export_in_system", "SRC06", Severity::kError, "os.system('export CUDA_VISIBLE_DEVICES=1')",
     msgid("sets {0} in a separate shell, which ends with the line"),
     "os.environ[\"{0}\"] = \"{2}\"", msgid("before the first line that uses CUDA"), "pn"},
    {"visible_in_image", "SRC07", Severity::kWarning, "ENV CUDA_VISIBLE_DEVICES=0",
     msgid("selects GPU {0} among those of the container; it hides none from it"),
     "docker run --gpus '\"device={2}\"' …",
     msgid("selects at the start; inside, GPUs are numbered from 0"), "d"},
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
     msgid("if the hardware supports bfloat16; otherwise scale the loss with torch.amp.GradScaler"),
     "pn"},
    {"benchmark_for_memory", "SRC12", Severity::kInfo,
     "torch.backends.cudnn.benchmark = True  # memory",
     msgid("picks convolution algorithms by timing; it may use more memory, not less"), "",
     msgid("omit it to save memory; it is only useful if shapes do not change"), "pn"},
    {"empty_cache_every_step", "SRC13", Severity::kWarning,
     "torch.cuda.empty_cache() in a training loop",
     msgid("in every step of the loop on line {1}: costs time and frees no live tensor"), "",
     msgid("remove it; the next step reuses the cache"), "pn"},
    {"empty_cache_as_cure", "SRC13", Severity::kInfo, "except …: torch.cuda.empty_cache()",
     msgid("only returns unused cache; live tensors stay"), "",
     msgid("delete the references to the tensors first; if they are needed, use a smaller batch"),
     "pn"},
    {"retry_inside_except", "SRC14", Severity::kWarning,
     "except torch.OutOfMemoryError: the same call again",
     msgid("retries inside the handler of line {1}: the exception still holds the tensors"), "",
     msgid("only set a flag in the handler, and retry after it"), "pn"},
    {"work_inside_except", "SRC14", Severity::kWarning,
     "except torch.OutOfMemoryError: work on the GPU",
     msgid("works inside the handler of line {1}: the exception still holds the tensors of the "
           "failed call"),
     "", msgid("only set a flag in the handler, and do the work after it; or use berth.fit_batch"),
     "pn"},
    {"retry_on_any_cuda", "SRC15", Severity::kWarning, "if \"CUDA\" in str(error): continue",
     msgid("retries after every error that contains \"{0}\"; after an illegal address or an assert "
           "the process cannot use the GPU any more"),
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
     msgid("tensorflow-gpu is discontinued: {0} is old, and needs an old Python"),
     "tensorflow[and-cuda]",
     msgid("for Linux and WSL2; on native Windows the last version with GPU support is 2.10"),
     "pnsdry"},
    {"cudnn_copied", "SRC17", Severity::kWarning, "cp cudnn/lib/* /usr/local/cuda/lib64",
     msgid("frameworks from wheels or conda contain their own cuDNN, and do not search here"), "",
     msgid("remove it; a program compiled here finds cuDNN from your distribution's package"),
     "nsd"},
    {"library_path_for_wheels", "SRC17", Severity::kWarning,
     "LD_LIBRARY_PATH=/usr/local/cuda/lib64 beside pip install torch",
     msgid("wheels bring their CUDA libraries and find them by themselves; the variable can put "
           "others before them"),
     "", msgid("remove it"), "nsd"},
    {"conda_pytorch", "SRC18", Severity::kWarning, "conda install -c pytorch cudatoolkit=11.3",
     msgid("the channel pytorch ended with PyTorch 2.5, so {0} installs an old one"),
     "pip install torch --index-url https://download.pytorch.org/whl/{2}",
     msgid("or conda install -c conda-forge pytorch-gpu"), "nsd"},
    {"conda_pytorch_listed", "SRC18", Severity::kWarning, "channels: [pytorch], cudatoolkit=11.3",
     msgid("the channel pytorch ended with PyTorch 2.5, so {0} installs an old one"),
     "- pytorch-gpu",
     msgid("from the channel conda-forge, which checks the driver, instead of pytorch and {0}"),
     "y"},
    {"extra_index", "SRC19", Severity::kWarning,
     "pip install torch --extra-index-url https://download.pytorch.org/whl/cu121",
     msgid("a second index: pip takes the highest version of both, which can be a build for "
           "another CUDA or the CPU"),
     "--index-url {0}",
     msgid("in a command that installs only torch, or name the build: torch==VERSION+{2}"), "nsd"},
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
     msgid("selects the build; --index-url {0} would apply to all packages of the file, and most "
           "are not there"),
     "ry"},
    {"nvcc_version", "SRC20", Severity::kInfo, "nvcc --version",
     msgid("the toolkit's version; PyTorch contains its own CUDA, and the driver has a third "
           "version"),
     "berth doctor", msgid("shows what is in use"), "nsd"},
    {"old_cuda_image", "SRC23", Severity::kWarning, "FROM nvidia/cuda:11.3.1-…",
     msgid("an old image: CUDA before 11.8 has no code for compute capability 8.9 and 9.0"), "",
     msgid("use one of the versions that are still maintained"), "d"},
    {"old_torch_image", "SRC23", Severity::kWarning, "FROM pytorch/pytorch:1.9.0-…",
     msgid("an old image: PyTorch {0} has no code for compute capability 9.0"), "",
     msgid("use one of the versions that are still maintained"), "d"},
    {"old_system_image", "SRC23", Severity::kWarning, "FROM nvidia/cuda:12.1.0-base-ubuntu20.04",
     msgid("an old image: the system in {0} no longer gets free updates"), "",
     msgid("use one of the versions that are still maintained"), "d"},
    {"timed_launch", "SRC24", Severity::kWarning, "timeit.timeit(lambda: model(x))",
     msgid("only measures the launch, because nothing waits for the GPU's work"),
     "torch.utils.benchmark.Timer(…)",
     msgid("it waits for the GPU; or call torch.cuda.synchronize() inside the measured code"),
     "pn"},
    {"data_parallel", "SRC25", Severity::kInfo, "torch.nn.DataParallel(model)",
     msgid("one process drives all GPUs and copies the model in every step; "
           "DistributedDataParallel is faster"),
     "torchrun --nproc-per-node=gpu {file}",
     msgid("with torch.nn.parallel.DistributedDataParallel"), "pn"},
    {"ddp_without_device", "SRC26", Severity::kWarning,
     "DistributedDataParallel(model) without a local device",
     msgid("no GPU is selected for each rank: all of them use GPU 0"),
     "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))", msgid("before the first CUDA call"),
     "pn"},
    {"loader_without_sampler", "SRC27", Severity::kWarning,
     "DataLoader(…) without a sampler beside DistributedDataParallel",
     msgid("every rank reads all data, although line {1} makes the program distributed"),
     "DataLoader(…, sampler=DistributedSampler(dataset))", "", "pn"},
    {"nvprof", "SRC28", Severity::kWarning, "nvprof python train.py",
     msgid("nvprof does not support compute capability 8.0 and later"), "nsys profile python …",
     msgid("or torch.profiler"), "pnsd"},
    {"nccl_renamed", "SRC29", Severity::kInfo, "NCCL_ASYNC_ERROR_HANDLING=1",
     msgid("{0} is a PyTorch variable, which is now called TORCH_{0}"), "",
     msgid("it reports a hang but does not fix it"), "pnsdy"},
    {"nccl_p2p_off", "SRC29", Severity::kInfo, "NCCL_P2P_DISABLE=1",
     msgid("keeps GPUs from copying to each other directly: slower"), "",
     msgid("useful to find a fault; remove it afterwards"), "pnsdy"},
    {"nccl_debug", "SRC29", Severity::kInfo, "NCCL_DEBUG=INFO",
     msgid("logs a lot, but fixes nothing"), "NCCL_DEBUG=WARN", "", "pnsdy"},
    {"launch_blocking", "SRC30", Severity::kWarning, "CUDA_LAUNCH_BLOCKING=1",
     msgid("waits for every kernel before the next: slow"), "",
     msgid("useful to find the line of an error; remove it afterwards"), "pnsdy"},
    {"tf_hides_errors", "SRC31", Severity::kInfo, "TF_CPP_MIN_LOG_LEVEL=3",
     msgid("also hides errors"), "TF_CPP_MIN_LOG_LEVEL=1", msgid("only hides information"),
     "pnsdy"},
    {"pruned_and_kept", "SRC32", Severity::kInfo, "torch.nn.utils.prune.l1_unstructured(…)",
     msgid("only masks weights: they stay dense, and a mask is added"),
     "torch.nn.utils.prune.remove(module, name)", msgid("drops the mask; memory does not shrink"),
     "pn"},
    {"workers_from_cores", "SRC33", Severity::kInfo, "num_workers=os.cpu_count()",
     msgid("counts all cores of the machine, not those that this process may use"),
     "num_workers=len(os.sched_getaffinity(0))",
     msgid("a container's quota can be even lower: berth run shows it"), "pn"},
    {"fork_after_cuda", "SRC34", Severity::kError, "multiprocessing.Process(…) after a CUDA call",
     msgid("forks after CUDA was initialised on line {1}: CUDA fails in the child"),
     "multiprocessing.set_start_method(\"spawn\")", msgid("before anything else"), "pn"},
    {"pool_after_cuda", "SRC34", Severity::kWarning, "multiprocessing.Pool(…) after a CUDA call",
     msgid("forks after CUDA was initialised on line {1}: children can't use the GPU"),
     "multiprocessing.get_context(\"spawn\")", "", "pn"},
    {"waits_every_step", "SRC35", Severity::kInfo, "loss.item() in every step",
     msgid("{0} in every step of the loop on line {1} waits for the GPU"), "",
     msgid("add up on the GPU, and read the value about every 50 steps"), "pn"},
    {"loss_keeps_graph", "SRC36", Severity::kWarning, "total += loss",
     msgid("keeps the graph of every step: memory grows"), "{0}.detach()", "", "pn"},
    {"visible_with_blank", "SRC37", Severity::kError, "CUDA_VISIBLE_DEVICES=\"0, 1\"",
     msgid("\"{0}\" begins with a space: CUDA ignores it and all after it"),
     "CUDA_VISIBLE_DEVICES={2}", "", "pnsdy"},
    {"visible_in_one", "SRC37", Severity::kError, "CUDA_VISIBLE_DEVICES=\"0;1\"",
     msgid("CUDA only accepts commas: it uses the number at the start of \"{0}\", and ignores the "
           "rest"),
     "CUDA_VISIBLE_DEVICES={2}", "", "pnsdy"},
    {"visible_names_nothing", "SRC37", Severity::kError, "CUDA_VISIBLE_DEVICES=\"cuda:0\"",
     msgid("\"{0}\" does not begin with a number or a GPU's name: CUDA reads it as no GPU"),
     "CUDA_VISIBLE_DEVICES={2}", "", "pnsdy"},
    {"visible_split", "SRC37", Severity::kError, "export CUDA_VISIBLE_DEVICES=0, 1",
     msgid("the value ends at the space: it is \"{0}\", and the rest is a separate word"),
     "CUDA_VISIBLE_DEVICES={2}", "", "nsd"},
    {"visible_ends_in_comma", "SRC37", Severity::kWarning, "CUDA_VISIBLE_DEVICES=0,",
     msgid("ends in a comma: is a GPU missing?"), "CUDA_VISIBLE_DEVICES={2}",
     msgid("or add the number that is missing"), "pnsdy"},
    {"service_without_gpu", "SRC38", Severity::kWarning,
     "compose: image: nvidia/cuda:… without a GPU",
     msgid("the service's image is for CUDA, and nothing gives it a GPU"), "gpus: all",
     msgid("or deploy.resources.reservations.devices with driver: nvidia"), "y"},
    {"setting_without_gpu", "SRC38", Severity::kWarning,
     "compose: NVIDIA_VISIBLE_DEVICES=… without a GPU",
     msgid("the service chooses among GPUs, and nothing gives it one"), "gpus: all",
     msgid("or deploy.resources.reservations.devices with driver: nvidia"), "y"},
    {"pod_without_gpu", "SRC38", Severity::kWarning,
     "Kubernetes: image: nvidia/cuda:… without nvidia.com/gpu",
     msgid("the image is for CUDA, but no container requests a GPU"),
     "resources: {limits: {nvidia.com/gpu: 1}}", "", "y"},
    {"request_without_limit", "SRC38", Severity::kError,
     "Kubernetes: nvidia.com/gpu in requests only",
     msgid("Kubernetes refuses a GPU in requests without the same number in limits"),
     "resources: {limits: {nvidia.com/gpu: 1}}", "", "y"},
    {"node_without_gpu", "SRC38", Severity::kWarning,
     "Kubernetes: a toleration or nodeSelector nvidia.com/… without a limit",
     msgid("only selects a node: no container requests a GPU"),
     "resources: {limits: {nvidia.com/gpu: 1}}", "", "y"},
    {"program_without_gpu", "SRC38", Severity::kWarning,
     "Kubernetes: vllm serve … without nvidia.com/gpu",
     msgid("this needs a GPU, but no container requests one"),
     "resources: {limits: {nvidia.com/gpu: 1}}", "", "y"},
    {"training_deployment", "SRC38", Severity::kWarning, "kind: Deployment for a training",
     msgid("a Deployment restarts a training whenever it ends"), "kind: Job", "", "y"},
    {"batch_of_one_process", "SRC39", Severity::kWarning, "#SBATCH --gres=gpu:4 with one task",
     msgid("one process gets {0} GPUs, and no other processes are started: most programs use only "
           "one GPU"),
     "srun torchrun --nproc-per-node={0} …", msgid("or request one GPU"), "s"},
    {"library_path_too_late", "SRC40", Severity::kWarning,
     "os.environ['LD_LIBRARY_PATH'] = '/usr/local/cuda/lib64'",
     msgid("too late for this process: the loader read {0} when the process started"),
     "{0}=… python {file}", msgid("set it before the program starts, not inside the program"), "p"},
    {"library_path_in_notebook", "SRC40", Severity::kWarning,
     "%env LD_LIBRARY_PATH=/usr/local/cuda/lib64",
     msgid("too late for this process: the loader read {0} when the process started"),
     "{0}=… jupyter lab", msgid("before Jupyter starts; on a hosted one only for !-commands"), "n"},
    {"misspelt_variable", "SRC41", Severity::kError, "export CUDA_VISIBLE_DEVISES=0",
     msgid("nothing reads {0}: it is misspelt"), "{2}", "", "pnsdy"},
    {"misspelt_key", "SRC41", Severity::kError, "PYTORCH_CUDA_ALLOC_CONF=expandable_segment:True",
     msgid("PyTorch does not know the key {0}, and fails with an error"), "{2}", "", "pnsdy"},
    {"move_dropped", "SRC42", Severity::kError, "x = torch.ones(3); x.to(\"cuda\")",
     msgid("a tensor's .to() and .cuda() return a copy: {0} itself stays where it is"),
     "{0} = {0}.to(\"cuda\")", msgid("for a module, to() and cuda() move it in place"), "pn"},
    {"session_without_gpu", "SRC43", Severity::kWarning, "tf.ConfigProto(device_count={'GPU': 0})",
     msgid("applies to this tf.Session only; TensorFlow still starts the GPU and takes its memory"),
     "berth run --gpus none -- python {file}",
     msgid("or tf.config.set_visible_devices([], \"GPU\") before anything else"), "pn"},
    {"set_of_windows", "SRC44", Severity::kError, "set CUDA_VISIBLE_DEVICES=0",
     msgid("sets no variable in this shell: this is Windows syntax"), "export {2}", "", "nsd"},
    {"blanks_around_equals", "SRC44", Severity::kError, "CUDA_VISIBLE_DEVICES = 0",
     msgid("does not set {0}: a shell allows no spaces around the equals sign"), "export {2}", "",
     "nsd"},
    {"rank_as_device", "SRC45", Severity::kWarning,
     "torch.cuda.set_device(int(os.environ[\"RANK\"]))",
     msgid("this rank counts across all machines: from the second machine on there is no such GPU"),
     "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))",
     msgid("LOCAL_RANK counts on each machine from 0; torchrun sets both"), "pn"},
    {"cuda_in_worker", "SRC46", Severity::kError,
     ".cuda() in a Dataset beside DataLoader(…, num_workers=4)",
     msgid("runs in the forked workers of line {1}, where CUDA does not start"),
     "batch = batch.to(\"cuda\", non_blocking=True)",
     msgid("in the training loop; the Dataset should return CPU tensors"), "pn"},
    {"image_hides_gpus", "SRC47", Severity::kError, "ENV NVIDIA_VISIBLE_DEVICES=none",
     msgid("{0} hides every GPU from containers of this image"), "ENV NVIDIA_VISIBLE_DEVICES=all",
     "", "d"},
    {"image_without_compute", "SRC47", Severity::kError, "ENV NVIDIA_DRIVER_CAPABILITIES=utility",
     msgid("without compute a container gets nvidia-smi and no libcuda"),
     "ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility", "", "d"},
    {"driver_in_image", "SRC47", Severity::kWarning, "RUN apt-get install -y nvidia-driver-535",
     msgid("a driver in the image differs from the machine's: libraries and module then do not "
           "match"),
     "", msgid("remove {0}: the container toolkit provides the machine's driver"), "d"},
    {"smi_in_build", "SRC47", Severity::kError, "RUN nvidia-smi",
     msgid("there is no GPU while an image is built: the build fails here"),
     "docker run --rm --gpus all IMAGE nvidia-smi", msgid("when the image is built"), "d"},
    {"pins_of_other_torch", "SRC48", Severity::kError, "torch==2.1.0 and torchvision==0.17.0",
     msgid("is not compatible with {0}: pip refuses both, or the import fails"), "{2}", "",
     "nprsdy"},
    {"pins_of_other_cuda", "SRC48", Severity::kError, "torch==2.1.0+cu118 and nvidia-cublas-cu12",
     msgid("is for another CUDA than {0}"), "",
     msgid("install both for one CUDA: the one that torch is built with"), "nprsdy"},
    {"batch_from_cores", "SRC49", Severity::kInfo, "batch_size=os.cpu_count() * 4",
     msgid("GPU memory limits the batch size; the number of cores does not"),
     "@berth.fit_batch(start=128)",
     msgid("retries with smaller ones until one fits; berth plan estimates it before"), "pn"},
    {"current_device_unguarded", "SRC50", Severity::kInfo,
     "torch.cuda.current_device() without torch.cuda.is_available()",
     msgid("raises an error on a machine without a usable GPU; nothing checks for one first"),
     "if torch.cuda.is_available():",
     msgid("or berth.lease().device(\"torch\"), which is the CPU if there is no GPU"), "pn"},
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
    case Kind::kArticle:
    case Kind::kUnknown:
      break;
  }
  return '?';
}

bool applies(const Row& row, Kind kind) {
  if (kind == Kind::kArticle) return true;  // an article can contain code of every kind
  return std::string_view(row.kinds).find(letter(kind)) != std::string_view::npos;
}

/// Puts the mark's values into the text.
std::string filled(std::string all, const Source& source, const Mark& mark) {
  const std::string meant = mark.meant.empty() ? "…" : mark.meant;
  constexpr std::string_view kScript = "-- python {file}";
  if (const auto at = all.find(kScript); source.kind == Kind::kNotebook && at != std::string::npos)
    all.replace(at, kScript.size(), "-- jupyter lab {file}");
  const std::string file =
      source.kind == Kind::kArticle ? "train.py" : shell_word(printable(source.path));
  for (const auto& [place, value] :
       {std::pair("{file}", file), std::pair("{0}", mark.value), std::pair("{2}", meant)})
    for (auto at = all.find(place); at != std::string::npos;
         at = all.find(place, at + value.size()))
      all.replace(at, std::strlen(place), value);
  return all;
}

Finding finding_of(const Source& source, const Mark& mark, const Row& row) {
  Finding finding;
  finding.id = row.id;
  finding.layer = model::Layer::kSource;
  finding.severity = row.severity;
  finding.confidence = model::Confidence::kLow;  // no public case for these rules yet
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

model::Diagnosis diagnose(const std::vector<Source>& sources,
                          const std::vector<std::string>& only) {
  model::Diagnosis diagnosis;
  std::map<std::string, std::string> unseen;  // rule → why
  std::map<std::string, bool>
      found;  // the rules that apply to a file's kind, and whether each found something
  for (const Source& source : sources) {
    for (const Row& row : rows()) {
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
      diagnosis.not_checked.push_back({id, text("it applies to other kinds of files")});
  // Sorts by file in the given order, and by line within a file.
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
