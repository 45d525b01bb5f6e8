// Tests with small files of each format, valid and damaged ones. tests/plan/files_test.py tests
// files that the original libraries wrote.
#include "plan/checkpoint.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <map>

using namespace berth::plan;
using berth::Error;
using berth::ErrorCode;
using berth::FileBytes;
using berth::Result;

namespace {

using Folder = std::map<std::string, std::string>;

FileBytes file_in(const Folder& folder, const std::string& name) {
  FileBytes file;
  const std::string bytes = folder.at(name);
  file.name = name;
  file.size = bytes.size();
  file.read = [bytes](std::uint64_t offset, char* into, std::size_t length) {
    if (offset > bytes.size() || length > bytes.size() - offset) return false;
    std::memcpy(into, bytes.data() + offset, length);
    return true;
  };
  file.beside = [folder](const std::string& other) -> Result<FileBytes> {
    if (folder.contains(other)) return file_in(folder, other);
    return Error{ErrorCode::kInvalidArgument, "E1042", other};
  };
  return file;
}

Result<Checkpoint> read(const std::string& bytes, const std::string& name = "model") {
  return read_checkpoint(file_in({{name, bytes}}, name));
}

std::string little(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

std::string safetensors(const std::string& header, std::size_t data) {
  return little(header.size(), 8) + header + std::string(data, '\0');
}

/// A file that ends with this many zeros. Only its first 64 KiB may be read.
FileBytes with_zeros(const std::string& bytes, std::uint64_t zeros) {
  constexpr std::uint64_t kReadAhead = 1 << 16;
  FileBytes file = file_in({{"m", bytes}}, "m");
  file.size += zeros;
  file.read = [bytes](std::uint64_t offset, char* into, std::size_t length) {
    for (std::size_t i = 0; i < length; ++i)
      into[i] = offset + i < bytes.size() ? bytes[static_cast<std::size_t>(offset) + i] : '\0';
    return offset + length <= bytes.size() + kReadAhead;
  };
  return file;
}

const char* const kTwo =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
    R"("b":{"dtype":"F32","shape":[],"data_offsets":[12,16]}})";

std::string gguf_string(const std::string& word) {
  return little(word.size(), 8) + word;
}

/// One tensor of 256 × 2 elements as q4_k, and one number as metadata.
std::string gguf(std::uint64_t type, std::uint64_t offset, std::size_t data) {
  std::string out = "GGUF" + little(3, 4) + little(1, 8) + little(2, 8);
  out += gguf_string("llama.block_count") + little(4, 4) + little(7, 4);
  out += gguf_string("tokens") + little(9, 4) + little(8, 4) + little(2, 8) + gguf_string("a") +
         gguf_string("b");
  out += gguf_string("blk.0.attn_k.weight") + little(2, 4) + little(256, 8) + little(2, 8) +
         little(type, 4) + little(offset, 8);
  out.resize((out.size() + 31) / 32 * 32);
  return out + std::string(data, '\0');
}

std::string field(int number, const std::string& bytes) {
  return little(static_cast<std::uint64_t>(number << 3 | 2), 1) + little(bytes.size(), 1) + bytes;
}

/// A model with a tensor of 2 × 3 floats whose raw data have this length.
std::string onnx(std::size_t raw) {
  const std::string tensor =
      "\x08\x02\x08\x03\x10\x01" + field(8, "w") + field(9, std::string(raw, '\0'));
  return "\x08\x07" + field(7, field(5, tensor));
}

}  // namespace

TEST_CASE("a safetensors header gives the tensors, and none of its data is read") {
  const auto found = read(safetensors(kTwo, 16));
  REQUIRE(found);
  CHECK(found->format == "safetensors");
  REQUIRE(found->tensors.size() == 2);
  CHECK(found->tensors[0].name == "a");
  CHECK(found->tensors[0].elements == 6);
  CHECK(found->tensors[0].stored_bytes == 12);
  CHECK(found->tensors[1].type == "f32");

  const FileBytes file = with_zeros(
      safetensors(R"({"a":{"dtype":"U8","shape":[1073741824],"data_offsets":[0,1073741824]}})", 0),
      1U << 30U);
  CHECK(read_checkpoint(file).has_value());
}

TEST_CASE("a safetensors header that is impossible is refused") {
  const auto refused = [](const std::string& bytes, const char* id) {
    const auto found = read(bytes, "model.safetensors");
    REQUIRE_FALSE(found);
    CHECK(found.error().id == id);
    CHECK_FALSE(found.error().hint.empty());
  };
  refused(little(1ULL << 40U, 8) + "{\"a\":", "E1041");  // the header claims a length of 1 TiB
  refused(little(~0ULL, 8) + "{", "E1041");
  refused(safetensors(kTwo, 15), "E1041");
  refused(safetensors(kTwo, 17), "E1041");
  refused(std::string(4, '\0'), "E1041");
  const auto one = [&](const std::string& dtype, const std::string& shape,
                       const std::string& offsets) {
    refused(safetensors("{\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
                            ",\"data_offsets\":" + offsets + "}}",
                        8),
            "E1041");
  };
  one("F32", "[-2]", "[0,8]");
  one("F32", "[2]", "[8,0]");
  one("F32", "[2]", "[0,-8]");
  one("F32", "[3]", "[0,8]");
  one("F33", "[2]", "[0,8]");
  one("F32", "[4611686018427387906,4611686018427387904]", "[0,8]");
  one("F32", "[1e300]", "[0,8]");
  one("F32", "\"x\"", "[0,8]");
  // Refuse two tensors that use the same bytes.
  refused(safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                      R"("b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                      8),
          "E1041");
  const FileBytes large = with_zeros(little(1ULL << 40U, 8) + "{", 1ULL << 41U);
  CHECK(read_checkpoint(large).error().id == "E1043");
}

TEST_CASE("an index leads to all parts of a sharded model") {
  Folder folder{{"i.json", R"({"weight_map":{"a":"1.st","b":"1.st","c":"2.st"}})"},
                {"1.st", safetensors(kTwo, 16)},
                {"2.st", safetensors(kTwo, 16)}};
  const auto found = read_checkpoint(file_in(folder, "i.json"));
  REQUIRE(found);
  CHECK(found->tensors.size() == 4);
  CHECK(found->files == 2);
  folder.erase("2.st");
  CHECK(read_checkpoint(file_in(folder, "i.json")).error().id == "E1042");
  for (const char* part : {"\"../1.st\"", "\"/etc/passwd\"", "\"\"", "7"})
    CHECK(read(std::string(R"({"weight_map":{"a":)") + part + "}}").error().id == "E1041");
  CHECK(read("{}").error().id == "E1040");
}

TEST_CASE("a GGUF header gives tensors in blocks, and numbers of its metadata") {
  const auto found = read(gguf(12, 0, 288));
  REQUIRE(found);
  REQUIRE(found->tensors.size() == 1);
  CHECK(found->tensors[0].type == "q4_k");
  CHECK(found->tensors[0].stored_bytes == 288);
  CHECK(found->tensors[0].shape == std::vector<std::uint64_t>{2, 256});
  CHECK(found->numbers.at("llama.block_count") == 7);
}

TEST_CASE("a GGUF file that is impossible is refused") {
  // the file is one byte too short for the tensor
  CHECK(read(gguf(12, 0, 287)).error().id == "E1041");
  CHECK(read(gguf(12, 32, 288)).error().id == "E1041");  // the tensor ends after the file
  CHECK(read(gguf(12, ~0ULL, 288)).error().id == "E1041");
  CHECK(read(gguf(99, 0, 288)).error().id == "E1041");  // no type has the number 99
  const std::string whole = gguf(12, 0, 288);
  for (std::size_t length = 4; length < whole.size(); length += 7)
    CHECK_FALSE(read(whole.substr(0, length)).has_value());
  CHECK(read("GGUF" + little(1, 4) + little(0, 16)).error().id == "E1041");
  CHECK(read("GGUF" + little(3, 4) + little(~0ULL, 8) + little(0, 8)).error().id == "E1043");
}

TEST_CASE("an ONNX model gives its initializers") {
  const auto found = read(onnx(24));
  REQUIRE(found);
  REQUIRE(found->tensors.size() == 1);
  CHECK(found->tensors[0].name == "w");
  CHECK(found->tensors[0].stored_bytes == 24);
  CHECK(read(onnx(23)).error().id == "E1041");
  const std::string whole = onnx(24);
  for (std::size_t length = 1; length < whole.size(); ++length)
    CHECK_FALSE(read(whole.substr(0, length), "m.onnx").has_value());
}

TEST_CASE("what is not a model is refused, with the formats that are") {
  for (const char* bytes : {"", "hello world, this is text",
                            "\x7f"
                            "ELF\x02\x01\x01"}) {
    const auto found = read(bytes);
    REQUIRE_FALSE(found);
    CHECK(found.error().id == "E1040");
    CHECK(found.error().message.find("safetensors") != std::string::npos);
  }
}

TEST_CASE("a pickle that calls something is read and not executed") {
  // A file in PyTorch's old format whose pickle calls os.system('false').
  const std::string magic = std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
                                        15),
                    protocol = std::string("\x80\x02M\xe9\x03.", 6),
                    system = std::string("\x80\x02}.", 4), keys = std::string("\x80\x02].", 4);
  const auto found = read(magic + protocol + system + std::string("\x80\x02", 2) +
                          std::string("cos\nsystem\n(X\x05\0\0\0falsetR.", 25) + keys);
  REQUIRE(found);
  CHECK(found->tensors.empty());
  CHECK(model_of(*found).error().id == "E1044");
  CHECK(read(magic + protocol + system).error().id == "E1041");
}

TEST_CASE("a config.json gives the shape and the published number of parameters") {
  const auto model = model_of_config(
      R"({"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,
          "num_hidden_layers":32,"num_key_value_heads":8,"rms_norm_eps":1e-05,"hidden_act":"silu",
          "tie_word_embeddings":false,"vocab_size":128256})",
      "config.json");
  REQUIRE(model);
  CHECK(model->params == 8030261248.0);
  CHECK(model->kv_width == 1024);
  CHECK(model->gated);
  CHECK_FALSE(model->tied);
  CHECK(model_of_config(R"({"model_type":"resnet"})", "c").error().id == "E1044");
  CHECK(model_of_config(R"({"model_type":"llama","hidden_size":-1})", "c").error().id == "E1044");
  CHECK(model_of_config("[1", "c").error().id == "E1044");
}
