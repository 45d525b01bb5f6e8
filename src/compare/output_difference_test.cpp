#include "compare/output_difference.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

namespace berth::compare {
namespace {

Output parsed(std::string_view text) {
  return *parse_output(text, {});
}

/// Returns "same", or the first difference as "line expected found".
std::string compared(std::string_view one, std::string_view other, Tolerance tolerance = {}) {
  const auto difference = difference_of(parsed(one), parsed(other), tolerance);
  if (!difference) return "same";
  return std::to_string(difference->line) + " " + difference->expected + " " + difference->found;
}

OutputSeries series(const std::vector<std::string>& outputs) {
  OutputSeries all;
  for (const std::string& one : outputs) all.add(parsed(one), {});
  return all;
}

std::string array(std::string_view type, std::string_view shape, std::string_view data) {
  const std::string header = "{'descr': '" + std::string(type) +
                             "', 'fortran_order': False, 'shape': (" + std::string(shape) +
                             "), }\n";
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size());
  out += '\0';
  return out + header + std::string(data);
}

std::string floats(const std::vector<float>& values) {
  std::string out(values.size() * sizeof(float), '\0');
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

}  // namespace

TEST_CASE("words and integers must be equal, real numbers close") {
  CHECK(compared("loss 0.5", "loss 0.5") == "same");
  CHECK(compared("loss 1.000000", "loss 1.00002") == "same");
  CHECK(compared("a\nloss 1.000", "a\nloss 1.2") == "2 1.000 1.2");
  CHECK(compared("epoch 5", "epoch 6") == "1 5 6");
  CHECK(compared("5/8", "5/9") == "1 8 9");
  CHECK(compared("loss 0.5", "lose 0.5") == "1 loss lose");
  CHECK(compared("v1.2", "v1.3") == "1 2 3");
  CHECK(compared("a b", "a") == "1 b ");
  CHECK(compared("a", "a b") == "1  b");
  CHECK(compared("", "") == "same");
  CHECK(compared("1e400", "1e400") == "same");
  CHECK(compared("x  1.0\n", "x 1.0") == "same");
}

TEST_CASE("a printed number may differ by its last place") {
  CHECK(compared("0.1735", "0.1736") == "same");
  CHECK(compared("0.1735", "0.1737") != "same");
  CHECK(compared("98.06%", "98.07%") == "same");
  CHECK(compared("1.5e-3", "1.6e-3") == "same");
  CHECK(compared("1.5e-3", "1.7e-3") != "same");
}

TEST_CASE("infinities and NaN are equal only to themselves") {
  CHECK(compared("nan", "nan") == "same");
  CHECK(compared("nan", "0.0") != "same");
  CHECK(compared("inf", "inf") == "same");
  CHECK(compared("inf", "-inf") != "same");
  CHECK(compared("inf", "1.0") != "same");
}

TEST_CASE("tolerances by number and by type") {
  CHECK(parse_tolerance("0.01")->relative == 0.01);
  CHECK(parse_tolerance("1e-3")->relative == 1e-3);
  CHECK(parse_tolerance("0")->relative == 0);
  CHECK(parse_tolerance("bfloat16")->relative > parse_tolerance("float32")->relative);
  for (const char* bad : {"", "x", "-1", "2", "1e-3x", "nan", "float8"})
    CHECK_FALSE(parse_tolerance(bad));
  CHECK(compared("1.00000000", "1.00300000", *parse_tolerance("tf32")) == "same");
  CHECK(compared("1.00000000", "1.00300000", *parse_tolerance("float32")) != "same");
}

TEST_CASE("only lines with one of these words") {
  const auto output = parse_output("took 3.5 s\nloss 1.0\ntook 4.5 s", {"loss"});
  REQUIRE(output);
  CHECK(output->size() == 2);
  CHECK(output->front().line == 2);
}

TEST_CASE("numbers that vary between runs of one setting are recognised") {
  const auto times = series({"loss 1.00 in 3.5 s", "loss 1.00 in 4.5 s"});
  CHECK(times.is_stable());
  CHECK(times.varying() == std::vector<bool>{false, false, false, true, false});
  CHECK_FALSE(series({"a", "b"}).is_stable());
  CHECK_FALSE(series({"a", "a a"}).is_stable());
  CHECK(series({}).empty());
}

TEST_CASE("a setting is compared without the numbers that vary from run to run") {
  using State = model::OutputCheck::State;
  const auto reference = series({"loss 1.00 in 3.5 s", "loss 1.00 in 4.5 s"});
  const auto same = check_output(reference, series({"loss 1.00 in 9.5 s"}), {});
  CHECK(same.state == State::kSame);
  CHECK(same.compared == 1);
  CHECK(same.varying == 1);
  const auto differs = check_output(reference, series({"loss 1.50 in 9.5 s"}), {});
  CHECK(differs.state == State::kDiffers);
  CHECK(differs.difference->found == "1.50");
  CHECK_FALSE(differs.repeats);
  CHECK(check_output(series({"1", "1"}), series({"2", "2"}), {}).repeats);
  CHECK_FALSE(check_output(series({"1", "1"}), series({"2"}), {}).repeats);
  CHECK(check_output(reference, series({"a", "b"}), {}).state == State::kUnstable);
  CHECK(check_output(reference, series({}), {}).state == State::kUnstable);
}

TEST_CASE("arrays of NumPy: type, shape and elements") {
  const auto one = parse_output(array("<f4", "2,", floats({1.0F, 2.0F})), {});
  REQUIRE(one);
  CHECK(one->size() == 3);
  CHECK(one->at(2).value == 2.0);
  const auto far = parse_output(array("<f4", "2,", floats({1.0F, 2.5F})), {});
  const auto difference = difference_of(*one, *far, {});
  REQUIRE(difference);
  CHECK(difference->line == 1);
  CHECK(difference->numbers == 1);
  CHECK(std::abs(difference->largest_relative - 0.2) < 1e-9);
  const auto other_shape = parse_output(array("<f4", "1, 2", floats({1.0F, 2.0F})), {});
  CHECK(difference_of(*one, *other_shape, {})->in_shape);
  const auto halves = parse_output(array("<f2", "2,", std::string("\x00\x3c\x00\xc0", 4)), {});
  REQUIRE(halves);
  CHECK(halves->at(1).value == 1.0);
  CHECK(halves->at(2).value == -2.0);
}

TEST_CASE("damaged arrays and types without numbers are refused") {
  const std::string sound = array("<f4", "2,", floats({1.0F, 2.0F}));
  for (std::size_t length = 6; length < sound.size() - 8; ++length)
    CHECK_FALSE(parse_output(sound.substr(0, length), {}).has_value());
  CHECK_FALSE(parse_output(sound + "x", {}).has_value());
  for (const char* type : {"<U4", "|O8", ">f4", "<c8", "<f9", "f4", "<f44"})
    CHECK_FALSE(parse_output(array(type, "2,", floats({1.0F, 2.0F})), {}).has_value());
}

}  // namespace berth::compare
