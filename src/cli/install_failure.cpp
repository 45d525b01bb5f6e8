#include "cli/install_failure.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"

namespace berth::cli {
namespace {

bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

/// The text after `before` and in front of `after`, without quotes; "" if either of them is
/// missing.
std::string between(std::string_view text, std::string_view before, std::string_view after) {
  const std::size_t begin = text.find(before);
  if (begin == std::string_view::npos) return "";
  text.remove_prefix(begin + before.size());
  std::string_view found = text.substr(0, std::min(text.find(after), text.find('\n')));
  while (!found.empty() && (found.front() == '\'' || found.front() == '"')) found.remove_prefix(1);
  return printable(trim(found).substr(0, 200));
}

/// The host that could not be reached. pip writes host='…'; uv and conda write a URL.
std::string host_in(std::string_view text) {
  if (const std::string host = between(text, "host='", "'"); !host.empty()) return host;
  const std::size_t scheme = text.find("://");
  if (scheme == std::string_view::npos) return "";
  std::string_view rest = text.substr(scheme + 3);
  rest = rest.substr(0, rest.find_first_of("/ )`'\"\n"));
  // A URL may contain a user name and a password, which must not be shown.
  if (const std::size_t at = rest.rfind('@'); at != std::string_view::npos)
    rest.remove_prefix(at + 1);
  return printable(rest.substr(0, 200));
}

/// The packages whose requirements conflict, such as "torch and jax". pip names them in "Cannot
/// install a and b because", uv in "Because a depends on".
std::string conflict_in(std::string_view words) {
  if (const std::string both = between(words, "Cannot install ", " because these package versions");
      !both.empty())
    return both;
  return between(words, "Because ", ", we can conclude");
}

bool is_offline(std::string_view words) {
  return has_any(
      words, {"Failed to establish a new connection", "Name or service not known",
              "name resolution", "Connection refused", "Network is unreachable", "No route to host",
              "timed out", "Connection reset", "ConnectTimeout", "dns error",
              "error sending request", "CondaHTTPError", "ConnectionFailed", "Could not connect"});
}

/// Why the proxy refused the connection; "" if it did not. pip prints the proxy's status code. uv
/// only tells whether the code was 407 (password required).
std::string proxy_failure(std::string_view words) {
  if (const std::string code = between(words, "Tunnel connection failed: ", " "); !code.empty())
    return text("the proxy refuses the connection ({})", code);
  if (has_any(words, {"tunnel error: proxy authorization required"}))
    return text("the proxy refuses the connection ({})", 407);
  if (has_any(words, {"tunnel error: unsuccessful"}))
    return text("the proxy refuses the connection");
  return has_any(words, {"Cannot connect to proxy", "tunnel error: "})
             ? text("the proxy does not answer")
             : "";
}

/// Whether uv needed a Python version that is not installed, and could not download it. uv calls a
/// Python "cpython-3.12.16…".
bool has_no_python(std::string_view words) {
  return has_any(words, {"No interpreter found for", "No download found for"}) ||
         (has_any(words, {"Failed to download"}) && has_any(words, {"/cpython-"}));
}

/// The HTTP code, such as "403", if the proxy or the index refused access.
std::string refusal_in(std::string_view words) {
  for (const char* code : {"407", "403", "401"})
    for (const char* before : {"failed: ", "error: ", "error ", "status client error (", ": "})
      for (const char* after :
           {" Forbidden", " Unauthorized", " Proxy Auth", " Client Error", " while getting"})
        if (words.find(std::string(before) + code + after) != std::string_view::npos) return code;
  return "";
}

InstallFailure refused(std::string_view words, const std::string& code) {
  // With plain HTTP, an answer of the proxy looks like an answer of the package index.
  if (code == "407")
    return {text("the proxy refuses the connection ({})", code), "env | grep -i _proxy"};
  return {text("the package index {} refuses access ({})", host_in(words), code),
          text("add a user name for the index to pip's configuration, or name your mirror: {}",
               "--index URL")};
}

}  // namespace

InstallFailure install_failure(std::string_view words, const std::string& folder) {
  if (has_any(words, {"No space left on device", "os error 28", "Errno 28", "NoSpaceLeftError"}))
    return {text("a disk is full"),
            "df -h " + shell_word(folder) + " \"${TMPDIR:-/tmp}\" ~/.cache   " +
                text("(pip also writes to these folders: {})", "TMPDIR, ~/.cache")};
  if (has_any(words, {"Disk quota exceeded", "os error 122", "Errno 122"}))
    return {text("your disk quota is used up"), "quota -s"};
  if (has_any(words, {"conflicting dependencies", "requirements are unsatisfiable"}))
    return {text("these packages are not compatible: {}", conflict_in(words)),
            text("create a separate environment for each: {}", "berth setup NAME --venv DIR")};
  if (std::string proxy = proxy_failure(words); !proxy.empty())
    return {std::move(proxy), "env | grep -i _proxy"};
  if (const std::string code = refusal_in(words); !code.empty()) return refused(words, code);
  if (has_no_python(words)) {
    const std::string host = is_offline(words) ? host_in(words) : "";
    return {host.empty()
                ? text("this version of Python was not found")
                : text("this Python cannot be downloaded: there is no connection to {}", host),
            text("use a Python of this machine ({}), or set a mirror for uv's Python downloads: {}",
                 "--python PATH", "UV_PYTHON_INSTALL_MIRROR=URL")};
  }
  if (is_offline(words)) {
    const std::string host = host_in(words);
    if (host.find("pytorch") != std::string::npos)
      return {text("there is no connection to {}", host),
              text("check the network and the proxy ({}), name your mirror ({}), or use PyPI's "
                   "build, which is larger: {}",
                   "env | grep -i _proxy", "--torch-index URL", "--index https://pypi.org/simple")};
    return {host.empty() ? text("there is no connection to the package index")
                         : text("there is no connection to {}", host),
            text("check the network and the proxy ({}), or name your mirror: {}",
                 "env | grep -i _proxy", "--index URL")};
  }
  if (has_any(words, {"No matching distribution found", "no versions of", "was not found in"})) {
    const std::string name = between(words, "No matching distribution found for ", "\n");
    return {name.empty() ? text("the package index does not have this version for this Python")
                         : text("the package index has no {} for this Python", name),
            text("choose another release, or another index: {}", "--index URL")};
  }
  if (has_any(words, {"Read-only file system", "Permission denied", "Errno 30", "Errno 13"}))
    return {text("a folder is not writable"), "berth setup … --venv DIR"};
  if (has_any(words,
              {"ensurepip is not available", "No module named venv", "No module named ensurepip"}))
    return {text("this Python has no module venv"),
            "sudo apt install python3-venv   " + text("(on Debian and Ubuntu)")};
  return {};
}

}  // namespace berth::cli
