#include "doctor/record.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.hpp"
#include "doctor/bundle_json.hpp"
#include "doctor/diagnose.hpp"
#include "doctor/redact.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;
using berth::slurp;
using berth::system::TemporaryTree;

namespace {

/// A machine with a GPU that nobody has bound, and a user called marie.
Sources machine(const TemporaryTree& folder) {
  folder.put("proc/modules", "nvidia 1 0 - Live 0x0\n");
  folder.put("home/marie/venv/pyvenv.cfg", "");
  folder.put("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
  folder.put("proc/sys/kernel/hostname", "gpu-box\n");
  folder.put("etc/passwd", "root:x:0:0::/root:/bin/sh\nmarie:x:1000:1000::/home/marie:/bin/sh\n");
  const std::string gpu = "sys/devices/pci0/0000:01:00.0/";
  folder.put(gpu + "vendor", "0x10de\n");
  folder.put(gpu + "device", "0x2684\n");
  folder.put(gpu + "class", "0x030000\n");
  folder.link("sys/bus/pci/devices/0000:01:00.0", "../../../devices/pci0/0000:01:00.0");
  Sources sources;
  sources.tree = Tree(folder.path);
  sources.kernel_log = std::string(
      "[1.0] Command line: root=/dev/sda1 token=abc\n"
      "[2.0] NVRM: Xid (PCI:0000:01:00): 31, pid=4711, name=train.py, Ch 8\n"
      "[3.0] gpu-box nvidia: marie was here\n");
  sources.driver = driver_not_asked();
  sources.process.environment = Environment{{"USER", "marie"},
                                            {"VIRTUAL_ENV", "/home/marie/venv"},
                                            {"HF_TOKEN", "hf_secret"},
                                            {"CUDA_API_KEY", "k"},
                                            {"CUDA_VISIBLE_DEVICES", "0"}};
  return sources;
}

/// The environment in a bundle, of somebody who has nothing but a home.
std::string told_of_home(const std::string& home) {
  const TemporaryTree folder, bundle;
  Sources sources = machine(folder);
  sources.process.environment = Environment{{"HOME", home}, {"PATH", home + "/bin:/usr/bin"}};
  REQUIRE(record(sources, bundle.path + "/b"));
  return slurp(bundle.path + "/b/environment").value_or("");
}

}  // namespace

TEST_CASE("a recorded machine is diagnosed as the machine itself") {
  const TemporaryTree folder, bundle;
  Sources sources = machine(folder);
  sources.kernel_log =
      std::string("[2.0] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n");
  const auto here = diagnose(collect(sources), {});
  REQUIRE(record(sources, bundle.path + "/b"));
  const auto again = from_bundle(bundle.path + "/b");
  REQUIRE(again);
  const auto there = diagnose(collect(*again), {});
  CHECK(there.verdict == here.verdict);
  REQUIRE(there.findings.size() == here.findings.size());
  for (std::size_t i = 0; i < here.findings.size(); ++i) {
    CHECK(there.findings[i].id == here.findings[i].id);
    auto told = here.findings[i].evidence;
    for (std::string& line : told)  // the log's line, without the program's name
      if (const auto at = line.find("train.py"); at != std::string::npos) line.replace(at, 8, "…");
    CHECK(there.findings[i].evidence == told);
  }
  CHECK(there.checked == here.checked);
}

TEST_CASE("a bundle has every line of the kernel's log that a rule reads") {
  const std::string_view lines =
      "oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/user.slice/"
      "mine.scope,task=python3,pid=4,uid=1\n"
      "Out of memory: Killed process 6154 (my-paper) total-vm:18109076kB\n"
      "[Hardware Error]:   aer_uncor_status: 0x00004000\n"
      "nouveau: module verification failed\n";
  const std::string told = redacted_log(lines);
  CHECK(told.find("task_memcg=…,task=python3,pid=4") != told.npos);
  CHECK(told.find("Killed process 6154 (…) total-vm") != told.npos);
  CHECK(told.find("aer_uncor_status: 0x00004000") != told.npos);
}

TEST_CASE("a host's name of two letters leads in the bundle where it leads on the machine") {
  const TemporaryTree folder, bundle;
  Sources sources = machine(folder);
  folder.put("proc/sys/kernel/hostname", "vm\n");
  folder.put("etc/hosts", "127.0.0.1\tlocalhost\n127.0.1.1\tvm box\n");
  sources.process.environment = Environment{{"WORLD_SIZE", "16"}, {"LOCAL_WORLD_SIZE", "8"}};
  const auto found = [](const Sources& of) { return diagnose(collect(of), {}, {"RT11"}).findings; };
  REQUIRE(found(sources).size() == 1);
  REQUIRE(record(sources, bundle.path + "/b"));
  const auto again = from_bundle(bundle.path + "/b");
  REQUIRE(again);
  CHECK(found(*again).size() == 1);
  CHECK(slurp(bundle.path + "/b/root/etc/hosts") == "127.0.0.1 localhost\n127.0.1.1 HOST …\n");
}

TEST_CASE("what an environment below a home holds is in the bundle") {
  const TemporaryTree folder, bundle;
  Sources sources = machine(folder);
  const std::string site = "home/marie/venv/lib/python3.11/site-packages/";
  folder.put("home/erin/private", "");
  for (const char* name : {"nvidia_nccl_cu11-2.14.3", "nvidia_nccl_cu12-2.27.3"})
    folder.put(site + name + ".dist-info/METADATA", "Name: x\n");
  sources.python = "/home/marie/venv/bin/python";
  const auto names = [](const Sources& of) {
    return of.tree.list("/home/user1/venv/lib/python3.11/site-packages").value_or({});
  };
  REQUIRE(record(sources, bundle.path + "/b"));
  const auto again = from_bundle(bundle.path + "/b");
  REQUIRE(again);
  CHECK(names(*again).size() == 2);
  CHECK(again->tree.list("/home").value_or({}) == std::vector<std::string>{"user1"});
}

TEST_CASE("a folder that is reached through a link above it is no link of its own") {
  const TemporaryTree folder, bundle;
  Sources sources = machine(folder);
  folder.put("usr/local/cuda-12.4/lib64/libcuda.so.1", "");
  folder.link("usr/local/cuda", "cuda-12.4");
  sources.process.environment = Environment{{"LD_LIBRARY_PATH", "/usr/local/cuda/lib64"}};
  REQUIRE(record(sources, bundle.path + "/b"));
  const auto again = from_bundle(bundle.path + "/b");
  REQUIRE(again);
  CHECK(again->tree.exists("/usr/local/cuda/lib64/libcuda.so.1"));
}

TEST_CASE("of dpkg's file a bundle has the packages that rules read, however long it is") {
  const TemporaryTree folder, bundle;
  Sources sources = machine(folder);
  std::string status = "Package: podman\nStatus: install ok installed\nVersion: 4.3.1\n\n";
  while (status.size() < 300'000)
    status += "Package: inhouse\nStatus: install ok installed\nMaintainer: bob@corp\n\n";
  folder.put("var/lib/dpkg/status", status);
  REQUIRE(record(sources, bundle.path + "/b"));
  CHECK(slurp(bundle.path + "/b/root/var/lib/dpkg/status") ==
        "Package: podman\nStatus: install ok installed\nVersion: 4.3.1\n\n");
}

TEST_CASE("a bundle tells no names, tokens or command lines") {
  const TemporaryTree folder, bundle;
  Sources sources = machine(folder);
  const auto told = record(sources, bundle.path + "/b");
  REQUIRE(told);
  std::string all;
  for (const char* name :
       {"environment", "kernel.log", "driver.json", "process.json", "nodes.jsonl", "redacted.txt"})
    all += slurp(bundle.path + "/b/" + name).value_or("");
  for (const char* secret : {"marie", "hf_secret", "gpu-box", "abc", "train.py", "=k"}) {
    CAPTURE(secret);
    CHECK(all.find(secret) == std::string::npos);
  }
  CHECK(all.find("VIRTUAL_ENV=/home/user1/venv") != std::string::npos);
  CHECK(all.find("pid=4711, name=…, Ch 8") != std::string::npos);
  CHECK(all.find("HF_TOKEN") != std::string::npos);  // that it was left out
}

TEST_CASE("a program's name is left out of what the kernel says of it") {
  CHECK(redacted_file("/proc/812/comm", "my-secret-job\n") == "…\n");
  CHECK(redacted_file("/proc/812/comm", "nvidia-persiste\n") == "nvidia-persiste\n");
  CHECK(redacted_file("/proc/812/stat", "812 (a) b) D 1 0\n") == "812 (…) D 1 0\n");
  CHECK(redacted_file("/proc/812/stat", "nonsense").empty());
  CHECK(redacted_file("/proc/812/comm", "dpkg\n") == "dpkg\n");
  CHECK(redacted_file("/proc/stat", "cpu 1 2\nbtime 1763800000\nctxt 5\n") == "btime 1763800000\n");
  CHECK(redacted_file("/proc/sys/kernel/osrelease", "6.8.0\n") == "6.8.0\n");
  CHECK(redacted_log("INFO: task secret:812 blocked for more than 120 seconds.\n") ==
        "INFO: task …:812 blocked for more than 120 seconds.\n");
}

namespace {

std::string told(std::string_view path, std::string_view text) {
  std::string all = redacted_file(path, text);
  CAPTURE(all);
  CHECK(all.find("secret") == std::string::npos);
  return all;
}

}  // namespace

TEST_CASE("settings tell what rules ask of them, and no passwords") {
  const std::string engine =
      told("/etc/docker/daemon.json",
           R"({"default-runtime":"nvidia","proxies":{"http-proxy":"http://bob:secret@proxy"},
"exec-opts":["native.cgroupdriver=systemd"],"runtimes":{"nvidia":{"path":"/usr/bin/nvidia-container-runtime"}},
"registry-mirrors":["https://secret.lab"])");
  CHECK(engine.find(R"("exec-opts":["native.cgroupdriver=systemd"])") != std::string::npos);
  CHECK(engine.find(R"("nvidia":{"…":"/usr/bin/nvidia-container-runtime"})") != std::string::npos);
  CHECK(told("/etc/containerd/config.toml",
             "# don't tell secret\n[plugins.cri.registry.configs.\"secret.lab\".auth]\n  password "
             "= 'secret'\n"
             "  SystemdCgroup = true\n  BinaryName = \"/usr/bin/nvidia-container-runtime\"\n")
            .ends_with("  password = '…'\n  SystemdCgroup = true\n  BinaryName = "
                       "\"/usr/bin/nvidia-container-runtime\"\n"));
}

TEST_CASE("of services, groups and packages is told what rules ask") {
  CHECK(
      told("/etc/systemd/system/ollama.service",
           "[Service]\nEnvironment=\"CUDA_VISIBLE_DEVICES=0\" \"TOKEN=secret\" OLLAMA_DEBUG=1\n") ==
      "Environment=\"CUDA_VISIBLE_DEVICES=0\" \"OLLAMA_DEBUG=…\"\n");
  CHECK(told("/etc/systemd/system/ollama.service.d/more.conf",
             "Environment='OLLAMA_PASSWORD=secret' \\\n  OLLAMA_PROXY=http://bob:secret@p "
             "TOKEN=secret\n"
             "Environment=\"OLLAMA_ORIGINS=secret\nOLLAMA_secret=1\"\n") ==
        "Environment=\"OLLAMA_PASSWORD=…\" \"OLLAMA_PROXY=…\"\nEnvironment=\"OLLAMA_ORIGINS=…\"\n");
  CHECK(told("/etc/systemd/system/ollama.service",
             "User=ollama-secret\nDeviceAllow=/dev/secret rw\nDeviceAllow=char-nvidia-uvm rw\n") ==
        "User=user1\nDeviceAllow=nvidia\n");
  CHECK(told("/etc/OpenCL/vendors/nvidia.icd", "libnvidia-opencl.so.1\nsecret\n") ==
        "libnvidia-opencl.so.1\n");
  CHECK(told("/etc/systemd/system/ollama.service",
             "[Service]\nUser=ollama\nExecStart=secret\nPrivateDevices=yes\nGroup=render\n") ==
        "User=ollama\nPrivateDevices=yes\nGroup=render\n");
  CHECK(told("/etc/group", "secret:x:1:bob\nrender:x:992:bob,ollama\n") == "render:x:0:ollama\n");
  CHECK(berth::doctor::redacted_group("render:x:992:bob,acme\n", "acme") == "render:x:0:user1\n");
  CHECK(told("/etc/slurm/gres.conf",
             "# secret\nNodeName=secret\tName=gpu \\\n\tFile=/dev/nvidia0\tType=secret\n"
             "Name=secret File=/dev/secret\n") ==
        "NodeName=… Name=gpu File=/dev/nvidia0 Type=…\nName=… File=…\n");
  CHECK(told("/var/lib/dpkg/status",
             "Package: secret-tool\nStatus: install ok installed\nVersion: 1\n\n"
             "Package: podman\nStatus: install ok installed\nMaintainer: a@secret.lab\n"
             "Architecture: amd64\nVersion: 4.3.1\nDescription: x\n secret\n\n"
             "Package: linux-image-secret\nStatus: install ok installed\nVersion: 2\n\n"
             "Package: nvidia-dkms-550\nStatus: install ok half-configured\nVersion: 550.1\n") ==
        "Package: podman\nStatus: install ok installed\nVersion: 4.3.1\nArchitecture: amd64\n\n"
        "Package: nvidia-dkms-550\nStatus: install ok half-configured\nVersion: 550.1\n\n");
  CHECK(told("/etc/systemd/system/ollama.service.d/more.conf",
             "EnvironmentFile=-/etc/default/ollama\nEnvironmentFile=/srv/ann/secret.env\n"
             "PassEnvironment=OLLAMA_MODELS TOKEN\n") ==
        "EnvironmentFile=-/etc/default/ollama\nEnvironmentFile=/%\n"
        "PassEnvironment=OLLAMA_MODELS \n");
  CHECK(told("/etc/default/ollama",
             "# secret\nOLLAMA_VULKAN=1\nOLLAMA_API_KEY = secret\nTOKEN=secret\n"
             "OLLAMA_AUTH=\"a\nOLLAMA_secret\nOLLAMA_SECRET\"\nCUDA_VISIBLE_DEVICES=\"0,1\"\n") ==
        "OLLAMA_VULKAN=…\nOLLAMA_API_KEY=…\nOLLAMA_AUTH=…\nCUDA_VISIBLE_DEVICES=0,1\n");
}

TEST_CASE("files of programs tell nobody's names, hosts and passwords") {
  CHECK(told("/proc/version",
             "Linux version 6.1.0 (secret@lab) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld 2.40) "
             "#1\n") == "Linux version (gcc-12 (Debian 12.2.0-14) 12.2.0)\n");
  CHECK(told("/etc/cdi/nvidia.yaml", "env:\n- NVIDIA_VISIBLE_DEVICES=void\n- TOKEN=secret\n") ==
        "env:\n- NVIDIA_VISIBLE_DEVICES=void\n- TOKEN=…\n");
  CHECK(told("/v/lib/nvidia_cudnn_cu12-9.dist-info/RECORD",
             "../../../bin/x,,\nnvidia/cudnn/lib/libcudnn.so.9,sha256=x,1\n") ==
        "nvidia/cudnn/lib/libcudnn.so.9,sha256=x,1\n");
  CHECK(told("/v/lib/x-1.dist-info/METADATA",
             "Name: x\nVersion: 1\nAuthor-email: a@secret.lab\n"
             "Requires-Dist: y @ https://u:secret@host/y.whl\nRequires-Dist: z>=2\n\nsecret\n") ==
        "Name: x\nVersion: 1\nRequires-Dist: y @ …\nRequires-Dist: z>=2\n");
  CHECK(told("/etc/nccl.conf", "# secret\nNCCL_DEBUG=INFO\nMY=secret\n") == "NCCL_DEBUG=INFO\n");
  CHECK(told("/v/pyvenv.cfg", "home = /usr/bin\ncommand = python -m venv secret\n") ==
        "home = /usr/bin\n");
  CHECK(told("/v/torch/version.py", "# secret\ncuda = None\n") == "cuda = None\n");
  CHECK(told("/proc/sys/kernel/hostname", "secret\n") == "HOST\n");
  CHECK(told("/etc/apt/x.list", "deb https://me:secret@mirror/debian stable\n") ==
        "deb https://…@mirror/debian stable\n");
  const std::string binary("\0://a:b@c", 10);
  CHECK(redacted_file("/usr/lib/x.so", binary) == binary);
}

TEST_CASE("variables of programs and schedulers are told where a rule asks for them") {
  std::set<std::string> dropped;
  const Environment told =
      berth::doctor::redacted_environment({{"OMPI_ARGV", "train.py --hub-token hf_x"},
                                           {"OLLAMA_HOST", "https://bob:pw@ollama.corp"},
                                           {"SLURM_JWT", "eyJ"},
                                           {"SLURM_SUBMIT_HOST", "login3.corp"},
                                           {"SLURM_JOB_NAME", "secret-paper"},
                                           {"DS_SSH_PASS", "swordfish"},
                                           {"TORCH_HUB_AUTH", "ghp_x"},
                                           {"TF_CONFIG", "{}"},
                                           {"NCCL_COMM_ID", "10.0.0.7:1234"},
                                           {"VLLM_HOST_IP", "10.0.0.7"},
                                           {"JAX_COORDINATOR_ADDRESS", "w1.corp"},
                                           {"CUDA_HOME", "ftp://bob:pw@x/cuda"},
                                           {"MASTER_ADDR", "w1.corp"},
                                           {"SLURM_NNODES", "2"},
                                           {"NCCL_SOCKET_IFNAME", "eth0"},
                                           {"CUDA_VISIBLE_DEVICES", "0"}},
                                          dropped);
  CHECK(told == Environment{{"CUDA_HOME", "…"},
                            {"CUDA_VISIBLE_DEVICES", "0"},
                            {"MASTER_ADDR", "…"},
                            {"NCCL_SOCKET_IFNAME", "eth0"},
                            {"SLURM_NNODES", "2"}});
  CHECK(dropped.size() == 11);
}

TEST_CASE("files of the machine tell what rules ask, and nobody's passwords and hosts") {
  CHECK(redacted_file("/proc/cmdline",
                      "BOOT_IMAGE=/x rd.luks.key=abc ro nvidia-drm.modeset=1 ip=10.0.0.7\n") ==
        "… … ro nvidia-drm.modeset=1 …\n");
  CHECK(berth::doctor::redacted_hosts(
            "127.0.0.1 localhost\n127.0.1.1\tvm  box # mine\n10.0.0.7 nas.corp\n", "vm") ==
        "127.0.0.1 localhost\n127.0.1.1 HOST …\n");
  CHECK(redacted_file(
            "/proc/self/mountinfo",
            "36 35 0:9 /secret /mnt rw,noexec shared:1 - nfs4 nas.corp:/s rw,addr=10.0.0.7\n") ==
        "36 35 0:9 / /mnt rw,noexec - nfs4 … …\n");
  CHECK(redacted_log("[ 12.5] my-paper[4711]: segfault at 0 in libcuda.so nvidia\n") ==
        "[ 12.5] …[4711]: segfault at 0 in libcuda.so nvidia\n");
}

TEST_CASE("whoever a path names is hidden, known or not, and is the same one everywhere") {
  Redaction redaction;
  const auto told = [&](std::string_view text) { return redaction.apply(text); };
  CHECK(told("LD_LIBRARY_PATH=/home/mallory/lib:/home/erin-x/lib\n") ==
        "LD_LIBRARY_PATH=/home/user1/lib:/home/user2/lib\n");
  CHECK(told("/mnt/nfs/home/erin-x/a, \"/export/home/gina\"") ==
        "/mnt/nfs/home/user2/a, \"/export/home/user3\"");
  CHECK(told("/Users/henry:/mnt/c/Users/Larry Smith/x:/gpfs/users/dave") ==
        "/Users/user4:/mnt/c/Users/user5/x:/gpfs/users/user6");
  CHECK(told("/homes/oscar /lustre/scratch/frank.miller/cuda =/u/peggy/cuda") ==
        "/homes/user7 /lustre/scratch/user8/cuda =/u/user9/cuda");
  CHECK(told("/net/nfs01.corp.example/home/mallory/lib") == "/net/HOST/home/user1/lib");
  CHECK(told("/home/d/dave/x") == "/home/user10/user6/x");
  CHECK(told("C:\\Users\\henry\\x") == "C:\\Users\\user4\\x");
  for (const char* nobody : {"/sys/class/net/eth0/mtu", "/proc/sys/net/core", "/opt/u/x", "/home",
                             "/home/$USER/lib", "/home/user/lib", "/usr/lib/x.so at home/work"})
    CHECK(told(nobody) == nobody);
  for (const std::string& line : redaction.report()) CHECK(line.find("mallory") == line.npos);
  CHECK(redaction.report().size() == 11);
}

TEST_CASE("a name with dots is hidden as a whole") {
  Redaction redaction;
  redaction.hide_user("alice");
  redaction.hide_host("gpu7.corp.example");
  CHECK(redaction.apply("/data/alice.smith/x, alice.smith@corp") == "/data/user2/x, user2@corp");
  CHECK(redaction.apply("/data/alice.py by alice.") == "/data/user1.py by user1.");
  CHECK(redaction.apply("gpu7: gpu7.corp.example, gpu7.local") == "HOST: HOST, HOST");
}

TEST_CASE("a name of two letters is hidden where it names a folder") {
  CHECK(told_of_home("/home/li").find("/home/li") == std::string::npos);
  CHECK(told_of_home("/data/wu") == "HOME=/data/user1\nPATH=/data/user1/bin:/usr/bin\n");
  Redaction redaction;
  redaction.hide_user("sh");
  CHECK(redaction.apply("/bin/sh -c sh /data/sh/x") == "/bin/sh -c sh /data/user1/x");
}

TEST_CASE("an account that is called as a system is hidden where it names a folder of homes") {
  Redaction redaction;
  redaction.hide_user("ubuntu");
  redaction.hide_user("ollama");
  CHECK(redaction.apply("ID=ubuntu /home/ubuntu/x /usr/bin/ollama") ==
        "ID=ubuntu /home/user1/x /usr/bin/ollama");
}

TEST_CASE("GPUs and boards get other names, and those that named one GPU still do") {
  Redaction redaction;
  const std::string told = redaction.apply(
      "GPU-8a31bc42-0000 GPU-8a31bc43-0000 GPU-8a3 MIG-GPU-8a31bc42-0000/1/0 MIG-77");
  CHECK(told == "GPU-00000000-0000 GPU-00000001-0000 GPU-000 MIG-GPU-00000000-0000/1/0 MIG-00");
  CHECK(redaction.apply("GPU-based, xGPU-12, GPU-") == "GPU-based, xGPU-12, GPU-");
  CHECK(redaction.apply("NVRM: GPU Board Serial Number: 1324521001234\nSerial: 1324521001235, "
                        "SerialNumber=1324521001234") ==
        "NVRM: GPU Board Serial Number: serial1\nSerial: serial2, SerialNumber=serial1");
  CHECK(redaction.apply("serial: 8250, serialised") == "serial: 8250, serialised");
}

TEST_CASE("names in files of bytes are hidden without moving the bytes") {
  Redaction redaction;
  redaction.hide_user("marie");
  const std::string before("\x7f\0/home/mallory/lib\0/data/marie/x\0/home/li/x", 45);
  const std::string after = redaction.apply_in_place(before);
  CHECK(after.size() == before.size());
  CHECK(after == std::string("\x7f\0/home/user2///lib\0/data/user1/x\0/home/xx/x", 45));
}

TEST_CASE("a name is hidden as a whole word alone") {
  Redaction redaction;
  redaction.hide_user("lin");
  redaction.hide_user("root");
  CHECK(redaction.apply("/home/lin/linux of root, lin.") == "/home/user1/linux of root, user1.");
}

TEST_CASE("who has no USER is hidden by the name of the home") {
  const std::string told = told_of_home("/scratch/alicexyz");
  CHECK(told.find("PATH=/scratch/user") != std::string::npos);
  CHECK(told.find("alicexyz") == std::string::npos);
}

TEST_CASE("a folder that is not empty is not written to") {
  const TemporaryTree folder, bundle;
  bundle.put("b/mine", "x");
  Sources sources = machine(folder);
  const auto told = record(sources, bundle.path + "/b");
  REQUIRE(!told);
  CHECK(told.error().id == "E0804");
}
