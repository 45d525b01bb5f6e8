// Keeps the claims that are prepared on this node: a journal, CDI files and the guard's files.
// Prepared claims survive a restart of the driver. It does no harm to prepare or remove a claim
// twice. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "engines/kube_claim.hpp"

namespace berth::kubelet {

struct ClaimFolders {
  std::string state = "/var/lib/berth/kubernetes";  // contains claims/UID.json and claims/UID/
  std::string cdi = "/var/run/cdi";
  std::string kubelet = "/var/lib/kubelet";
};

class Claims {
 public:
  Claims(ClaimFolders folders, engines::KubeConfig config);

  /// Reads the journal. Fails with kUnavailable (E0520) if the folders cannot be made. A damaged
  /// entry is moved aside, so its claim is prepared again.
  [[nodiscard]] Status open();
  /// Prepares a claim. `fetch` gets the ResourceClaim from the API server; it is not called if the
  /// claim is already prepared. If `is_given_up` returns true, the caller no longer waits and may
  /// have unprepared the claim: nothing is written, and prepare() fails with kUnavailable (E0969).
  [[nodiscard]] Result<engines::JournalledClaim> prepare(
      const std::string& uid, const std::vector<engines::KubeUnit>& units,
      const std::function<Result<engines::Claim>()>& fetch,
      const std::function<bool()>& is_given_up);
  /// Removes the claim's files and journal entry. Also succeeds if the claim is not prepared.
  [[nodiscard]] Status unprepare(const std::string& uid);
  [[nodiscard]] std::size_t count() const;
  /// The devices of all prepared claims.
  [[nodiscard]] std::vector<engines::ClaimDevice> devices() const;

 private:
  [[nodiscard]] std::string journal(const std::string& uid) const;
  [[nodiscard]] std::string cdi_file(const std::string& uid) const;
  /// Writes the guard's files and the CDI file. Returns the claim's entry for the journal.
  [[nodiscard]] Result<engines::JournalledClaim> write_files(
      const engines::Claim& claim, const std::vector<engines::KubeUnit>& units) const;

  const ClaimFolders folders_;
  const engines::KubeConfig config_;
  mutable std::mutex lock_;
  std::map<std::string, engines::JournalledClaim> prepared_;
};

}  // namespace berth::kubelet
