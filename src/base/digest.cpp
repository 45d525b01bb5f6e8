#include "base/digest.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace berth {
namespace {

constexpr std::size_t kBlock = 64, kDigest = 32;
constexpr std::string_view kHexDigits = "0123456789abcdef";

constexpr std::array<std::uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<std::uint32_t, 8>;

std::uint32_t byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

void add_block(State& state, std::string_view block) {
  std::array<std::uint32_t, 64> words{};
  for (std::size_t i = 0; i < 16; ++i)
    words.at(i) = byte_at(block, 4 * i) << 24U | byte_at(block, 4 * i + 1) << 16U |
                  byte_at(block, 4 * i + 2) << 8U | byte_at(block, 4 * i + 3);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t before = words.at(i - 15), last = words.at(i - 2);
    words.at(i) = words.at(i - 16) + words.at(i - 7) +
                  (std::rotr(before, 7) ^ std::rotr(before, 18) ^ before >> 3U) +
                  (std::rotr(last, 17) ^ std::rotr(last, 19) ^ last >> 10U);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                                ((e & f) ^ (~e & g)) + kRounds.at(i) + words.at(i);
    const std::uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const State added = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state.at(i) += added.at(i);
}

}  // namespace

std::string sha256(std::string_view bytes) {
  State state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const std::uint64_t bits = std::uint64_t{bytes.size()} * 8;
  for (; bytes.size() >= kBlock; bytes.remove_prefix(kBlock)) add_block(state, bytes);
  std::string rest(bytes);
  rest += '\x80';
  while (rest.size() % kBlock != kBlock - 8) rest += '\0';
  for (unsigned shift = 64; shift > 0;) rest += static_cast<char>(bits >> (shift -= 8) & 0xFFU);
  for (std::string_view left = rest; !left.empty(); left.remove_prefix(kBlock))
    add_block(state, left);
  std::string digest;
  for (const std::uint32_t word : state)
    for (unsigned shift = 32; shift > 0;) digest += static_cast<char>(word >> (shift -= 8) & 0xFFU);
  return digest;
}

std::string hmac_sha256(std::string_view key, std::string_view bytes) {
  std::string padded(key.size() > kBlock ? sha256(key) : key);
  padded.resize(kBlock, '\0');
  std::string inner = padded, outer = padded;
  for (char& one : inner) one = static_cast<char>(one ^ 0x36);
  for (char& one : outer) one = static_cast<char>(one ^ 0x5c);
  return sha256(outer + sha256(inner.append(bytes)));
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text += kHexDigits[byte_at(bytes, i) >> 4U];
    text += kHexDigits[byte_at(bytes, i) & 0xFU];
  }
  return text;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8U | (at + i < bytes.size() ? byte_at(bytes, at + i) : 0);
    for (std::size_t i = 0; i < 4; ++i)
      text += at + i > bytes.size() ? '=' : kLetters[group >> (18 - 6 * i) & 0x3FU];
  }
  return text;
}

std::string percent_encoded(std::string_view bytes) {
  std::string text;
  for (const char one : bytes) {
    const bool is_plain = (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') ||
                          (one >= '0' && one <= '9') ||
                          std::string_view("-._~").find(one) != std::string_view::npos;
    if (is_plain) {
      text += one;
      continue;
    }
    const auto value = static_cast<unsigned char>(one);
    text += '%';
    text += static_cast<char>(kHexDigits[value >> 4U] - (value >> 4U > 9 ? 32 : 0));
    text += static_cast<char>(kHexDigits[value & 0xFU] - ((value & 0xFU) > 9 ? 32 : 0));
  }
  return text;
}

}  // namespace berth
