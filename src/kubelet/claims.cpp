#include "kubelet/claims.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/write_file.hpp"
#include "engines/other_plugin.hpp"
#include "engines/own_queue.hpp"
#include "guard/container.hpp"
#include "kubelet/log.hpp"

namespace berth::kubelet {
namespace {

Error cannot_write(const std::string& path, int number) {
  return {ErrorCode::kUnavailable, "E0520",
          text("{} cannot be written: {}", path, error_words(number)), "df -h " + path};
}

/// Replaces the whole file, or changes nothing. Does not flush it to the disk: after a power
/// failure, the kubelet prepares all claims again, and a damaged entry of the journal is moved
/// aside.
Status write_file(const std::string& path, const std::string& bytes, mode_t mode) {
  if (!replace_file(path, bytes, mode)) return cannot_write(path, errno);
  return Done{};
}

Error impossible_uid() {
  return {ErrorCode::kNotFound, "E1031", text("a claim has an invalid uid"), ""};
}

bool exists(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0;
}

}  // namespace

Claims::Claims(ClaimFolders folders, engines::KubeConfig config)
    : folders_(std::move(folders)), config_(config) {}

std::string Claims::journal(const std::string& uid) const {
  return folders_.state + "/claims/" + uid + ".json";
}

std::string Claims::cdi_file(const std::string& uid) const {
  return folders_.cdi + "/berth.dev-claim-" + uid + ".json";
}

Status Claims::open() {
  for (const std::string& folder : {folders_.state, folders_.state + "/claims", folders_.cdi}) {
    std::error_code problem;
    std::filesystem::create_directories(folder, problem);
    if (problem) return cannot_write(folder, problem.value());
  }
  const std::string claims = folders_.state + "/claims/";
  for (const std::string& name : list_folder(claims)) {
    if (!name.ends_with(".json")) continue;
    const std::string uid = name.substr(0, name.size() - 5);
    const auto text_of = read_file(claims + name);
    auto entry = text_of ? engines::journalled_claim(*text_of)
                         : Result<engines::JournalledClaim>(text_of.error());
    if (!engines::is_safe_uid(uid) || !entry || entry->claim.uid != uid) {
      log("journal_damaged", {{"file", claims + name}});
      ::rename((claims + name).c_str(), (claims + name + ".damaged").c_str());
      continue;
    }
    prepared_[uid] = *std::move(entry);
  }
  return Done{};
}

Result<engines::JournalledClaim> Claims::write_files(
    const engines::Claim& claim, const std::vector<engines::KubeUnit>& units) const {
  auto answer = engines::claim_answer(claim, units, config_);
  if (!answer) return std::move(answer).error();
  if (!answer->limits.empty()) {
    const auto files = guard::files_for_container(folders_.state + "/claims/" + claim.uid,
                                                  folders_.state + "/lib", answer->limits);
    if (!files) return files.error();
    engines::add_guard(*answer, {files->library, files->limits, files->usage});
  }
  if (auto put = write_file(cdi_file(claim.uid), engines::claim_cdi_file(claim.uid, *answer), 0644);
      !put)
    return std::move(put).error();
  engines::JournalledClaim entry{claim, {engines::claim_cdi_name(claim.uid)}};
  entry.cdi.insert(entry.cdi.end(), answer->cdi.begin(), answer->cdi.end());
  return entry;
}

Result<engines::JournalledClaim> Claims::prepare(
    const std::string& uid, const std::vector<engines::KubeUnit>& units,
    const std::function<Result<engines::Claim>()>& fetch,
    const std::function<bool()>& is_given_up) {
  if (!engines::is_safe_uid(uid)) return impossible_uid();
  {
    const std::scoped_lock hold(lock_);
    if (const auto known = prepared_.find(uid); known != prepared_.end()) {
      // Write the files again if a reboot has removed them. No container of the claim runs then.
      if (!exists(cdi_file(uid)))
        if (auto done = write_files(known->second.claim, units); !done)
          return std::move(done).error();
      return known->second;
    }
  }
  auto fetched = fetch();
  if (!fetched) return std::move(fetched).error();
  auto claim = engines::sized_claim(*std::move(fetched), units, config_);
  if (!claim) return std::move(claim).error();
  const std::scoped_lock hold(lock_);
  // `berth k8s reclaim` waits until this lock is released. It then finds this claim in the journal.
  const engines::OwnQueue own(folders_.state);
  const auto held = own.hold();
  if (!held) return held.error();
  std::vector<engines::KubeUnit> now = units;
  own.apply(now);
  engines::OtherPlugins(folders_.kubelet, folders_.kubelet + "/device-plugins",
                        engines::OtherPlugins::Part::kDriver)
      .apply(now);
  // If the kubelet no longer waits, it may already have unprepared the claim, and nothing would
  // remove files written now.
  if (is_given_up())
    return Error{ErrorCode::kUnavailable, "E0969",
                 text("the kubelet stopped waiting for the claim"), "journalctl -u kubelet"};
  // The kubelet may have called twice, and the other call may have prepared the claim already.
  if (const auto known = prepared_.find(uid); known != prepared_.end()) return known->second;
  auto entry = write_files(*claim, now);
  if (!entry) return std::move(entry).error();
  if (auto put = write_file(journal(uid), engines::claim_line(entry->claim, entry->cdi), 0600);
      !put)
    return std::move(put).error();
  prepared_[uid] = *entry;
  return *std::move(entry);
}

Status Claims::unprepare(const std::string& uid) {
  if (!engines::is_safe_uid(uid)) return impossible_uid();
  const std::scoped_lock hold(lock_);
  // Remove the journal entry after all other files. If the removal is interrupted, the entry
  // remains, and the removal is repeated.
  if (::unlink(cdi_file(uid).c_str()) != 0 && errno != ENOENT)
    return cannot_write(cdi_file(uid), errno);
  std::error_code problem;
  std::filesystem::remove_all(folders_.state + "/claims/" + uid, problem);
  if (problem) return cannot_write(folders_.state + "/claims/" + uid, problem.value());
  if (::unlink(journal(uid).c_str()) != 0 && errno != ENOENT)
    return cannot_write(journal(uid), errno);
  prepared_.erase(uid);
  return Done{};
}

std::vector<engines::ClaimDevice> Claims::devices() const {
  const std::scoped_lock hold(lock_);
  std::vector<engines::ClaimDevice> all;
  for (const auto& [uid, entry] : prepared_)
    all.insert(all.end(), entry.claim.devices.begin(), entry.claim.devices.end());
  return all;
}

std::size_t Claims::count() const {
  const std::scoped_lock hold(lock_);
  return prepared_.size();
}

}  // namespace berth::kubelet
