#include "guard/limits_page.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error_words.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace berth::guard {
namespace {

namespace wire = berth::wire::guard;

/// Stores the word atomically, because the job may read it at any moment.
template <typename Word>
void put(Word& word, Word value) {
  __atomic_store_n(&word, value, __ATOMIC_SEQ_CST);
}

Error unusable(const std::string& what) {
  return {ErrorCode::kUnavailable, "E0520",
          text("the guard cannot use {}: {}", printable(what), error_words(errno)), ""};
}

/// Maps the file and writes the limits into it. Returns nullptr if it cannot be mapped.
wire::Limits* map_new(int file, const wire::Limits& limits) {
  if (::ftruncate(file, sizeof limits) != 0) return nullptr;
  void* where = ::mmap(nullptr, sizeof limits, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (where == MAP_FAILED) return nullptr;
  auto* mapped = static_cast<wire::Limits*>(where);
  *mapped = limits;
  return mapped;
}

}  // namespace

Result<LimitsPage> LimitsPage::make(const wire::Limits& limits) {
  const std::string memory = "memfd";
  Descriptor file(::memfd_create("berth-limits", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  wire::Limits* mapped = file ? map_new(file.get(), limits) : nullptr;
  if (mapped == nullptr) return unusable(memory);
  LimitsPage page(std::move(file), mapped);
  // From now on, no other process can get a writable mapping, and no write() succeeds. Only our
  // mapping is writable.
  constexpr int kSize = F_SEAL_SHRINK | F_SEAL_GROW;
  if (::fchmod(page.file_.get(), 0400) != 0) return unusable(memory);
  if (::fcntl(page.file_.get(), F_ADD_SEALS, kSize | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0)
    return page;
  // Linux before 5.1 does not have F_SEAL_FUTURE_WRITE. There, only the file's mode prevents the
  // job from writing.
  if (::fcntl(page.file_.get(), F_ADD_SEALS, kSize | F_SEAL_SEAL) != 0) return unusable(memory);
  return page;
}

Result<LimitsPage> LimitsPage::make_in(const std::string& path, const wire::Limits& limits) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  wire::Limits* mapped = file ? map_new(file.get(), limits) : nullptr;
  if (mapped == nullptr) return unusable(path);
  LimitsPage page(std::move(file), mapped);
  // The container's user is unknown here, so let every user read the file.
  if (::fchmod(page.file_.get(), 0444) != 0) return unusable(path);
  return page;
}

LimitsPage::LimitsPage(LimitsPage&& other) noexcept
    : file_(std::move(other.file_)), mapped_(std::exchange(other.mapped_, nullptr)) {}

LimitsPage::~LimitsPage() {
  if (mapped_ != nullptr) ::munmap(mapped_, sizeof(wire::Limits));
}

std::string LimitsPage::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_.get());
}

bool LimitsPage::is_at(const std::string& path) const {
  struct stat there = {}, here = {};
  return ::stat(path.c_str(), &there) == 0 && ::fstat(file_.get(), &here) == 0 &&
         there.st_dev == here.st_dev && there.st_ino == here.st_ino;
}

void LimitsPage::set_memory(std::uint64_t bytes) {
  for (std::uint32_t i = 0; i < mapped_->devices; ++i)
    if (mapped_->device[i].memory_bytes != wire::kNoLimit)
      put(mapped_->device[i].memory_bytes, bytes);
}

void LimitsPage::set_share(int permille) {
  for (std::uint32_t i = 0; i < mapped_->devices; ++i)
    if (mapped_->device[i].permille != 0)
      put(mapped_->device[i].permille, static_cast<std::uint32_t>(permille));
}

void LimitsPage::set_hidden(std::size_t place, std::uint64_t bytes) {
  if (place < mapped_->devices) put(mapped_->device[place].hidden_bytes, bytes);
}

void LimitsPage::answer(std::uint64_t request) {
  put(mapped_->answered, request);
}

}  // namespace berth::guard
