// Random requests, copies of handles and releases of OpenCL memory, on a real platform. After each,
// the guard's sum must equal what lives, and never exceed the quota.
// Usage: opencl_random STEPS SEED. Prints: refused requests, bytes left at the end.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "preload/opencl/abi.hpp"
#include "wire/guard.hpp"

namespace {

using namespace berth::opencl;
namespace wire = berth::wire::guard;

[[noreturn]] void fail(const char* what, long long a, long long b) {
  std::printf("%s: %lld, %lld\n", what, a, b);
  std::exit(1);
}

struct Library {
  void* handle = ::dlopen("libOpenCL.so.1", RTLD_NOW);
  template <typename Function>
  Function* find(const char* name) const {
    auto* function = handle == nullptr ? nullptr : ::dlsym(handle, name);
    if (function == nullptr) fail(name, 0, 0);
    return reinterpret_cast<Function*>(function);
  }
};
const Library library;
#define CL(type, name) auto* const name = library.find<type>(#name)
CL(Int(Uint, Platform*, Uint*), clGetPlatformIDs);
CL(Int(Platform, Flags, Uint, DeviceId*, Uint*), clGetDeviceIDs);
CL(Context(const std::intptr_t*, Uint, const DeviceId*, void*, void*, Int*), clCreateContext);
CL(Int(Context), clReleaseContext);
CL(Queue(Context, DeviceId, Flags, Int*), clCreateCommandQueue);
CL(Int(Queue), clFinish);
CL(Int(Queue), clReleaseCommandQueue);
CL(Buffer(Context, Flags, std::size_t, void*, Int*), clCreateBuffer);
CL(Buffer(Buffer, Flags, Uint, const void*, Int*), clCreateSubBuffer);
CL(Buffer(Context, Flags, const ImageFormat*, const ImageDescription*, void*, Int*), clCreateImage);
CL(Int(Buffer), clRetainMemObject);
CL(Int(Buffer), clReleaseMemObject);
CL(Int(Buffer, Uint, std::size_t, void*, std::size_t*), clGetMemObjectInfo);
CL(void*(Context, Flags, std::size_t, Uint), clSVMAlloc);
CL(void(Context, void*), clSVMFree);
CL(Int(Queue, Uint, void**, void*, void*, Uint, const Event*, Event*), clEnqueueSVMFree);

/// A memory object with its own references, or shared memory. A part keeps its parent alive.
struct Thing {
  Buffer object = nullptr;
  void* shared = nullptr;
  std::uint64_t bytes = 0;
  int references = 1, parts = 0;
  int parent = -1;
};

class Test {
 public:
  explicit Test(unsigned seed) : random_(seed) {
    const char* folder = std::getenv("BERTH_GUARD");
    const std::string path = std::string(folder == nullptr ? "" : folder) + "/usage";
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    void* where = ::mmap(nullptr, sizeof(wire::Usage), PROT_READ, MAP_SHARED, file, 0);
    if (where == MAP_FAILED) fail("no guard", 0, 0);
    usage_ = static_cast<const wire::Usage*>(where);
    Platform platform = nullptr;
    DeviceId device = nullptr;
    Int error = clGetPlatformIDs(1, &platform, nullptr);
    if (error == kSuccess) error = clGetDeviceIDs(platform, kDeviceTypeAll, 1, &device, nullptr);
    if (error == kSuccess)
      context_ = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
    if (error == kSuccess) queue_ = clCreateCommandQueue(context_, device, 0, &error);
    if (error != kSuccess) fail("begin", error, 0);
    clGetDevice(device);
  }

  void run(long steps) {
    for (long i = 0; i < steps; ++i) {
      step();
      const std::uint64_t counted = wire::sum_of(*usage_, 0).used;
      if (counted != live_)
        fail("counted, but alive", static_cast<long long>(counted), static_cast<long long>(live_));
      if (counted > quota_)
        fail("over", static_cast<long long>(counted), static_cast<long long>(quota_));
    }
    while (!things_.empty()) drop(things_.size() - 1);
    clReleaseCommandQueue(queue_);
    clReleaseContext(context_);
    std::printf("%ld %llu\n", refused_,
                static_cast<unsigned long long>(wire::sum_of(*usage_, 0).used));
  }

 private:
  void clGetDevice(DeviceId device) {
    auto* info =
        library.find<Int(DeviceId, Uint, std::size_t, void*, std::size_t*)>("clGetDeviceInfo");
    if (info(device, kDeviceGlobalMemSize, sizeof quota_, &quota_, nullptr) != kSuccess)
      fail("quota", 0, 0);
  }
  std::uint64_t below(std::uint64_t most) { return random_() % most; }

  void step() {
    switch (below(8)) {
      case 0:
      case 1:
        return add_buffer();
      case 2:
        return add_image();
      case 3:
        return add_shared();
      case 4:
        return add_part();
      case 5:
        return retain();
      default:
        if (!things_.empty()) drop(below(things_.size()));
    }
  }
  void keep(Thing thing, Int error, std::uint64_t expected) {
    if (thing.object == nullptr && thing.shared == nullptr) {
      if (error != kMemObjectAllocationFailure) fail("error", error, 0);
      if (live_ + expected <= quota_)
        fail("refused", static_cast<long long>(live_), static_cast<long long>(expected));
      ++refused_;
      return;
    }
    live_ += thing.bytes;
    things_.push_back(thing);
  }
  void add_buffer() {
    Thing one;
    Int error = 0;
    const std::uint64_t bytes = 128 + below(quota_ / 4);
    one.object = clCreateBuffer(context_, kMemReadWrite, bytes, nullptr, &error);
    one.bytes = bytes;
    keep(one, error, bytes);
  }
  void add_image() {
    constexpr ImageFormat kFormat = {0x10B5, 0x10DE};  // RGBA, float
    Thing one;
    Int error = 0;
    const ImageDescription what = {0x10F1, 1 + below(300), 1 + below(300), 0, 0, 0, 0, 0,
                                   0,      nullptr};
    one.object = clCreateImage(context_, kMemReadWrite, &kFormat, &what, nullptr, &error);
    std::size_t bytes = what.width * what.height * 16;
    if (one.object != nullptr)
      clGetMemObjectInfo(one.object, kMemSize, sizeof bytes, &bytes, nullptr);
    one.bytes = bytes;
    keep(one, error, bytes);
  }
  void add_shared() {
    Thing one;
    const std::uint64_t bytes = 1 + below(quota_ / 8);
    one.shared = clSVMAlloc(context_, kMemReadWrite, bytes, 0);
    one.bytes = bytes;
    keep(one, kMemObjectAllocationFailure, bytes);
  }
  void add_part() {
    if (things_.empty()) return;
    const std::size_t at = below(things_.size());
    if (things_[at].object == nullptr || things_[at].parent >= 0 || things_[at].bytes < 128) return;
    const std::size_t whole[2] = {0, 64};
    Int error = 0;
    Thing part;
    part.object = clCreateSubBuffer(things_[at].object, kMemReadWrite, 0x1220, whole, &error);
    if (part.object == nullptr) return;  // of an image
    part.parent = next_parent_++;
    parents_.push_back({part.parent, things_[at].object});
    // The part keeps its parent alive, as a reference would.
    ++things_[at].parts;
    things_.push_back(part);
  }
  void retain() {
    if (things_.empty()) return;
    Thing& one = things_[below(things_.size())];
    if (one.object == nullptr || clRetainMemObject(one.object) != kSuccess) return;
    ++one.references;
  }
  void drop(std::size_t at) {
    Thing& one = things_[at];
    if (one.shared != nullptr) {
      if (below(2) == 0) {
        clSVMFree(context_, one.shared);
      } else {
        clEnqueueSVMFree(queue_, 1, &one.shared, nullptr, nullptr, 0, nullptr, nullptr);
        clFinish(queue_);
        // The driver calls back from its own thread.
        for (int i = 0; i < 100'000 && wire::sum_of(*usage_, 0).used != live_ - one.bytes; ++i)
          ::usleep(10);
      }
      return forget(at);
    }
    while (one.references > 0) {
      clReleaseMemObject(one.object);
      --one.references;
    }
    if (one.parts == 0) return forget(at);
    // It lives until its parts are released.
    for (std::size_t i = things_.size(); i-- > 0 && one.parts > 0;)
      if (things_[i].parent >= 0 && parent_of(things_[i].parent) == one.object) {
        while (things_[i].references-- > 0) clReleaseMemObject(things_[i].object);
        things_[i].bytes = 0;
        things_[i].object = nullptr;
        things_[i].references = 0;
        --one.parts;
      }
    live_ -= one.bytes;
    one.bytes = 0;
    one.object = nullptr;
    std::erase_if(things_,
                  [](const Thing& t) { return t.object == nullptr && t.shared == nullptr; });
  }
  Buffer parent_of(int number) const {
    for (const auto& [id, object] : parents_)
      if (id == number) return object;
    return nullptr;
  }
  void forget(std::size_t at) {
    const Thing gone = things_[at];
    live_ -= gone.bytes;
    if (gone.parent >= 0)
      for (Thing& other : things_)
        if (other.object == parent_of(gone.parent)) --other.parts;
    std::erase_if(parents_, [&](const auto& pair) { return pair.first == gone.parent; });
    things_.erase(things_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  std::mt19937_64 random_;
  const wire::Usage* usage_ = nullptr;
  Context context_ = nullptr;
  Queue queue_ = nullptr;
  std::uint64_t quota_ = 0, live_ = 0;
  long refused_ = 0;
  int next_parent_ = 0;
  std::vector<Thing> things_;
  std::vector<std::pair<int, Buffer>> parents_;
};

}  // namespace

int main(int count, char** words) {
  if (count < 3) return 2;
  Test test(static_cast<unsigned>(std::atoi(words[2])));
  test.run(std::atol(words[1]));
}
