// Calls Kubernetes' API server over HTTPS as the pod's ServiceAccount. Every call has a deadline
// and a bounded number of retries. Only the resolution of a host name has no deadline of its own;
// Kubernetes gives pods an address.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/result.hpp"

namespace berth::kubelet {

struct ApiSettings {
  std::string host, port;
  /// The folder that contains `token`, which Kubernetes renews, and `ca.crt`.
  std::string account = "/var/run/secrets/kubernetes.io/serviceaccount";
  std::chrono::milliseconds call{5'000};  // the longest time of one call
  /// No retry starts later than this after the first try.
  std::chrono::milliseconds patience{10'000};
};

struct ApiAnswer {
  int status = 0;
  std::string body;
  std::optional<std::chrono::seconds> retry_after;
};

/// Returns the server's error message: the message of a `Status` object, or the beginning of the
/// body if it is no such object.
[[nodiscard]] std::string words_of(const ApiAnswer& answer);

/// Makes the error E0969 for an answer with an unexpected status. `what` names the call or the kind
/// of object in the message. `hint`: a command that shows more.
[[nodiscard]] Error refused(const std::string& what, const ApiAnswer& answer, std::string hint);

class ApiClient {
 public:
  /// `is_ending`: as soon as this returns true, no further try starts, and a pause between two
  /// tries ends.
  ApiClient(ApiSettings settings, std::function<bool()> is_ending);

  /// Calls the API server. Retries on 429, on 5xx and when there is no answer. Fails with
  /// kUnavailable (E0969) if the last try had no answer, or was answered with 429, 5xx, 401 or 403.
  /// All other answers are returned.
  [[nodiscard]] Result<ApiAnswer> call(const std::string& method, const std::string& path,
                                       const std::string& body = "") const;

 private:
  [[nodiscard]] Result<ApiAnswer> try_once(const std::string& method, const std::string& path,
                                           const std::string& body) const;
  [[nodiscard]] bool rest(std::chrono::milliseconds pause) const;
  ApiSettings settings_;
  std::function<bool()> is_ending_;
};

}  // namespace berth::kubelet
