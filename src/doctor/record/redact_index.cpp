// Reduces the settings of pip, uv and conda to the package indices that they use, and the builds
// that these indices have.
#include <algorithm>
#include <array>

#include "base/text_parts.hpp"
#include "doctor/facts/package_index.hpp"
#include "doctor/record/redact.hpp"
#include "doctor/record/share.hpp"

namespace berth::doctor {
namespace {

/// Whether the host is public, so that its name does not identify the user.
bool is_everybodys(std::string_view host) {
  return share::has(share::public_hosts(), host);
}

/// Whether the word may be kept: a switch, a number, or a public channel.
bool is_plain(std::string_view word) {
  return word.find_first_not_of("0123456789") == std::string_view::npos ||
         share::has(share::index_words(), word);
}

/// Whether this public host has a folder for each user. The path in an address is then private.
bool is_of_people(std::string_view host) {
  constexpr auto kHosts = std::to_array<std::string_view>(
      {"conda.anaconda.org", "github.com", "huggingface.co", "storage.googleapis.com"});
  return std::find(kHosts.begin(), kHosts.end(), host) != kHosts.end();
}

/// Whether a part of an address shows which builds an index has: "cu126", "rocm6.2", "whl", or the
/// name of a wheel "NAME-1.0-cp310-cp310-linux_x86_64.whl".
bool is_of_build(std::string_view part) {
  const auto numbered = [&](std::string_view name, std::string_view digits, std::size_t most) {
    return part.starts_with(name) && part.size() > name.size() &&
           part.size() <= name.size() + most &&
           part.find_first_not_of(digits, name.size()) == std::string_view::npos;
  };
  return part == "whl" || part == "cpu" || part == "xpu" || part == "simple" ||
         numbered("cu", "0123456789", 3) || numbered("rocm", "0123456789.", 5) ||
         (part.ends_with(".whl") && std::count(part.begin(), part.end(), '-') >= 4) ||
         (!part.empty() && part[0] > '9' && is_plain(part));
}

/// Replaces a private host and path: "https://index-host/…/cu126". The rest of the address still
/// shows which builds the index has, and whether they are nightly builds.
std::string without_host(const std::string& url) {
  const std::size_t host = url.find("://") + 3;
  const std::size_t end = std::min(url.find('/', host), url.size());
  const std::string_view name = std::string_view(url).substr(host, end - host);
  const std::string_view plain = name.substr(0, name.find(':'));
  if (is_everybodys(plain)) return url;
  std::string redacted = url.substr(0, host);
  if (is_of_people(plain))
    redacted += plain;
  else if (!name.empty())
    redacted += "index-host";
  if (end == url.size()) return redacted;
  const std::size_t last = url.rfind('/');
  const bool is_shareable = is_of_build(std::string_view(url).substr(last + 1));
  if (last > end || !is_shareable) redacted += "/…";
  if (url.find("/nightly/", end) != std::string::npos) redacted += "/nightly";
  return is_shareable ? redacted + url.substr(last) : redacted;
}

std::string redacted_scheme(std::string_view scheme) {
  constexpr auto kSchemes = std::to_array<std::string_view>(
      {"http", "https", "file", "ftp", "ssh", "git", "git+http", "git+https", "git+ssh"});
  const bool is_known = std::find(kSchemes.begin(), kSchemes.end(), scheme) != kSchemes.end();
  return is_known ? std::string(scheme) : "…";
}

/// Whether rules read the values of this key: pip's and uv's indices, conda's channels.
bool is_read_by_rules(std::string_view key) {
  constexpr auto kKeys = std::to_array<std::string_view>(
      {"index-url", "extra-index-url", "no-index", "url", "default", "explicit", "channels"});
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
}

}  // namespace

std::string without_hosts(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n\"',[]=", at), text.size());
    out += text.substr(at, begin - at);
    const std::size_t end = std::min(text.find_first_of(" \t\r\n\"',[]=", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (const std::size_t scheme = word.find("://"); scheme != std::string_view::npos)
      out += redacted_scheme(word.substr(0, scheme)) +
             without_host(index_address(word.substr(scheme), "").url);
    else
      out += is_plain(word) ? std::string(word) : "…";
    at = end;
  }
  return out;
}

std::string redacted_package_settings(std::string_view settings) {
  std::string lines;
  bool is_kept = false;
  for (const std::string_view line : split(settings, '\n')) {
    if (!lines.empty() || line.data() != settings.data()) lines += '\n';
    const std::string_view bare = trim(line.substr(0, line.find(" #")));
    if (bare.empty() || bare.front() == '#' || bare.front() == ';') continue;
    const bool goes_on =
        line.front() == ' ' || line.front() == '\t' || bare.front() == ']' || bare.front() == '-';
    const std::size_t end = bare.find_first_of("=:");
    const std::string indent(line.substr(0, line.find(bare.front())));
    if (bare.front() == '[' && !goes_on) {
      is_kept = false;
      const bool is_known =
          bare == "[global]" || bare == "[install]" || bare == "[pip]" || bare == "[[index]]";
      lines += is_known ? std::string(bare) : "[…]";
    } else if (goes_on) {
      if (is_kept) lines += indent + without_hosts(bare);
    } else if (end != std::string_view::npos) {
      std::string key(trim(bare.substr(0, end)));
      std::replace(key.begin(), key.end(), '_', '-');
      is_kept = is_read_by_rules(key);
      if (is_kept)
        lines += std::string(bare.substr(0, end + 1)) + without_hosts(bare.substr(end + 1));
      else
        lines += std::string(1, bare[end]) == "=" ? "… = …" : "…: …";
    }
  }
  return lines;
}

bool is_package_settings(std::string_view path) {
  return path.ends_with("/pip.conf") || path.ends_with("/uv.toml") || path.ends_with("condarc") ||
         path.ends_with("/.mambarc");
}

}  // namespace berth::doctor
