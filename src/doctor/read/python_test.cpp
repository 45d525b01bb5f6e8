#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cerrno>
#include <map>

#include "doctor/facts/python_parts.hpp"
#include "doctor/knowledge/python_text.hpp"
#include "doctor/read/collectors.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;
using berth::system::TemporaryTree;

namespace {

constexpr const char* kSite = "venv/lib/python3.11/site-packages/";

void put_venv(const TemporaryTree& folder, const char* more = "") {
  folder.put("venv/pyvenv.cfg", std::string("home = /usr/bin\nversion = 3.11.2\n") + more);
  folder.put(std::string(kSite) + "torch-2.4.1.dist-info/METADATA",
             "Name: torch\nVersion: 2.4.1\nRequires-Dist: nvidia-nccl-cu12==2.20.5; "
             "platform_system == \"Linux\"\n\nRequires-Dist: not-this\n");
  folder.put(std::string(kSite) + "torch/version.py",
             "__version__ = '2.4.1+cu121'\ncuda: Optional[str] = '12.1'\nhip = None\n");
}

PythonFacts read(const TemporaryTree& folder, const char* python = "/venv/bin/python",
                 const Environment& environment = {}) {
  return collect_python(Tree(folder.path), environment, python);
}

}  // namespace

TEST_CASE("a virtual environment is read without its interpreter") {
  const TemporaryTree folder;
  put_venv(folder);
  folder.put("usr/lib/python3/dist-packages/numpy-1.24.2.egg-info", "Name: numpy\n");
  const PythonFacts facts = read(folder);
  CHECK(facts.is_venv);
  CHECK(*facts.version == "3.11");
  REQUIRE(facts.torch);
  CHECK(facts.torch->version == "2.4.1+cu121");
  CHECK(*facts.torch->cuda == "12.1");
  CHECK(facts.torch->hip.is_absent());
  // this venv does not use the system's packages
  REQUIRE(facts.distributions->size() == 1);
  CHECK(facts.distribution("torch")->needs.size() == 1);
  CHECK(facts.distribution("numpy").is_absent());
}

TEST_CASE("requirements on NVIDIA's wheels are read only if such wheels are installed") {
  const TemporaryTree folder;
  put_venv(folder);
  folder.put(std::string(kSite) + "some_thing-1.0.dist-info/METADATA",
             "Name: some-thing\nVersion: 1.0\nRequires-Dist: numpy\nRequires-Dist: "
             "nvidia_cublas.cu12<13\n\n");
  CHECK(read(folder).distribution("some-thing")->needs.empty());
  folder.put(std::string(kSite) + "nvidia_cublas_cu12-12.4.5.8.dist-info/METADATA", "");
  const auto needs = read(folder).distribution("some-thing")->needs;
  REQUIRE(needs.size() == 1);
  CHECK(needs[0] == "nvidia_cublas.cu12<13");
}

TEST_CASE("a virtual environment with the system's packages has its own first") {
  const TemporaryTree folder;
  put_venv(folder, "include-system-site-packages = true\n");
  folder.put("usr/lib/python3/dist-packages/torch-1.13.0a0+gitunknown.egg-info/PKG-INFO",
             "Name: torch\nVersion: 1.13.0a0+gitunknown\n");
  const PythonFacts facts = read(folder);
  REQUIRE(facts.distributions->size() == 2);
  CHECK(facts.distribution("torch")->version == "2.4.1");
}

TEST_CASE("PYTHONPATH comes first, ~/.local before the system, and .pth files add folders") {
  const TemporaryTree folder;
  folder.put("usr/bin/python3.11", "");
  folder.link("usr/bin/python3", "python3.11");
  folder.put("home/ada/.local/lib/python3.11/site-packages/extra.pth",
             "# more\nimport os; os.abort()\n/srv/more\n/srv/none\n");
  folder.put("srv/more/a.txt", "");
  folder.put("srv/first/a.txt", "");
  folder.put("usr/lib/python3/dist-packages/a.txt", "");
  const PythonFacts facts =
      read(folder, "/usr/bin/python3", {{"HOME", "/home/ada"}, {"PYTHONPATH", "/srv/first"}});
  std::vector<std::string> path;
  for (const PathEntry& one : *facts.path) path.push_back(one.folder);
  CHECK(path == std::vector<std::string>{"/srv/first",
                                         "/home/ada/.local/lib/python3.11/site-packages",
                                         "/srv/more", "/usr/lib/python3/dist-packages"});
  CHECK((*facts.path)[2].origin == PathOrigin::kPth);
}

TEST_CASE("without options the active environment is used, then python3 in PATH") {
  const TemporaryTree folder;
  put_venv(folder);
  folder.put("usr/bin/python3", "");
  folder.put("opt/pyenv/shims/python3", "#!/bin/sh");
  folder.put("opt/pyenv/version", "3.12.1\n");
  folder.put("opt/pyenv/versions/3.12.1/bin/python3", "");
  const Tree tree(folder.path);
  CHECK(default_python(tree, Environment{{"VIRTUAL_ENV", "/venv"}}) == "/venv/bin/python");
  CHECK(default_python(tree, Environment{{"PATH", "/sbin:/usr/bin"}}) == "/usr/bin/python3");
  CHECK(default_python(tree, Environment{{"PATH", "/opt/pyenv/shims"}}) ==
        "/opt/pyenv/versions/3.12.1/bin/python3");
  CHECK(default_python(tree, Environment{{"PATH", "/sbin"}}).empty());
}

TEST_CASE(
    "a pip of another Python is recognised by its first line, with the packages it installed") {
  const TemporaryTree folder;
  folder.put("venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n");
  folder.put("venv/lib/python3.11/site-packages/numpy-2.0.0.dist-info/METADATA", "");
  folder.put("venv/bin/python", "");
  folder.put("opt/py/bin/python3.10", "");
  folder.put("opt/py/lib/python3.10/site-packages/torch-2.4.1.dist-info/METADATA", "");
  folder.put("opt/py/bin/pip", "#!/opt/py/bin/python3.10\nimport sys\n");
  const Environment with{{"VIRTUAL_ENV", "/venv"}, {"PATH", "/venv/bin:/opt/py/bin"}};
  const auto other = [&] { return read(folder, "/venv/bin/python", with).other_pip; };
  REQUIRE(other());
  CHECK(other()->version == "3.10");
  CHECK(other()->frameworks ==
        std::vector<std::string>{"/opt/py/lib/python3.10/site-packages/torch-2.4.1.dist-info"});
  SUBCASE("a long path stands behind sh") {
    folder.put("opt/py/bin/pip", "#!/bin/sh\n'\''exec' \"/opt/py/bin/python3.10\" \"$0\" \"$@\"\n");
    CHECK(other()->interpreter == "/opt/py/bin/python3.10");
  }
  SUBCASE("its own comes first") {
    folder.put("venv/bin/pip", "#!/venv/bin/python\n");
    CHECK(other().is_absent());
  }
  SUBCASE("what both have is not missed") {
    folder.put("venv/lib/python3.11/site-packages/torch-2.4.0.dist-info/METADATA", "");
    CHECK(other()->frameworks.empty());
  }
  SUBCASE("another Python than PATH's is asked about") {
    CHECK(read(folder, "/venv/bin/python", {{"PATH", "/opt/py/bin"}}).other_pip.is_absent());
  }
  SUBCASE("a folder in its place, and a script without an end") {
    folder.put("opt/py/bin/pip", std::string(100'000, '/'));
    CHECK(other().is_absent());
  }
}

TEST_CASE("a FIFO, a loop of links and a file of another kind hang and crash nobody") {
  const TemporaryTree folder;
  put_venv(folder);
  const std::string site = folder.path + "/" + kSite;
  REQUIRE(::mkfifo((site + "wait.pth").c_str(), 0600) == 0);
  folder.link(std::string(kSite) + "nvidia", "nvidia");
  folder.link(std::string(kSite) + "jaxlib-0.4.30.dist-info", "jaxlib-0.4.30.dist-info");
  CHECK(read(folder).torch);
}

TEST_CASE(
    "pip's file list shows what a cuDNN wheel contains, and without a list nothing is known") {
  const TemporaryTree folder;
  put_venv(folder);
  const std::string info = std::string(kSite) + "nvidia_cudnn_cu12-9.1.0.70.dist-info/";
  folder.put(info + "METADATA", "Name: nvidia-cudnn-cu12\nVersion: 9.1.0.70\n");
  CHECK(read(folder).cudnn_listed.is_absent());
  folder.put(info + "RECORD",
             "nvidia/cudnn/include/cudnn.h,sha256=x,1\nnvidia/cudnn/lib/libcudnn.so.9,sha256=x,2\n"
             "nvidia/cudnn/lib/libcudnn_ops.so.9,,\n");
  CHECK(*read(folder).cudnn_listed ==
        std::vector<std::string>{"libcudnn.so.9", "libcudnn_ops.so.9"});
  Tree tree(folder.path);
  tree.add_special("/" + info + "RECORD", {std::nullopt, EACCES});
  CHECK(collect_python(tree, Environment{}, "/venv/bin/python").cudnn_listed.is_unreadable());
}

TEST_CASE("libcudart.so is searched in the folders of every variable") {
  const TemporaryTree folder;
  put_venv(folder);
  folder.put(std::string(kSite) + "bitsandbytes-0.36.0.dist-info/METADATA",
             "Name: bitsandbytes\nVersion: 0.36.0\n");
  folder.put(std::string(kSite) + "bitsandbytes/libbitsandbytes_cpu.so", "");
  folder.put("opt/cuda/lib64/libcudart.so.11.0", "");
  const Environment names{{"ANYTHING", "/nowhere:/opt/cuda/lib64"}};
  CHECK(read(folder, "/venv/bin/python", names).bitsandbytes_runtime.is_absent());
  folder.put("opt/cuda/lib64/libcudart.so", "");
  CHECK(*read(folder, "/venv/bin/python", names).bitsandbytes_runtime == "/opt/cuda/lib64");
  CHECK(read(folder).bitsandbytes_runtime.is_absent());
}

TEST_CASE("a folder that may not be read makes its packages unknown, not absent") {
  const TemporaryTree folder;
  put_venv(folder);
  Tree tree(folder.path);
  tree.add_special(std::string("/venv/lib/python3.11/site-packages"), {std::nullopt, EACCES});
  CHECK(collect_python(tree, Environment{}, "/venv/bin/python").distributions.is_unreadable());
}

TEST_CASE("a range of releases allows what pip would accept") {
  CHECK(parse_requirement("numpy (<2.2,>=1.24)").range == "<2.2,>=1.24");
  CHECK(parse_requirement("numba[cuda] >=0.57 ; extra == 'x'").range == ">=0.57");
  CHECK(parse_requirement("numpy").range.empty());
  struct Row {
    const char* range;
    const char* version;
    bool allowed;
  };
  const Row rows[] = {
      {"<2.2,>=1.24", "2.1.3", true},  {"<2.2,>=1.24", "2.2.0", false},
      {"<2.2,>=1.24", "1.23", false},  {"==2.*", "2.4.1", true},
      {"==2.*", "3.0", false},         {"!=2.0.*", "2.0.1", false},
      {"~=2.1", "2.9", true},          {"~=2.1", "3.0", false},
      {"~=2.1.0", "2.2", false},       {"<=1.26.4", "1.26.4", true},
      {">2", "2.0.0", false},          {"", "1", true},
      {"@https://x/y.whl", "1", true}, {"<2", "dev", true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.range);
    CAPTURE(row.version);
    CHECK(allows(row.range, row.version) == row.allowed);
  }
}

TEST_CASE("names of distributions are read as pip writes them") {
  using Pair = std::pair<std::string, std::string>;
  CHECK(parse_info_name("nvidia_nccl_cu12-2.27.3.dist-info") == Pair{"nvidia-nccl-cu12", "2.27.3"});
  CHECK(parse_info_name("PyGObject-3.42.2.egg-info") == Pair{"pygobject", "3.42.2"});
  CHECK(parse_info_name("zope.interface-5.5-py3.11.egg-info") == Pair{"zope-interface", "5.5"});
  CHECK(parse_info_name("cryptography.egg-info") == Pair{"cryptography", ""});
  CHECK(parse_info_name("torch").first.empty());
  const Requirement old = parse_requirement("torch (==2.4.0) ; extra == 'x'");
  CHECK(old.exact == "2.4.0");
  CHECK(old.marker == "extra == 'x'");
  CHECK(parse_requirement("numpy>=1.2,<2").exact.empty());
}

TEST_CASE("a notebook kernel is matched with this environment through any links") {
  const TemporaryTree folder;
  put_venv(folder);
  folder.put("venv/bin/python", "");
  folder.link("home/ada/env", "../../venv");
  folder.put("other/bin/python", "");
  const auto kernel = [&](const char* name, const char* python) {
    folder.put(std::string("usr/share/jupyter/kernels/") + name + "/kernel.json",
               std::string("{\"argv\": [\"") + python + "\"]}");
  };
  kernel("by-link", "/home/ada/env/bin/python");
  kernel("other", "/other/bin/python");
  const Tree tree(folder.path);
  const auto is_own = [&](const char* python) {
    std::map<std::string, bool> own;
    const PythonParts parts =
        collect_python_parts(tree, Environment{}, collect_python(tree, Environment{}, python));
    for (const NotebookKernel& one : *parts.kernels) own[one.name] = one.is_own;
    return own;
  };
  const std::map<std::string, bool> expected{{"by-link", true}, {"other", false}};
  CHECK(is_own("/venv/bin/python") == expected);
  CHECK(is_own("/home/ada/env/bin/python") == expected);
}
