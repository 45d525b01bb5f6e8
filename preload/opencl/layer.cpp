// The layer's two entry points, and its table of functions.
#include <string.h>

#include "preload/opencl/layer.hpp"

namespace berth::guard::cl {

namespace real {
#define HOOK(result, name, parameters) constinit decltype(&cl::name) name = nullptr;
#include "preload/opencl/hooks.inc"
#undef HOOK
#define CALL(result, name, parameters) result(*name) parameters = nullptr;
#include "preload/opencl/calls.inc"
#undef CALL
}  // namespace real

namespace {

enum Entry : Uint {
#define ENTRY(name) kEntry_##name,
#include "preload/opencl/dispatch.inc"
#undef ENTRY
};

/// A loader newer than dispatch.inc has more entries. It fills the entries that a layer leaves out.
constexpr Uint kMostEntries = 512;
constinit void* g_table[kMostEntries] = {};

template <typename Function>
void find(Function*& function, void* const* table, Uint entries, Uint entry) {
  function = entry < entries ? reinterpret_cast<Function*>(table[entry]) : nullptr;
}

}  // namespace
}  // namespace berth::guard::cl

using namespace berth::guard::cl;

GUARD_EXPORT Int clGetLayerInfo(Uint name, std::size_t room, void* value, std::size_t* size) {
  static const char kName[] = "berth guard";
  const Uint version = kLayerApi100;
  const void* answer = name == kLayerApiVersion ? static_cast<const void*>(&version) : kName;
  const std::size_t bytes = name == kLayerApiVersion ? sizeof(version) : sizeof(kName);
  if (name != kLayerApiVersion && name != kLayerName) return kInvalidValue;
  if (value != nullptr && room < bytes) return kInvalidValue;
  if (value != nullptr) memcpy(value, answer, bytes);
  if (size != nullptr) *size = bytes;
  return kSuccess;
}

GUARD_EXPORT Int clInitLayer(Uint entries, void* const* target, Uint* own_entries,
                             void* const** own) {
  if (target == nullptr || own_entries == nullptr || own == nullptr) return kInvalidValue;
  if (entries > kMostEntries) entries = kMostEntries;
  memcpy(g_table, target, entries * sizeof(void*));
#define CALL(result, name, parameters) find(real::name, target, entries, kEntry_##name);
#include "preload/opencl/calls.inc"
#undef CALL
#define HOOK(result, name, parameters)                     \
  find(real::name, target, entries, kEntry_##name);        \
  if (real::name != nullptr)                               \
    g_table[kEntry_##name] = reinterpret_cast<void*>(&name);
#include "preload/opencl/hooks.inc"
#undef HOOK
  *own_entries = entries;
  *own = g_table;
  return kSuccess;
}
