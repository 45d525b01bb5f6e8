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
        "these packages do not go together: jax==0.10.0 and torch==2.14.0");
  CHECK(says("ERROR: No matching distribution found for torch==2.14.*\n") ==
        "the package index has no torch==2.14.* for this Python");
  CHECK(says("Traceback (most recent call last):\nKeyError: 'x'\n").empty());
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
