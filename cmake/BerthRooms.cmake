# berth_room(NAME SOURCES a.cpp ... [USES base model ...] [PACKAGES nlohmann_json::nlohmann_json ...])
#   A room: a static library berth_NAME. USES names other rooms; scripts/check_layers.py checks the
#   includes against the table in docs/architecture.md. ALONE names sources that are not compiled together with others,
#   because a name in their anonymous namespace is also in another source (see BERTH_UNITY); SEPARATE: no source of the room is.
# berth_test(NAME [UNSANITIZED] SOURCES a_test.cpp ... [USES rooms...] [PACKAGES ...] [LABELS ...])
#   One doctest program for the room; every TEST_CASE becomes a separate ctest. LABELS threads: also built and run with the
#   thread sanitizer, which is for these only. The target unit_tests builds all tests. UNSANITIZED: the test or its room takes
#   minutes with sanitizers, so it is built only without them. The preset `ci` builds only these unit tests (BERTH_UNIT_TESTS): ./dev test --all runs the
#   others with sanitizers.

# berth_precompile(TARGET HEADERS)
#   TARGET uses the headers that HEADERS (berth_headers, berth_test_headers) compiles once for all targets; otherwise the
#   standard library costs 1 to 2 s per file. The `tidy` preset builds without them, to find missing #includes.

option(BERTH_PRECOMPILE "Compile the standard library's headers once" ON)
set(standard_headers <algorithm> <array> <chrono> <cstdint> <filesystem> <fstream> <functional> <map> <memory> <optional> <set>
                     <string> <string_view> <utility> <variant> <vector> <fmt/format.h>)
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/empty.cpp" CONTENT "")  # written only if it is not there
# The tests' own files need no optimisation: it costs more time to compile than it saves. The rooms keep theirs.
# _FORTIFY_SOURCE, which release builds have, needs -O1.
if(BERTH_SANITIZE)
  set(berth_test_optimisation -O0 -g0)
  set(berth_test_seconds 400)
else()
  set(berth_test_optimisation "")  # as the programs
  set(berth_test_seconds 120)
endif()

# The sources of a room, or of its tests, in few compiler runs: a third of the time of a build from nothing. The presets `dev`
# and `tidy` compile each file by itself, so that a change costs one file and each file has the #includes that it needs.
option(BERTH_UNITY "Compile several sources of a room at once" OFF)

function(berth_unity target alone)
  if(BERTH_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

function(berth_precompile target headers)
  if(NOT BERTH_PRECOMPILE)
    return()
  endif()
  if(NOT TARGET ${headers})
    add_library(${headers} OBJECT "${PROJECT_BINARY_DIR}/generated/empty.cpp")
    target_link_libraries(${headers} PRIVATE berth_options)
    target_include_directories(${headers} SYSTEM PRIVATE $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
    if(headers STREQUAL berth_test_headers)
      # The same code generation as for programs, because tests are programs.
      set_target_properties(${headers} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${headers} PRIVATE -fPIE ${berth_test_optimisation})
      set_target_properties(${headers} PROPERTIES BERTH_IS_TEST ON)
      target_link_libraries(${headers} PRIVATE doctest::doctest)
      target_precompile_headers(${headers} PRIVATE ${standard_headers} <doctest/doctest.h>)
    else()
      target_precompile_headers(${headers} PRIVATE ${standard_headers})
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${headers})
endfunction()

function(berth_room name)
  cmake_parse_arguments(ARG "SEPARATE" "" "SOURCES;ALONE;USES;PACKAGES" ${ARGN})
  add_library(berth_${name} STATIC ${ARG_SOURCES})
  target_include_directories(berth_${name} PUBLIC "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(berth_${name} PUBLIC berth_options PRIVATE ${ARG_PACKAGES})
  berth_precompile(berth_${name} berth_headers)
  if(NOT ARG_SEPARATE)
    berth_unity(berth_${name} "${ARG_ALONE}")
  endif()
  foreach(used IN LISTS ARG_USES)
    target_link_libraries(berth_${name} PUBLIC berth_${used})
  endforeach()
endfunction()

option(BERTH_UNIT_TESTS "Build the tests of the rooms" ON)

function(berth_test name)
  cmake_parse_arguments(ARG "SEPARATE;UNSANITIZED" "" "SOURCES;ALONE;USES;PACKAGES;LABELS" ${ARGN})
  if(NOT BERTH_BUILD_TESTS OR (ARG_UNSANITIZED AND BERTH_SANITIZE) OR NOT (BERTH_UNIT_TESTS OR ARG_UNSANITIZED))
    return()
  endif()
  if("thread" IN_LIST BERTH_SANITIZE AND NOT "threads" IN_LIST ARG_LABELS)
    return()
  endif()
  if(NOT TARGET berth_doctest_main)
    add_library(berth_doctest_main OBJECT "${PROJECT_SOURCE_DIR}/tests/doctest_main.cpp")
    target_link_libraries(berth_doctest_main PUBLIC berth_options doctest::doctest)
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  # Paths are in a header, not in definitions, so that a compiler cache works for every checkout.
  target_include_directories(test_${name} SYSTEM PRIVATE "${PROJECT_BINARY_DIR}/generated")
  target_compile_options(test_${name} PRIVATE ${berth_test_optimisation})
  set_target_properties(test_${name} PROPERTIES BERTH_IS_TEST ON)
  berth_precompile(test_${name} berth_test_headers)
  if(NOT ARG_SEPARATE)
    berth_unity(test_${name} "${ARG_ALONE}")
  endif()
  target_link_libraries(test_${name} PRIVATE berth_doctest_main ${ARG_PACKAGES})
  foreach(used IN LISTS ARG_USES)
    target_link_libraries(test_${name} PRIVATE berth_${used})
  endforeach()
  if(NOT TARGET unit_tests)
    add_custom_target(unit_tests)
  endif()
  add_dependencies(unit_tests test_${name})
  # One word, because doctest's script would split a list; `ctest -L threads` matches "unit+threads".
  list(JOIN ARG_LABELS "+" more_labels)
  string(REGEX REPLACE "[+]$" "" labels "unit+${more_labels}")
  # The children that read drivers are forked, and start a thread for each device.
  set(environment "")
  if("thread" IN_LIST BERTH_SANITIZE)
    set(environment ENVIRONMENT "TSAN_OPTIONS=die_after_fork=0")
  endif()
  set(prefix "${name}: ")
  if("thread" IN_LIST BERTH_SANITIZE)
    set(prefix "threads, ${prefix}")
  endif()
  doctest_discover_tests(test_${name} TEST_PREFIX "${prefix}" ADD_LABELS 0
                         PROPERTIES LABELS "${labels}" TIMEOUT ${berth_test_seconds} PROCESSORS 3 ${environment})
endfunction()
