// Model files of every format, and config.json. The other parts of a sharded model are the same
// bytes again.
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "plan/checkpoint.hpp"
#include "plan/memory.hpp"

using namespace berth::plan;
using berth::FileBytes;

namespace {

FileBytes file_of(std::string_view bytes, const std::string& name, int depth) {
  FileBytes file = berth::file_of(bytes);
  file.name = name;
  file.beside = [bytes, depth](const std::string& other) -> berth::Result<FileBytes> {
    BERTH_CHECK(other.find('/') == std::string::npos);
    // A part of a part would be read again and again.
    if (depth > 0 || bytes.size() < 2)
      return berth::Error{berth::ErrorCode::kNotFound, "E1042", other};
    return file_of(bytes.substr(bytes.size() / 2), other, depth + 1);
  };
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::array names{"model", "model.onnx", "m-00001-of-00002.gguf"};
  const char* const name = names[size % names.size()];
  if (const auto found = read_checkpoint(file_of(bytes, name, 0)))
    for (const Tensor& tensor : found->tensors) {
      BERTH_CHECK(tensor.elements >= 0 && std::isfinite(tensor.elements));
      BERTH_CHECK(tensor.stored_bytes >= 0 && std::isfinite(tensor.stored_bytes));
    }
  const auto model = model_in_file(file_of(bytes, name, 0));
  if (!model) {
    BERTH_CHECK(!model.error().message.empty());
    return 0;
  }
  BERTH_CHECK(model->params > 0 && std::isfinite(model->params));
  for (const Task task : {Task::kInference, Task::kTrain, Task::kLora}) {
    Work work;
    work.task = task;
    const double peak = memory_of(*model, work).peak();
    BERTH_CHECK(std::isfinite(peak) && peak > 0);
  }
  return 0;
}
