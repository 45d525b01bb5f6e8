#include "cli/install_failure.hpp"

#include <doctest/doctest.h>

using berth::cli::install_failure;

namespace {

std::string says(const char* words) {
  return install_failure(words, "/home/me").says;
}

}  // namespace

TEST_CASE("the reason comes from the installer's own words") {
  CHECK(
      says("WARNING: Retrying (Retry(total=4)) after connection broken by "
           "'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>: "
           "Failed to establish a new connection: [Errno 111] Connection refused')': "
           "/simple/torch/\n"
           "  Could not fetch URL https://pypi.org/simple/torch/: connection error: "
           "HTTPSConnectionPool(host='pypi.org', port=443): Max retries exceeded\n"
           "ERROR: No matching distribution found for torch==2.14.*\n") ==
      "there is no connection to pypi.org");
  CHECK(says("error: Failed to fetch: `https://me:geheim@mirror.lab/simple/torch/`\n"
             "  Caused by: error sending request for url\n  Caused by: dns error\n") ==
        "there is no connection to mirror.lab");
  CHECK(says("ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 403 "
             "Forbidden'))") == "the proxy refuses the connection (403)");
  CHECK(says("OSError('Tunnel connection failed: 502 Bad Gateway')") ==
        "the proxy refuses the connection (502)");
  CHECK(says("ProxyError('Cannot connect to proxy.', NewConnectionError('<pip._vendor.urllib3."
             "connection.HTTPSConnection object at 0x7f>: Failed to establish a new connection: "
             "[Errno 111] Connection refused'))\nHTTPSConnectionPool(host='pypi.org', port=443)") ==
        "the proxy does not answer");
  CHECK(
      says("Could not fetch URL http://127.0.0.1:8/simple/torch/: 403 Client Error: Forbidden for "
           "url: http://127.0.0.1:8/simple/torch/ - skipping\nERROR: No matching distribution "
           "found for torch") == "the package index 127.0.0.1:8 refuses access (403)");
  CHECK(says("HTTP status client error (401 Unauthorized) for url "
             "(https://mirror.lab/simple/torch/)") ==
        "the package index mirror.lab refuses access (401)");
  CHECK(says("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on "
             "device\n") == "a disk is full");
  CHECK(says("ERROR: Cannot install jax==0.10.0 and torch==2.14.0 because these package versions "
             "have conflicting dependencies.\nERROR: ResolutionImpossible: for help visit") ==
        "these packages are not compatible: jax==0.10.0 and torch==2.14.0");
  CHECK(says("ERROR: No matching distribution found for torch==2.14.*\n") ==
        "the package index has no torch==2.14.* for this Python");
  CHECK(says("Traceback (most recent call last):\nKeyError: 'x'\n").empty());
}

TEST_CASE("uv's own words for a proxy and for a missing Python") {
  const auto tunnel = [](const char* cause) {
    return says(("error: Request failed after 3 retries in 9.6s\n  cause: Failed to fetch: "
                 "https://pypi.org/simple/torch/\n  cause: client error (Connect)\n  cause: tunnel "
                 "error: " +
                 std::string(cause) + "\n")
                    .c_str());
  };
  CHECK(tunnel("unsuccessful") == "the proxy refuses the connection");
  CHECK(tunnel("proxy authorization required") == "the proxy refuses the connection (407)");
  CHECK(tunnel("failed to create underlying connection\n  cause: tcp connect error\n  cause: "
               "Connection refused (os error 111)") == "the proxy does not answer");
  const auto python = install_failure(
      "error: Request failed after 3 retries in 11.6s\n  cause: Failed to download "
      "`https://github.com/astral-sh/python-build-standalone/releases/download/20261110/"
      "cpython-3.12.16%2B20261110-x86_64-unknown-linux-gnu-install_only_stripped.tar.gz`\n  cause: "
      "dns error\n",
      "/home/me");
  CHECK(python.says == "this Python cannot be downloaded: there is no connection to github.com");
  CHECK(python.hint.find("--python PATH") != std::string::npos);
  CHECK(says("error: No interpreter found for Python 3.12 in search path") ==
        "this version of Python was not found");
}

TEST_CASE("a full disk is reported before its consequences") {
  CHECK(says("Connection refused\nOSError: [Errno 28] No space left on device\nNo matching "
             "distribution found for torch") == "a disk is full");
}

TEST_CASE("without PyTorch's own index, the hint names the build of PyPI") {
  const auto hint = [](const char* host) {
    return install_failure("HTTPSConnectionPool(host='" + std::string(host) +
                               "', port=443): Name or service not known",
                           "/home/me")
        .hint;
  };
  CHECK(hint("download.pytorch.org").ends_with("--index https://pypi.org/simple"));
  CHECK(hint("download.pytorch.org").find("--torch-index URL") != std::string::npos);
  CHECK(hint("pypi.org").ends_with("--index URL"));
}
