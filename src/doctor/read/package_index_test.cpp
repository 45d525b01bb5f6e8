#include "doctor/facts/package_index.hpp"
#include "doctor/read/collectors.hpp"

#include <doctest/doctest.h>

#include "doctor/facts/python.hpp"
#include "doctor/record/redact.hpp"
#include "system/temporary_tree.hpp"

using namespace berth;
using namespace berth::doctor;

namespace package_index_test {
namespace {

PackageSources read(const system::TemporaryTree& files, Environment environment,
                    const std::string& prefix = "/venv") {
  environment.emplace("HOME", "/home/me");
  PythonFacts python;
  python.prefix = prefix;
  return collect_package_sources(Tree(files.path), environment, python);
}

}  // namespace

TEST_CASE("pip's configuration files count in pip's order, and its variables override them") {
  system::TemporaryTree files;
  CHECK_FALSE(read(files, {}).pip.is_mirror());
  files.put("etc/pip.conf", "[global]\nindex-url = https://global.lab/simple\n");
  CHECK(read(files, {}).pip.main->url == "https://global.lab/simple");
  files.put("home/me/.config/pip/pip.conf",
            "[install]\nindex_url: https://user.lab/simple/\n[global]\nindex-url = "
            "https://not.this/one\nextra-index-url =\n    https://a.lab/simple\n    "
            "https://b.lab/whl/cu126\n");
  const auto user = read(files, {}).pip;
  CHECK(user.main->url == "https://user.lab/simple");
  CHECK(user.main->from == "/home/me/.config/pip/pip.conf");
  CHECK(user.extra.size() == 2);
  CHECK(user.tags().back() == "cu126");
  files.put("venv/pip.conf", "[global]\nindex-url = https://site.lab/simple\n");
  CHECK(read(files, {}).pip.main->url == "https://site.lab/simple");
  files.put("named.conf", "[global]\nno-index = yes\n");
  CHECK(read(files, {{"PIP_CONFIG_FILE", "/named.conf"}}).pip.no_index);
  const auto none = read(files, {{"PIP_CONFIG_FILE", "/dev/null"}}).pip;
  CHECK_FALSE(none.is_mirror());
  const auto variable = read(files, {{"PIP_INDEX_URL", "https://pypi.org/simple"}}).pip;
  CHECK_FALSE(variable.is_mirror());
}

TEST_CASE("uv has its own settings and does not read pip's") {
  system::TemporaryTree files;
  files.put("etc/pip.conf", "[global]\nindex-url = https://pip.lab/simple\n");
  CHECK_FALSE(read(files, {}).uv.is_mirror());
  files.put("home/me/.config/uv/uv.toml",
            "[[index]]\nname = \"a\"\nurl = \"https://a.lab/simple\"\ndefault = true\n\n"
            "[[index]]\nurl = \"https://b.lab/whl/cu126\"\n"
            "[[index]]\nurl = \"https://c.lab/x\"\nexplicit = true\n");
  const auto uv = read(files, {}).uv;
  CHECK(uv.main->url == "https://a.lab/simple");
  REQUIRE(uv.extra.size() == 1);
  CHECK(uv.extra.front().url == "https://b.lab/whl/cu126");
  files.put("work/project/uv.toml", "index-url = \"https://project.lab/simple\"\n");
  CHECK(read(files, {{"PWD", "/work/project/deep/er"}}).uv.main->url ==
        "https://project.lab/simple");
  CHECK(read(files, {{"UV_DEFAULT_INDEX", "lab=https://v.lab/simple"}}).uv.main->url ==
        "https://v.lab/simple");
}

TEST_CASE("conda's channels are those of the last file that names any") {
  system::TemporaryTree files;
  CHECK(read(files, {}).conda.channels.empty());
  files.put("home/me/.condarc",
            "channel_alias: https://conda.lab\nchannels:\n  - conda-forge  # ours\n  - "
            "https://conda.lab/t/sEcReT/mine\nssl_verify: true\n");
  const auto conda = read(files, {}).conda;
  REQUIRE(conda.channels.size() == 2);
  CHECK(conda.channels[0] == "conda-forge");
  CHECK(conda.channels[1] == "https://conda.lab/mine");
  files.put("rc", "channels: [lab, \"https://x.lab/y\"]\n");
  CHECK(read(files, {{"CONDARC", "/rc"}}).conda.channels ==
        std::vector<std::string>{"lab", "https://x.lab/y"});
}

TEST_CASE("passwords in addresses are not copied") {
  system::TemporaryTree files;
  const auto pip =
      read(files, {{"PIP_INDEX_URL", "https://me:pa%40ss@mirror.lab/simple/?token=abc"}}).pip;
  CHECK(pip.main->url == "https://mirror.lab/simple");
  CHECK(pip.main->has_secret);
}

TEST_CASE("a bundle records that there is a private index, but not its address") {
  CHECK(redacted_package_settings(
            "[keyring]\nPassword = hunter2\nindex-url: https://x.lab/simple\n") ==
        "[…]\n… = …\nindex-url: https://index-host/simple\n");
  CHECK(redacted_package_settings(
            "[global]\nindex-url = https://me:pass@pypi.acme.corp:8443/api/acme/simple\n"
            "trusted-host = pypi.acme.corp\nproxy = \"http://u:p@proxy.acme.corp:3128\"\n"
            "# ask bob@acme.corp\nextra_index_url =\n    https://a.acme.corp/whl/cu126\n"
            "    https://download.pytorch.org/whl/cu126\ncert = /etc/acme.pem\n") ==
        "[global]\nindex-url = https://index-host/…/simple\n… = …\n… = …\n\n"
        "extra_index_url =\n    https://index-host/…/cu126\n"
        "    https://download.pytorch.org/whl/cu126\n… = …\n");
  CHECK(redacted_package_settings(
            "channel_alias: https://conda.acme.corp\nchannels:\n  - conda-forge\n"
            "  - https://conda.acme.corp/t/sEcReT/mine\n") ==
        "…: …\nchannels:\n  - conda-forge\n  - https://index-host/…\n");
  CHECK(redacted_package_settings(
            "[[index]]\nname = \"acme\"\nurl = \"https://pypi.acme.corp/simple\"\n") ==
        "[[index]]\n… = …\nurl = \"https://index-host/simple\"\n");
  for (const auto& [url, told] : std::initializer_list<std::pair<const char*, const char*>>{
           {"https://pypi.acme.corp/sEcReT", "https://index-host/…"},
           {"https://pypi.acme.corp", "https://index-host"},
           {"https://pypi.acme.corp/cu126-sEcReT", "https://index-host/…"},
           {"https://pypi.acme.corp/sEcReT/rocm6.2", "https://index-host/…/rocm6.2"},
           {"https://pypi.acme.corp/a/nightly/cu130", "https://index-host/…/nightly/cu130"},
           {"sEcReT://pypi.acme.corp/whl", "…://index-host/whl"},
           {"file:///srv/sEcReT/whl", "file:///…/whl"},
           {"https://storage.googleapis.com/acme/sEcReT", "https://storage.googleapis.com/…"},
           {"https://huggingface.co/acme/sEcReT/simple", "https://huggingface.co/…/simple"},
           {"https://conda.anaconda.org/acme", "https://conda.anaconda.org/…"},
           {"https://conda.anaconda.org/pytorch", "https://conda.anaconda.org/pytorch"},
           {"https://github.com/acme/x/y/x-1.0-cp310-cp310-linux_x86_64.whl",
            "https://github.com/…/x-1.0-cp310-cp310-linux_x86_64.whl"},
           {"https://download.pytorch.org/whl/cu126", "https://download.pytorch.org/whl/cu126"}})
    CHECK(without_hosts(url) == told);
  // In a recording, the address of a mirror is redacted. It still counts as a mirror.
  system::TemporaryTree files;
  files.put("etc/pip.conf",
            redacted_package_settings("[global]\nindex-url = https://pypi.acme.corp/simple\n"));
  CHECK(read(files, {}).pip.is_mirror());
}

TEST_CASE("unreadable or malformed settings do no harm") {
  system::TemporaryTree files;
  files.put("etc/pip.conf/x", "");         // unreadable, so the main index is unknown
  CHECK(read(files, {}).pip.is_mirror());  // an unknown index must not be assumed to be PyPI
  for (const char* text : {"[", "[global", "=\n=", "index-url", "[global]\nindex-url =\n",
                           "[[index]]\nurl=\"", "channels:", "channels: [", "\n\n   \n"}) {
    files.put("named", text);
    const auto sources =
        read(files,
             {{"PIP_CONFIG_FILE", "/named"}, {"UV_CONFIG_FILE", "/named"}, {"CONDARC", "/named"}});
    CHECK(sources.conda.channels.empty());
  }
}

}  // namespace package_index_test
