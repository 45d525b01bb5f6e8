#include "doctor/record/redact.hpp"
#include "doctor/record/kept.hpp"

#include <doctest/doctest.h>

#include "doctor/knowledge/knowledge.hpp"
#include "doctor/record/shareable_names.hpp"
#include "doctor/tree/tree.hpp"

using namespace berth::doctor;

namespace {

std::string redacted(std::string_view path, std::string_view text) {
  std::string all = redacted_file(path, text).value_or("left out");
  CAPTURE(all);
  CHECK(all.find("secret") == std::string::npos);
  return all;
}

}  // namespace

TEST_CASE("a bundle has every line of the kernel's log that a rule reads") {
  const std::string_view lines =
      "oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/user.slice/"
      "mine.scope,task=python3,pid=4,uid=1\n"
      "Out of memory: Killed process 6154 (my-paper) total-vm:18109076kB\n"
      "[Hardware Error]:   aer_uncor_status: 0x00004000\n"
      "nouveau: module verification failed\n";
  const std::string redacted = redacted_log(lines);
  CHECK(redacted.find("task_memcg=…,task=python3,pid=4") != redacted.npos);
  CHECK(redacted.find("Killed process 6154 (…) total-vm") != redacted.npos);
  CHECK(redacted.find("aer_uncor_status: 0x00004000") != redacted.npos);
}

TEST_CASE("programs' names are removed from kernel files") {
  CHECK(redacted_file("/proc/812/comm", "my-secret-job\n") == "…\n");
  CHECK(redacted_file("/proc/812/comm", "nvidia-persiste\n") == "nvidia-persiste\n");
  CHECK(redacted_file("/proc/812/stat", "812 (a) b) D 1 0\n") == "812 (…) D 1 0\n");
  CHECK(redacted_file("/proc/812/stat", "nonsense") == "");
  CHECK(redacted_file("/proc/812/comm", "dpkg\n") == "dpkg\n");
  CHECK(redacted_file("/proc/stat", "cpu 1 2\nbtime 1763800000\nctxt 5\n") == "btime 1763800000\n");
  CHECK(redacted_file("/proc/sys/kernel/osrelease", "6.8.0\n") == "6.8.0\n");
  CHECK(redacted_log("INFO: task secret:812 blocked for more than 120 seconds.\n") ==
        "INFO: task …:812 blocked for more than 120 seconds.\n");
}

TEST_CASE("only Docker Desktop's context is kept of docker's settings") {
  CHECK(redacted(
            "/home/user1/.docker/config.json",
            R"({"auths":{"secret.lab":{"auth":"c2VjcmV0"}},"currentContext":"desktop-linux"})") ==
        "{\"currentContext\":\"desktop-linux\"}\n");
  CHECK(redacted("/c/config.json", R"({"currentContext":"secret-lab"})") == "{}\n");
  CHECK(redacted("/c/config.json", "secret") == "{}\n");
}

TEST_CASE("only settings that rules read are kept, and no passwords") {
  const std::string engine =
      redacted("/etc/docker/daemon.json",
               R"({"default-runtime":"nvidia","proxies":{"http-proxy":"http://bob:secret@proxy"},
"exec-opts":["native.cgroupdriver=systemd"],"runtimes":{"nvidia":{"path":"/usr/bin/nvidia-container-runtime"}},
"registry-mirrors":["https://secret.lab"])");
  CHECK(engine.find(R"("exec-opts":["native.cgroupdriver=systemd"])") != std::string::npos);
  CHECK(engine.find(R"("nvidia":{"path":"/usr/bin/nvidia-container-runtime"})") !=
        std::string::npos);
  CHECK(redacted("/etc/containerd/config.toml",
                 "# don't tell secret\n[plugins.cri.registry.configs.secretlab.auth]\n  password "
                 "= 'secret'\n"
                 "  SystemdCgroup = true\n  BinaryName = \"/usr/bin/nvidia-container-runtime\"\n")
            .ends_with("  … = '…'\n  SystemdCgroup = true\n  BinaryName = "
                       "\"/usr/bin/nvidia-container-runtime\"\n"));
}

TEST_CASE("services, groups and packages are reduced to what rules read") {
  CHECK(
      redacted(
          "/etc/systemd/system/ollama.service",
          "[Service]\nEnvironment=\"CUDA_VISIBLE_DEVICES=0\" \"TOKEN=secret\" OLLAMA_DEBUG=1\n") ==
      "Environment=\"CUDA_VISIBLE_DEVICES=0\" \"OLLAMA_DEBUG=…\"\n");
  CHECK(redacted("/etc/systemd/system/ollama.service.d/more.conf",
                 "Environment='OLLAMA_PASSWORD=secret' \\\n  OLLAMA_PROXY=http://bob:secret@p "
                 "TOKEN=secret\n"
                 "Environment=\"OLLAMA_ORIGINS=secret\nOLLAMA_secret=1\"\n") ==
        "Environment=\"OLLAMA_PASSWORD=…\" \"OLLAMA_PROXY=…\"\nEnvironment=\"OLLAMA_ORIGINS=…\"\n");
  CHECK(redacted(
            "/etc/systemd/system/ollama.service",
            "User=ollama-secret\nDeviceAllow=/dev/secret rw\nDeviceAllow=char-nvidia-uvm rw\n") ==
        "User=user1\nDeviceAllow=nvidia\n");
  CHECK(redacted("/etc/OpenCL/vendors/nvidia.icd", "libnvidia-opencl.so.1\nsecret\n") ==
        "libnvidia-opencl.so.1\n");
  CHECK(redacted("/etc/systemd/system/ollama.service",
                 "[Service]\nUser=ollama\nExecStart=secret\nPrivateDevices=yes\nGroup=render\n") ==
        "User=ollama\nPrivateDevices=yes\nGroup=render\n");
  CHECK(redacted("/etc/group", "secret:x:1:bob\nrender:x:992:bob,ollama\n") ==
        "render:x:0:ollama\n");
  CHECK(berth::doctor::redacted_group("render:x:992:bob,acme\n", "acme") == "render:x:0:user1\n");
  CHECK(redacted("/etc/slurm/gres.conf",
                 "# secret\nNodeName=secret\tName=gpu \\\n\tFile=/dev/nvidia0\tType=secret\n"
                 "Name=secret File=/dev/secret\n") ==
        "NodeName=… Name=gpu File=/dev/nvidia0 Type=…\nName=… File=…\n");
  CHECK(
      redacted("/var/lib/dpkg/status",
               "Package: secret-tool\nStatus: install ok installed\nVersion: 1\n\n"
               "Package: podman\nStatus: install ok installed\nMaintainer: a@secret.lab\n"
               "Architecture: amd64\nVersion: 4.3.1\nDescription: x\n secret\n\n"
               "Package: linux-image-secret\nStatus: install ok installed\nVersion: 2\n\n"
               "Package: nvidia-dkms-550\nStatus: install ok half-configured\nVersion: 550.1\n") ==
      "Package: podman\nStatus: install ok installed\nVersion: 4.3.1\nArchitecture: amd64\n\n"
      "Package: nvidia-dkms-550\nStatus: install ok half-configured\nVersion: 550.1\n\n");
  CHECK(redacted("/etc/systemd/system/ollama.service.d/more.conf",
                 "EnvironmentFile=-/etc/default/ollama\nEnvironmentFile=/srv/ann/secret.env\n"
                 "PassEnvironment=OLLAMA_MODELS TOKEN\n") ==
        "EnvironmentFile=-/etc/default/ollama\nEnvironmentFile=/%\n"
        "PassEnvironment=OLLAMA_MODELS \n");
  CHECK(
      redacted("/etc/default/ollama",
               "# secret\nOLLAMA_VULKAN=1\nOLLAMA_API_KEY = secret\nTOKEN=secret\n"
               "OLLAMA_AUTH=\"a\nOLLAMA_secret\nOLLAMA_SECRET\"\nCUDA_VISIBLE_DEVICES=\"0,1\"\n") ==
      "OLLAMA_VULKAN=…\nOLLAMA_API_KEY=…\nOLLAMA_AUTH=…\nCUDA_VISIBLE_DEVICES=0,1\n");
}

TEST_CASE("names, hosts and passwords are removed from files of programs") {
  CHECK(redacted("/proc/version",
                 "Linux version 6.1.0 (secret@lab) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld 2.40) "
                 "#1\n") == "Linux version (gcc-12 (Debian 12.2.0-14) 12.2.0)\n");
  CHECK(redacted("/etc/cdi/nvidia.yaml",
                 "kind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n  env:\n  - TOKEN=secret\n"
                 "  hostPath: /srv/secret/x\n  hostPath: /usr/lib64/libcuda.so.535.1\n") ==
        "kind: nvidia.com/gpu\ndevices: \nname: 0\nhostPath: /usr/lib64/libcuda.so.535.1\n");
  CHECK(redacted("/v/lib/nvidia_cudnn_cu12-9.dist-info/RECORD",
                 "../../../bin/x,,\nnvidia/cudnn/lib/libcudnn.so.9,sha256=x,1\n") ==
        "nvidia/cudnn/lib/libcudnn.so.9,sha256=x,1\n");
  CHECK(
      redacted("/v/lib/x-1.dist-info/METADATA",
               "Name: x\nVersion: 1\nAuthor-email: a@secret.lab\n"
               "Requires-Dist: y @ https://u:secret@host/y.whl\nRequires-Dist: z>=2\n\nsecret\n") ==
      "Name: x\nVersion: 1\nRequires-Dist: y @ …\nRequires-Dist: z>=2\n");
  for (const char* row : {"y@ git+https://u:secret@host/y.git", "y@git+https://host/secret",
                          "y[a] @https://host/secret"})
    CHECK(redacted("/v/x-1.egg-info/PKG-INFO", "Name: x\nRequires-Dist: " + std::string(row) + "\n")
              .ends_with(" @ …\n"));
  CHECK(
      redacted("/v/x-1.dist-info/METADATA", "Requires-Dist: u:secret@host\nName: ftp://secret\n") ==
      "Requires-Dist: @ …\nName: @ …\n");
  CHECK(redacted("/etc/nvidia/kernel.conf", "# ann\nMODULE_VARIANT=kernel-open\nA=secret\n") ==
        "MODULE_VARIANT=kernel-open\n");
  CHECK(redacted("/etc/nccl.conf", "# secret\nNCCL_DEBUG=INFO\nMY=secret\n") ==
        "NCCL_DEBUG=INFO\n");
  CHECK(redacted("/v/pyvenv.cfg", "home = /usr/bin\ncommand = python -m venv secret\n") ==
        "home = /usr/bin\n");
  CHECK(redacted("/v/torch/version.py", "# secret\ncuda = None\n") == "cuda = None\n");
  CHECK(redacted("/proc/sys/kernel/hostname", "secret\n") == "HOST\n");
  CHECK(redacted("/etc/apt/x.list", "deb https://me:secret@mirror/debian stable\n") == "left out");
  const std::string binary("\0://a:b@c", 10);
  CHECK(!redacted_file("/usr/lib/x.so", binary));
}

TEST_CASE("a wheel's address is reduced to its name, and may have none") {
  const auto from = [](const std::string& url) {
    return redacted("/v/x-1.dist-info/direct_url.json", R"({"url":")" + url + "\"}");
  };
  CHECK(from("file:") == "{\"url\":\"file:///…\"}\n");
  CHECK(from("file:///srv/secret/x-1-py3-none-any.whl") ==
        "{\"url\":\"file:///…/x-1-py3-none-any.whl\"}\n");
}

TEST_CASE("variables of programs and schedulers are kept if a rule reads them") {
  std::set<std::string> dropped;
  const Environment redacted =
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
  CHECK(redacted == Environment{{"CUDA_HOME", "…"},
                                {"CUDA_VISIBLE_DEVICES", "0"},
                                {"MASTER_ADDR", "…"},
                                {"NCCL_SOCKET_IFNAME", "eth0"},
                                {"SLURM_NNODES", "2"}});
  CHECK(dropped.size() == 11);
}

TEST_CASE("only the tunable for executable stacks is kept of glibc's tunables") {
  std::set<std::string> dropped;
  const auto redacted = [&](const char* value) {
    return berth::doctor::redacted_environment({{"GLIBC_TUNABLES", value}}, dropped)
        .at("GLIBC_TUNABLES");
  };
  CHECK(redacted("glibc.malloc.check=3:glibc.rtld.execstack=2:secret=hunter2") ==
        "glibc.rtld.execstack=2");
  CHECK(redacted("secret=hunter2").empty());
}

TEST_CASE("every variable that prevents conflicts of packages is kept") {
  for (const auto& row : berth::doctor::Knowledge{}.compatibility().pairs) {
    if (row.unless.empty()) continue;
    const std::string name = row.unless.substr(0, row.unless.find('='));
    CAPTURE(name);
    std::set<std::string> dropped;
    CHECK(berth::doctor::redacted_environment({{name, "1"}}, dropped) == Environment{{name, "1"}});
  }
}

TEST_CASE(
    "only parts that rules read are kept of the machine's files, without passwords and hosts") {
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
  CHECK(redacted_file("/proc/self/mountinfo", "36 35 0:9 /secret /mnt rw,noexec shared:1\n") ==
        "36 35 0:9 / /mnt rw,noexec - … … …\n");
  CHECK(redacted_log("[ 12.5] my-paper[4711]: segfault at 0 in libcuda.so nvidia\n") ==
        "[ 12.5] …[4711]: segfault at 0 in libcuda.so nvidia\n");
}

TEST_CASE("user names in paths are hidden, known or not, with the same replacement everywhere") {
  Redaction redaction;
  const auto redacted = [&](std::string_view text) { return redaction.apply(text); };
  CHECK(redacted("LD_LIBRARY_PATH=/home/mallory/lib:/home/erin-x/lib\n") ==
        "LD_LIBRARY_PATH=/home/user1/lib:/home/user2/lib\n");
  CHECK(redacted("/mnt/nfs/home/erin-x/a, \"/export/home/gina\"") ==
        "/mnt/nfs/home/user2/a, \"/export/home/user3\"");
  CHECK(redacted("/Users/henry:/mnt/c/Users/Larry Smith/x:/gpfs/users/dave") ==
        "/Users/user4:/mnt/c/Users/user5/x:/gpfs/users/user6");
  CHECK(redacted("/homes/oscar /lustre/scratch/frank.miller/cuda =/u/peggy/cuda") ==
        "/homes/user7 /lustre/scratch/user8/cuda =/u/user9/cuda");
  CHECK(redacted("/net/nfs01.corp.example/home/mallory/lib") == "/net/HOST/home/user1/lib");
  CHECK(redacted("/home/d/dave/x") == "/home/user10/user6/x");
  CHECK(redacted("C:\\Users\\henry\\x") == "C:\\Users\\user4\\x");
  for (const char* nobody : {"/sys/class/net/eth0/mtu", "/proc/sys/net/core", "/opt/u/x", "/home",
                             "/home/$USER/lib", "/home/user/lib", "/usr/lib/x.so at home/work"})
    CHECK(redacted(nobody) == nobody);
  for (const std::string& line : redaction.report()) CHECK(line.find("mallory") == line.npos);
  CHECK(redaction.report().size() == 11);
}

TEST_CASE("a user named like a folder of homes does not change other paths") {
  Redaction redaction;
  redaction.hide_user("home");
  redaction.hide_user("scratch");
  for (const char* path : {"/tmp/x/home/.config/pip/pip.conf", "/tmp/x/scratch/.condarc",
                           "HOME=/tmp/x/scratch", "/tmp/x/home"})
    CHECK(redaction.apply(path) == path);
  const std::string bytes("\x7f/tmp/home/.local/x\0", 21);
  CHECK(redaction.apply_in_place(bytes) == bytes);
  CHECK(redaction.apply("/scratch/ann/.config") == "/scratch/user1/.config");
}

TEST_CASE("a name with dots is hidden as a whole") {
  Redaction redaction;
  redaction.hide_user("alice");
  redaction.hide_host("gpu7.corp.example");
  CHECK(redaction.apply("/data/alice.smith/x, alice.smith@corp") == "/data/user2/x, user2@corp");
  CHECK(redaction.apply("/data/alice.py by alice.") == "/data/user1.py by user1.");
  CHECK(redaction.apply("gpu7: gpu7.corp.example, gpu7.local") == "HOST: HOST, HOST");
}

TEST_CASE("an account with the name of a system is hidden in home paths") {
  Redaction redaction;
  redaction.hide_user("ubuntu");
  redaction.hide_user("ollama");
  CHECK(redaction.apply("ID=ubuntu /home/ubuntu/x /usr/bin/ollama") ==
        "ID=ubuntu /home/user1/x /usr/bin/ollama");
}

TEST_CASE("GPUs and boards get other names, and those that named one GPU still do") {
  Redaction redaction;
  const std::string redacted = redaction.apply(
      "GPU-8a31bc42-0000 GPU-8a31bc43-0000 GPU-8a3 MIG-GPU-8a31bc42-0000/1/0 MIG-77");
  CHECK(redacted == "GPU-00000000-0000 GPU-00000001-0000 GPU-000 MIG-GPU-00000000-0000/1/0 MIG-00");
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

TEST_CASE("a name is hidden only as a whole word") {
  Redaction redaction;
  redaction.hide_user("lin");
  redaction.hide_user("root");
  CHECK(redaction.apply("/home/lin/linux of root, lin.") == "/home/user1/linux of root, user1.");
}

TEST_CASE("names of notebook kernels are replaced, and their order is kept") {
  const auto redacted = shareable_names("/home/marie/.local/share/jupyter/kernels",
                                        {"acme-secret", "python3", "zeta-secret"});
  CHECK(redacted.at("acme-secret") < redacted.at("python3"));
  CHECK(redacted.at("python3") == "python3");
  CHECK(redacted.at("zeta-secret") > "python3");
  for (const auto& [name, other] : redacted) CHECK(other.find("secret") == other.npos);
}

TEST_CASE("the kubelet's plugins are reduced to their number and whether one is for GPUs") {
  const auto redacted =
      shareable_names("/var/lib/kubelet/device-plugins",
                      {"acme-gpu.sock", "acme-secret.sock", "kubelet.sock", "nvidia-gpu.sock"});
  CHECK(redacted.at("kubelet.sock") == "kubelet.sock");
  CHECK(redacted.at("nvidia-gpu.sock") == "nvidia-gpu.sock");
  CHECK(redacted.at("acme-gpu.sock").ends_with("-gpu.sock"));
  CHECK(redacted.at("acme-secret.sock").ends_with(".sock"));
  for (const auto& [name, other] : redacted) CHECK(other.find("acme") == other.npos);
}

TEST_CASE("the first process's variables, roots of disks and addresses of cards stay away") {
  CHECK(redacted_file("/proc/1/environ", std::string("PASSWORD=x\0container=lxc\0", 26)) ==
        std::string("container=lxc\0", 14));
  CHECK(redacted_file("/proc/cmdline", "root=UUID=3f2504e0 ro nvidia.NVreg_X=1\n") ==
        "… ro nvidia.NVreg_X=1\n");
  CHECK(
      redacted_file("/proc/self/mountinfo",
                    "9 8 0:1 /var/lib/docker/containers/4f5a/hosts /etc/hosts rw - ext4 x rw\n") ==
      "9 8 0:1 /docker/containers/ /etc/hosts rw - ext4 … …\n");
  CHECK(redacted_file("/proc/driver/nvidia/version",
                      "NVRM version: Open  580.95.05  Release Build  (root@gpu7)  Mon\n") ==
        "NVRM version: Open  580.95.05  Release Build    Mon\n");
  CHECK(redacted_file("/etc/nsswitch.conf", "passwd: files acme [X=y]\nhosts: dns\n") ==
        "passwd: files directory\n");
  Redaction redaction;
  CHECK(redaction.apply("enx001122334455 a4:c1:38:11:22:33 0000:01:00.0") ==
        "enx000000000001 00:00:00:00:00:02 0000:01:00.0");
  CHECK(redaction.apply("a4:c1:38:11:22:33") == "00:00:00:00:00:02");
}

TEST_CASE("hosts without a scheme are removed from variables") {
  std::set<std::string> dropped;
  const Environment redacted =
      berth::doctor::redacted_environment({{"OLLAMA_ORIGINS", "web.corp,*.corp"},
                                           {"OLLAMA_KEEP_ALIVE", "24h"},
                                           {"OLLAMA_MODELS", "/data/models"},
                                           {"NVIDIA_NODE_NAME", "gpu7"},
                                           {"NV_PEER", "gpu7"},
                                           {"CUDA_CACHE", "gpu7.corp.example:80"},
                                           {"NCCL_X", "10.0.0.7"},
                                           {"NO_PROXY", "corp"},
                                           {"LD_PRELOAD", "libtcmalloc.so.4"},
                                           {"NV_CUDNN_VERSION", "9.1.0.70-1"},
                                           {"DOCKER_HOST", "unix:///run/user/1000/docker.sock"}},
                                          dropped);
  CHECK(redacted == Environment{{"CUDA_CACHE", "…"},
                                {"DOCKER_HOST", "unix:///run/user/…"},
                                {"LD_PRELOAD", "libtcmalloc.so.4"},
                                {"NCCL_X", "…"},
                                {"NV_CUDNN_VERSION", "9.1.0.70-1"},
                                {"OLLAMA_KEEP_ALIVE", "24h"},
                                {"OLLAMA_MODELS", "/data/models"},
                                {"OLLAMA_ORIGINS", "…"}});
}

TEST_CASE("values of variables have no host with a port, no address with colons, no definition") {
  const auto redacted = [](const std::string& name, const std::string& value) {
    std::set<std::string> dropped;
    const Environment one = berth::doctor::redacted_environment({{name, value}}, dropped);
    return one.contains(name) ? one.at(name) : "left out";
  };
  for (const auto& one : std::initializer_list<std::pair<const char*, const char*>>{
           {"NCCL_X", "gpu8:1234"},
           {"NCCL_TOPO", "gpu8"},
           {"NCCL_FOO", "fe80::dead:beef"},
           {"NCCL_DEBUG", "gpu8:80"},
           {"NCCL_NET", "[fe80::1]:80"},
           {"NCCL_ALGO", "2001:db8:0:0:0:0:0:1"},
           {"UCX_TLS", "gpu8.corp.example"},
           {"LD_LIBRARY_PATH", "//fs.corp/lib"},
           {"BACKUP_DEVICE", "nas8"},
           {"CC", "gcc -DKEY=TOKEN"},
           {"XLA_FLAGS", "-DKEY=TOKEN"},
           {"NVCC_PREPEND_FLAGS", "-I//fs.corp/x"},
           {"NVCC_APPEND_FLAGS", "-DKEY=TOKEN"}})
    CHECK_MESSAGE(redacted(one.first, one.second) == "…", one.first);
  CHECK(redacted("NVCC_PREPEND_FLAGS", "-ccbin /opt/mine/g++ -DKEY=TOKEN") == "-ccbin …");
  CHECK(redacted("NVCC_APPEND_FLAGS", "").empty());
  for (const auto& one : std::initializer_list<std::pair<const char*, const char*>>{
           {"NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"},
           {"NCCL_ALGO", "Ring,Tree"},
           {"NCCL_PROTO", "^LL128"},
           {"NCCL_SOCKET_IFNAME", "^lo,docker0"},
           {"NCCL_TOPO_FILE", "/opt/topo.xml"},
           {"NCCL_CUMEM_ENABLE", "0"},
           {"NVIDIA_REQUIRE_CUDA", "cuda>=12.4 brand=tesla,driver>=470,driver<471"},
           {"NVIDIA_VISIBLE_DEVICES", "GPU-8a31bc42-0000"},
           {"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:512,expandable_segments:True"},
           {"CUBLAS_WORKSPACE_CONFIG", ":4096:8"},
           {"ONEAPI_DEVICE_SELECTOR", "level_zero:0"},
           {"PYTORCH_ROCM_ARCH", "gfx908;gfx90a"},
           {"TORCH_CUDA_ARCH_LIST", "7.0 8.0+PTX"},
           {"SLURM_GPUS_PER_TASK", "a100:16"},
           {"TRAIN_DEVICE", "cuda:0"},
           {"PATH", "/opt/python@3.12/bin:/usr/bin"},
           {"CONDA_DEFAULT_ENV", "torch.dev"},
           {"XLA_FLAGS", "--xla_gpu_cuda_data_dir=/usr/lib/cuda"}})
    CHECK_MESSAGE(redacted(one.first, one.second) == one.second, one.first);
}

TEST_CASE("a recording keeps files that a row names, and no others") {
  const auto has_row = [](std::string_view path) {
    return find_kept(kept_of_system(), path) != nullptr ||
           find_kept(kept_of_programs(), path) != nullptr;
  };
  for (const char* path :
       {"/proc/stat", "/proc/812/stat", "/proc/driver/nvidia/gpus/0000:01:00.0/information",
        "/sys/class/drm/card0/vendor", "/etc/modprobe.d/nvidia.conf", "/usr/lib/x/make.log",
        "/root/.pyenv/version", "/opt/rocm/.info/version"})
    CHECK_MESSAGE(has_row(path), path);
  for (const char* path :
       {"/proc/812/task/812/comm", "/proc/812/cmdline", "/proc/keys", "/etc/shadow",
        "/root/.ssh/id_ed25519", "/etc/modprobe.dx/a", "/root/version", "/etc/os-release.old"}) {
    CHECK_MESSAGE(!has_row(path), path);
    CHECK_MESSAGE(!redacted_file(path, "PASSWORD=x\n"), path);
  }
}
