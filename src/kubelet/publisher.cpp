#include "kubelet/publisher.hpp"

#include <algorithm>

#include "base/digest.hpp"
#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "engines/kube_claim.hpp"
#include "kubelet/log.hpp"

namespace berth::kubelet {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kUsual{60'000}, kQuick{5'000}, kTick{500};
constexpr int kQuickLooks = 12;
constexpr int kMostConflicts = 5;

constexpr const char* kGetSlices = "kubectl get resourceslices";

}  // namespace

Publisher::Publisher(ApiSettings api, std::string node, int shares, const Devices& devices,
                     const Claims& claims, const std::string& state)
    : node_(std::move(node)),
      former_(state, node_),
      shares_(shares),
      devices_(devices),
      claims_(claims),
      api_(std::move(api),
           [this] {
             const std::scoped_lock hold(lock_);
             return ending_;
           }),
      thread_([this] { run(); }) {}

Publisher::~Publisher() {
  {
    const std::scoped_lock hold(lock_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Publisher::look_again() {
  const std::scoped_lock hold(lock_);
  looks_ = kQuickLooks;
  ++asked_;
  changed_.notify_all();
}

/// Waits until something changes or the time is over. `known`: the version of the devices before
/// the last publish(). `asked`: the value of asked_ at that time. Returns false if the publisher is
/// to end.
bool Publisher::wait(milliseconds at_most, std::uint64_t known, std::uint64_t asked) {
  const auto end = std::chrono::steady_clock::now() + at_most;
  std::unique_lock hold(lock_);
  // A change of the devices does not wake this thread, so check their version after every short
  // wait.
  while (!ending_ && asked_ == asked && devices_.version() == known &&
         std::chrono::steady_clock::now() < end)
    changed_.wait_for(hold, kTick, [&] { return ending_ || asked_ != asked; });
  return !ending_;
}

void Publisher::run() {
  for (;;) {
    // Read both counters before publish(). A change during publish() is then noticed.
    const auto known = devices_.version();
    const std::uint64_t asked = [this] {
      const std::scoped_lock hold(lock_);
      return asked_;
    }();
    const bool good = publish();
    milliseconds pause = good ? kUsual : kQuick;
    {
      const std::scoped_lock hold(lock_);
      if (looks_ > 0) {
        --looks_;
        pause = kQuick;
      }
    }
    if (!wait(pause, known, asked)) return;
  }
}

bool Publisher::publish() {
  const auto done = put_all();
  if (done) {
    said_.clear();
    former_.remove_slices(api_, facts_);
    return true;
  }
  if (done.error().message != said_)
    log("not_published", {{"error", done.error().message}, {"id", done.error().id}});
  said_ = done.error().message;
  return false;
}

Status Publisher::write(const engines::Slice& slice, std::uint64_t generation, std::size_t count,
                        const engines::PublishedSlice* before, bool& is_stale) {
  const auto answer =
      before == nullptr
          ? api_.call("POST", kSlices, slice.json(generation, count, ""))
          : api_.call("PUT", std::string(kSlices) + "/" + slice.name,
                      slice.json(generation, count, before->version, before->tainted));
  if (!answer) return answer.error();
  // 409: another client changed the slice in the meantime; 404: the kubelet deleted it.
  is_stale = answer->status == 409 || answer->status == 404;
  if (is_stale) return Done{};
  if (answer->status >= 300) return refused("ResourceSlice", *answer, kGetSlices);
  // This API server has dropped the field, although the trial slice kept it: the trial was answered
  // by a server of another version. So replace the slice without the field.
  if (engines::has_divided({slice}) && engines::keeps_divided(answer->body) == false) {
    use_single_shares();
    is_stale = true;
  }
  if (engines::has_tainted({slice}) && engines::keeps_taints(answer->body) == false) {
    use_no_taints();
    is_stale = true;
  }
  return Done{};
}

void Publisher::use_single_shares() {
  consumable_ = false;
  log("no_consumable_capacity", {{"instead", text("each share is published as a device")}});
}

void Publisher::use_no_taints() {
  taints_ = false;
  log("no_device_taints", {{"instead", text("unhealthy devices are left out")}});
}

Result<bool> Publisher::is_kept(const std::vector<engines::Slice>& slices,
                                std::optional<bool> (*has)(const std::string& json)) {
  for (const engines::Slice& slice : slices) {
    const std::string trial = engines::trial_slice(slice);
    if (!has(trial).value_or(false)) continue;
    const auto answer = api_.call("POST", std::string(kSlices) + "?dryRun=All", trial);
    if (!answer) return answer.error();
    const auto kept = answer->status < 300 ? has(answer->body) : std::nullopt;
    if (!kept) return refused("ResourceSlice?dryRun=All", *answer, kGetSlices);
    return *kept;
  }
  return false;
}

/// Finds out which features the API server supports, before any slice is written. A server drops
/// the fields of features that it does not support. The scheduler would then allocate a divided GPU
/// as a whole, or an unhealthy GPU.
Status Publisher::find_features(const std::vector<engines::KubeUnit>& units) {
  const auto all = engines::resource_slices(units, {node_, "", shares_});
  if (!consumable_ && engines::has_divided(all)) {
    const auto kept = is_kept(all, engines::keeps_divided);
    if (!kept) return kept.error();
    consumable_ = true;
    if (!*kept) use_single_shares();
  }
  if (!taints_ && engines::has_tainted(all)) {
    const auto kept = is_kept(all, engines::keeps_taints);
    if (!kept) return kept.error();
    taints_ = true;
    if (!*kept) use_no_taints();
  }
  return Done{};
}

Result<std::vector<engines::Slice>> Publisher::wanted() {
  const auto units = devices_.units();
  if (auto found = find_features(units); !found) return std::move(found).error();
  const engines::SliceSettings settings{node_, facts_.uid, shares_, consumable_.value_or(false),
                                        taints_.value_or(false)};
  std::vector<std::string> withheld;
  const auto offered = engines::publishable(units, settings, claims_.devices(), withheld);
  if (withheld.empty() && !withheld_.empty()) log("none_withheld");
  if (!withheld.empty() && withheld != withheld_)
    log("withheld",
        {{"devices", fmt::format("{}", fmt::join(withheld, ","))},
         {"why", text("running claims use these GPUs with another value of --shares, or under a "
                      "former name of the node")},
         {"hint", "kubectl drain " + node_}});
  withheld_ = std::move(withheld);
  return engines::resource_slices(offered, settings);
}

Status Publisher::read_own_node() {
  auto facts = read_node(api_, node_);
  if (!facts) return std::move(facts).error();
  facts_ = *std::move(facts);
  return Done{};
}

Status Publisher::put_all() {
  const std::string query = slices_of_node(node_);
  bool is_fresh = facts_.uid.empty();
  if (is_fresh)
    if (auto read = read_own_node(); !read) return read;
  for (int tries = 0; tries < kMostConflicts; ++tries) {
    const auto listed = api_.call("GET", query);
    if (!listed) return listed.error();
    if (listed->status != 200) return refused("ResourceSliceList", *listed, kGetSlices);
    const auto published = engines::published_slices(listed->body);
    if (!published) return published.error();
    const auto wanted = this->wanted();
    if (!wanted) return wanted.error();
    if (engines::is_current(*wanted, *published)) return Done{};
    if (!is_fresh) {
      // The node may have been deleted together with its slices, and created again with another
      // uid.
      if (auto read = read_own_node(); !read) return read;
      is_fresh = true;
      continue;
    }
    std::uint64_t generation = 0;
    for (const auto& one : *published) generation = std::max(generation, one.generation);
    bool is_stale = false;
    for (const engines::Slice& slice : *wanted) {
      const auto before = std::find_if(published->begin(), published->end(),
                                       [&](const auto& one) { return one.name == slice.name; });
      if (auto done = write(slice, generation + 1, wanted->size(),
                            before == published->end() ? nullptr : &*before, is_stale);
          !done)
        return done;
      if (is_stale) break;
    }
    for (const auto& one : *published) {
      const bool is_wanted = std::any_of(wanted->begin(), wanted->end(),
                                         [&](const auto& slice) { return slice.name == one.name; });
      if (is_wanted || is_stale) continue;
      const auto gone = api_.call("DELETE", std::string(kSlices) + "/" + percent_encoded(one.name));
      if (!gone) return gone.error();
      if (gone->status >= 300 && gone->status != 404)
        return refused("ResourceSlice", *gone, kGetSlices);
    }
    if (!is_stale)
      log("published", {{"generation", std::to_string(generation + 1)},
                        {"slices", std::to_string(wanted->size())}});
  }
  return Error{
      ErrorCode::kUnavailable, "E0969",
      text("the ResourceSlices of this node change all the time: another program writes them, too"),
      "kubectl get resourceslices -w"};
}

}  // namespace berth::kubelet
