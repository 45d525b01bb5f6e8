// Sources: kernel include/uapi/linux/bpf.h (struct bpf_insn, bpf_cgroup_dev_ctx, union bpf_attr),
// kernel/bpf/cgroup.c (BPF_PROG_TYPE_CGROUP_DEVICE may call bpf_get_current_uid_gid, and a program
// that returns 0 means EPERM).
#include "system/device_filter.hpp"

#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/error_words.hpp"
#include "base/text.hpp"

namespace berth::system {
namespace {

constexpr std::uint8_t kResult = BPF_REG_0, kContext = BPF_REG_6, kMajor = BPF_REG_7,
                       kMinor = BPF_REG_8, kScratch = BPF_REG_1, kUser = BPF_REG_2,
                       kGroup = BPF_REG_3;
// this value was called BPF_XADD before it was renamed to BPF_ATOMIC
constexpr std::uint8_t kAtomicAdd = 0xc0;

/// Writes BPF instructions. They compare numbers as unsigned 32-bit values, as the kernel provides
/// them.
class Writer {
 public:
  void put(std::uint8_t code, std::uint8_t to, std::uint8_t from, std::int16_t offset,
           std::uint32_t value) {
    bpf_insn one{};
    one.code = code;
    one.dst_reg = to & 0xfU;
    one.src_reg = from & 0xfU;
    one.off = offset;
    one.imm = static_cast<std::int32_t>(value);
    static_assert(sizeof one == sizeof(std::uint64_t));
    std::uint64_t word = 0;
    std::memcpy(&word, &one, sizeof word);
    program_.push_back(word);
  }
  void load(std::uint8_t to, std::size_t offset) {
    put(BPF_LDX | BPF_MEM | BPF_W, to, kContext, static_cast<std::int16_t>(offset), 0);
  }
  /// Allows or refuses the access. Always writes two instructions, so that a jump over them has a
  /// fixed length. A refusal jumps to the code of write_refusal().
  void answer(bool allow) {
    put(BPF_ALU64 | BPF_MOV | BPF_K, kResult, 0, 0, allow ? 1 : 0);
    if (!allow) refusals_.push_back(program_.size());
    put(BPF_JMP | (allow ? BPF_EXIT : BPF_JA), 0, 0, 0, 0);
  }
  /// Sets the targets of all jumps to a refusal: the next instruction.
  void refuse_here() {
    for (const std::size_t at : refusals_) {
      bpf_insn one{};
      std::memcpy(&one, &program_[at], sizeof one);
      one.off = static_cast<std::int16_t>(program_.size() - at - 1);
      std::memcpy(&program_[at], &one, sizeof one);
    }
  }
  [[nodiscard]] bool has_refusals() const { return !refusals_.empty(); }
  /// Skips the next `over` instructions unless the register has this value.
  void skip_unless(std::uint8_t reg, std::uint32_t value, std::int16_t over) {
    put(BPF_ALU | BPF_MOV | BPF_K, kScratch, 0, 0, value);
    put(BPF_JMP | BPF_JNE | BPF_X, reg, kScratch, over, 0);
  }
  [[nodiscard]] std::vector<std::uint64_t> take() { return std::move(program_); }

 private:
  std::vector<std::uint64_t> program_;
  std::vector<std::size_t> refusals_;
};

constexpr std::int16_t kAnswer = 2,
                       kCompare = 2;  // number of instructions of an answer, and of a comparison

void write_exempt(Writer& writer, const model::Exempt& exempt) {
  if (exempt.uids.empty() && exempt.gids.empty()) return;
  writer.put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_current_uid_gid);
  writer.put(BPF_ALU | BPF_MOV | BPF_X, kUser, kResult, 0,
             0);  // copies the lower 32 bits (the uid) and clears the upper 32 bits
  writer.put(BPF_ALU64 | BPF_MOV | BPF_X, kGroup, kResult, 0, 0);
  writer.put(BPF_ALU64 | BPF_RSH | BPF_K, kGroup, 0, 0, 32);
  for (const std::uint32_t uid : exempt.uids) {
    writer.skip_unless(kUser, uid, kAnswer);
    writer.answer(true);
  }
  for (const std::uint32_t gid : exempt.gids) {
    writer.skip_unless(kGroup, gid, kAnswer);
    writer.answer(true);
  }
}

/// Adds 1 to counter[0], then refuses the access.
void write_refusal(Writer& writer, int counter) {
  if (counter >= 0) {
    constexpr std::int16_t kKey = -4;
    writer.put(BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, kKey, 0);
    writer.put(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_2, BPF_REG_10, 0, 0);
    writer.put(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, static_cast<std::uint32_t>(kKey));
    writer.put(BPF_LD | BPF_IMM | BPF_DW, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0,
               static_cast<std::uint32_t>(counter));
    writer.put(
        0, 0, 0, 0,
        0);  // second half of this 16-byte instruction, with the upper 32 bits of the constant
    writer.put(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem);
    writer.put(BPF_JMP | BPF_JEQ | BPF_K, kResult, 0, 2, 0);
    writer.put(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, 1);
    writer.put(BPF_STX | kAtomicAdd | BPF_DW, kResult, BPF_REG_1, 0, 0);
  }
  writer.put(BPF_ALU64 | BPF_MOV | BPF_K, kResult, 0, 0, 0);
  writer.put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

long bpf(bpf_cmd command, bpf_attr& attributes) {
  return ::syscall(SYS_bpf, command, &attributes, sizeof attributes);
}

/// Converts a pointer to a 64-bit number, as bpf(2) requires.
std::uint64_t address(const void* of) {
  return reinterpret_cast<std::uintptr_t>(of);
}

Error unsupported(const std::string& what, int problem) {
  return {ErrorCode::kUnsupported, "E0940",
          text("the kernel does not accept a device filter ({}: {})", what, error_words(problem)),
          ""};
}

Descriptor open_group(const std::string& group) {
  return Descriptor(::open(group.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

struct Attached {
  std::uint32_t id = 0;
  std::string name;
  Descriptor program;
};

bpf_prog_info info_of(int program) {
  bpf_prog_info info{};
  bpf_attr attributes{};
  attributes.info.bpf_fd = static_cast<std::uint32_t>(program);
  attributes.info.info_len = sizeof info;
  attributes.info.info = address(&info);
  if (bpf(BPF_OBJ_GET_INFO_BY_FD, attributes) != 0) return {};
  return info;
}

struct AttachedThere {
  bool known = false;  // false if the kernel cannot list the attached filters
  std::vector<Attached> filters;
};

/// The filters that are attached to the group itself.
AttachedThere attached_at(int group) {
  constexpr std::size_t kMost = 64;  // the kernel allows no more (BPF_CGROUP_MAX_PROGS)
  std::array<std::uint32_t, kMost> ids{};
  bpf_attr attributes{};
  attributes.query.target_fd = static_cast<std::uint32_t>(group);
  attributes.query.attach_type = BPF_CGROUP_DEVICE;
  attributes.query.prog_ids = address(ids.data());
  attributes.query.prog_cnt = kMost;
  AttachedThere found;
  found.known = bpf(BPF_PROG_QUERY, attributes) == 0;
  if (!found.known) return found;
  for (std::size_t i = 0; i < attributes.query.prog_cnt && i < kMost; ++i) {
    bpf_attr by_id{};
    by_id.prog_id = ids[i];  // NOLINT(cppcoreguidelines-pro-bounds-constant-array-index)
    Descriptor program(static_cast<int>(bpf(BPF_PROG_GET_FD_BY_ID, by_id)));
    if (!program) continue;
    const bpf_prog_info info = info_of(program.get());
    found.filters.push_back({ids[i], std::string(info.name, ::strnlen(info.name, sizeof info.name)),
                             std::move(program)});
  }
  return found;
}

void detach(int group, int program) {
  bpf_attr attributes{};
  attributes.target_fd = static_cast<std::uint32_t>(group);
  attributes.attach_bpf_fd = static_cast<std::uint32_t>(program);
  attributes.attach_type = BPF_CGROUP_DEVICE;
  static_cast<void>(bpf(BPF_PROG_DETACH, attributes));
}

}  // namespace

std::vector<std::uint64_t> filter_program(const std::vector<model::NodeRule>& rules,
                                          const model::Exempt& exempt, int counter) {
  Writer writer;
  writer.put(BPF_ALU64 | BPF_MOV | BPF_X, kContext, BPF_REG_1, 0, 0);
  write_exempt(writer, exempt);
  // The lower 16 bits of access_type contain the type of the device: block or character. The upper
  // 16 bits contain the kind of access, which does not matter.
  writer.load(kScratch, offsetof(bpf_cgroup_dev_ctx, access_type));
  writer.put(BPF_ALU | BPF_AND | BPF_K, kScratch, 0, 0, 0xffff);
  writer.put(BPF_JMP | BPF_JEQ | BPF_K, kScratch, 0, kAnswer, BPF_DEVCG_DEV_CHAR);
  writer.answer(true);
  writer.load(kMajor, offsetof(bpf_cgroup_dev_ctx, major));
  writer.load(kMinor, offsetof(bpf_cgroup_dev_ctx, minor));
  for (const model::NodeRule& rule : rules) {
    writer.skip_unless(kMajor, rule.major, rule.minor ? kCompare + kAnswer : kAnswer);
    if (rule.minor) writer.skip_unless(kMinor, *rule.minor, kAnswer);
    writer.answer(rule.allow);
  }
  writer.answer(true);
  // If no rule refuses an access, the code for refusals is left out. The kernel rejects unreachable
  // instructions.
  if (!writer.has_refusals()) return writer.take();
  writer.refuse_here();
  write_refusal(writer, counter);
  return writer.take();
}

Result<DeviceFilter> DeviceFilter::load(const std::vector<model::NodeRule>& rules,
                                        const model::Exempt& exempt, std::string name) {
  // with this licence, the kernel permits every helper function
  static constexpr char kLicence[] = "GPL";
  bpf_attr map{};
  map.map_type = BPF_MAP_TYPE_ARRAY;
  map.key_size = sizeof(std::uint32_t);
  map.value_size = sizeof(std::uint64_t);
  map.max_entries = 1;
  Descriptor counter(static_cast<int>(bpf(BPF_MAP_CREATE, map)));
  if (!counter) return unsupported("BPF_MAP_CREATE", errno);
  const auto program = filter_program(rules, exempt, counter.get());
  bpf_attr attributes{};
  attributes.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
  attributes.insns = address(program.data());
  attributes.insn_cnt = static_cast<std::uint32_t>(program.size());
  attributes.license = address(static_cast<const char*>(kLicence));
  name.resize(std::min(name.size(), sizeof attributes.prog_name - 1));
  std::memcpy(attributes.prog_name, name.data(), name.size());
  Descriptor loaded(static_cast<int>(bpf(BPF_PROG_LOAD, attributes)));
  if (!loaded) return unsupported("BPF_PROG_LOAD", errno);
  const std::uint32_t id = info_of(loaded.get()).id;
  return DeviceFilter(std::move(loaded), std::move(counter), id, std::move(name));
}

std::uint64_t DeviceFilter::refusals() const {
  const std::uint32_t key = 0;
  std::uint64_t value = 0;
  bpf_attr attributes{};
  attributes.map_fd = static_cast<std::uint32_t>(counter_.get());
  attributes.key = address(&key);
  attributes.value = address(&value);
  return bpf(BPF_MAP_LOOKUP_ELEM, attributes) == 0 ? value : 0;
}

Result<bool> DeviceFilter::hold(const std::string& group) const {
  const Descriptor folder = open_group(group);
  if (!folder) return unsupported(group, errno);
  const auto there = attached_at(folder.get());
  bool is_there = false;
  for (const Attached& one : there.filters) is_there = is_there || (one.id == id_ && id_ != 0);
  if (!is_there) {
    bpf_attr attributes{};
    attributes.target_fd = static_cast<std::uint32_t>(folder.get());
    attributes.attach_bpf_fd = static_cast<std::uint32_t>(program_.get());
    attributes.attach_type = BPF_CGROUP_DEVICE;
    attributes.attach_flags = BPF_F_ALLOW_MULTI;
    // If the kernel cannot list filters, EINVAL probably means that the filter is already attached.
    if (bpf(BPF_PROG_ATTACH, attributes) != 0 && (there.known || errno != EINVAL))
      return unsupported("BPF_PROG_ATTACH", errno);
  }
  // Remove old filters only after attaching the new one, so that the group is never without a
  // filter.
  for (const Attached& one : there.filters)
    if (one.id != id_ && one.name == name_) detach(folder.get(), one.program.get());
  return !is_there;
}

int remove_filters(const std::string& group, const std::string& name) {
  const Descriptor folder = open_group(group);
  const auto there = folder ? attached_at(folder.get()) : AttachedThere();
  int removed = 0;
  for (const Attached& one : there.filters) {
    if (one.name != name) continue;
    detach(folder.get(), one.program.get());
    ++removed;
  }
  return removed;
}

}  // namespace berth::system
