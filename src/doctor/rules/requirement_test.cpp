#include "doctor/rules/requirement.hpp"

#include <doctest/doctest.h>

using namespace berth::doctor;

TEST_CASE("an image's requirement is met if all parts of one alternative are met") {
  const DriverForImage old{"535.247.01", "12.2", "NVIDIA GeForce RTX 4090"};
  CHECK(satisfies("cuda>=12.2", old) == Satisfied::kYes);
  CHECK(satisfies("cuda>=12.8", old) == Satisfied::kNo);
  CHECK(satisfies("cuda>=12.8 driver>=535,driver<536", old) == Satisfied::kYes);
  CHECK(satisfies("cuda>=12.8 driver>=550,driver<551", old) == Satisfied::kNo);
  CHECK(satisfies("cuda>=12.8 brand=tesla,driver>=535,driver<536", old) == Satisfied::kNo);
  CHECK(first_condition("cuda>=12.8 brand=tesla,driver>=535") == "cuda>=12.8");
}

TEST_CASE("unknown properties of a driver do not violate a requirement") {
  CHECK(satisfies("cuda>=12.8", {"", "", ""}) == Satisfied::kUnknown);
  CHECK(satisfies("cuda>=12.8 brand=tesla,driver>=535", {"535.1", "12.2", ""}) ==
        Satisfied::kUnknown);
  CHECK(satisfies("", {"535.1", "12.2", ""}) == Satisfied::kUnknown);
  CHECK(satisfies("colour=blue", {"535.1", "12.2", ""}) == Satisfied::kUnknown);
}
