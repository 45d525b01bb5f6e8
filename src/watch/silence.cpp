#include "watch/silence.hpp"

#include <algorithm>

namespace berth::watch {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kSilentAfter(2);
/// The longest time from the driver's initialization to the first sample. Without sampling, also
/// the longest time between full snapshots.
constexpr seconds kFirstAnswer(7);
constexpr seconds kLongestGap(5);
/// With each sample, the longest gap that was seen is multiplied by this, so that it is slowly
/// forgotten.
constexpr double kKept = 0.95;

}  // namespace

Silence::Silence(Clock::duration interval, Clock::duration initialisation)
    : interval_(interval), initialisation_(initialisation) {}

void Silence::begin(Clock::time_point now) {
  is_sampled_ = true;
  begun_ = now;
  ready_.reset();
}

void Silence::ready(Clock::time_point now) {
  if (ready_) return;
  ready_ = now;
  initialised_in_ = now - begun_;
}

void Silence::sampled(const std::string& key, Clock::time_point read, Clock::duration took) {
  ready(read);
  Device& device = devices_[key];
  const bool has_before = device.sampled && *device.sampled >= begun_;
  const Clock::duration gap =
      std::max(interval_ + took, has_before ? read - *device.sampled : Clock::duration{});
  const std::chrono::duration<double> remembered = device.longest_gap * kKept;
  device.longest_gap = std::max(std::min<Clock::duration>(gap, kLongestGap),
                                std::chrono::duration_cast<Clock::duration>(remembered));
  device.sampled = read;
  device.read = read;
}

void Silence::seen(const std::string& key, Clock::time_point now) {
  devices_[key].read = now;
}

void Silence::add_pause(Clock::duration pause) {
  begun_ += pause;
  if (ready_) *ready_ += pause;
  for (auto& [key, device] : devices_) {
    if (device.read) *device.read += pause;
    if (device.sampled) *device.sampled += pause;
  }
}

Silence::Clock::duration Silence::least() const {
  return std::max<Clock::duration>(kSilentAfter, interval_ + seconds(1));
}

Silence::Clock::duration Silence::age(const std::string& key, Clock::time_point now) const {
  const auto found = devices_.find(key);
  return now - (found != devices_.end() && found->second.read ? *found->second.read : begun_);
}

bool Silence::is_old(const std::string& key, Clock::time_point now) const {
  return age(key, now) >= least();
}

bool Silence::is_silent(const std::string& key, Clock::time_point now) const {
  return now >= silent_at(key);
}

Silence::Clock::time_point Silence::silent_at(const std::string& key) const {
  const auto found = devices_.find(key);
  const Device device = found == devices_.end() ? Device{} : found->second;
  const auto read = device.read.value_or(begun_);
  if (!is_sampled_) return read + kFirstAnswer;
  if (!device.sampled || *device.sampled < begun_)
    return std::max(read, ready_ ? *ready_ + kFirstAnswer
                                 : begun_ + (initialised_in_ ? kFirstAnswer + 2 * *initialised_in_
                                                             : initialisation_));
  return read + std::max(least(), 2 * device.longest_gap);
}

bool Silence::is_missed(const std::string& key, Clock::time_point now,
                        Clock::duration longest) const {
  const auto found = devices_.find(key);
  return found == devices_.end() || !found->second.sampled ||
         now - *found->second.sampled > longest;
}

}  // namespace berth::watch
