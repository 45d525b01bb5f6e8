#include "run/rank_stream.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

namespace berth::run {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRestShown(500);  // a partial line is shown after this time

}  // namespace

void Sink::write() {
  const std::size_t size = std::min<std::size_t>(waiting_.size(), PIPE_BUF);
  const ssize_t n = ::write(fd_, waiting_.data(), size);
  if (n > 0) waiting_.erase(0, static_cast<std::size_t>(n));
  if (n >= 0 || errno == EINTR || errno == EAGAIN) return;
  gone_ = true;
  waiting_.clear();
}

bool RankStream::open(Descriptor& its_end) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  from_.reset(ends[0]);
  its_end.reset(ends[1]);
  return ::fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
}

void RankStream::take(std::string_view bytes) {
  tail_.add(bytes);
  if (to_ == nullptr) return;
  if (raw_) {
    to_->add(bytes);
  } else {
    to_->add(lines_.add(bytes));
    if (!lines_.has_rest())
      rest_since_.reset();
    else if (!rest_since_)
      rest_since_ = Clock::now();
  }
  if (to_->is_gone()) from_.reset();
}

std::optional<RankStream::Time> RankStream::rest_due() const {
  return rest_since_ ? std::optional(*rest_since_ + kRestShown) : std::nullopt;
}

void RankStream::show_rest(Time now) {
  if (!rest_since_ || now - *rest_since_ < kRestShown) return;
  to_->add(lines_.take_rest());
  rest_since_.reset();
}

void RankStream::finish() {
  if (to_ != nullptr && !raw_) to_->add(lines_.take_rest());
  rest_since_.reset();
  from_.reset();
}

}  // namespace berth::run
