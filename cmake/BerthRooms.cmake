# berth_room(NAME SOURCES a.cpp ... [USES base model ...] [PACKAGES nlohmann_json::nlohmann_json ...])
#   A room of the house: a static library berth_NAME. USES names other rooms; scripts/check_layers.py
#   holds the includes to the table in docs/architecture.md.
# berth_test(NAME SOURCES a_test.cpp ... [USES rooms...] [PACKAGES ...] [LABELS ...])
#   One doctest program for the room; every TEST_CASE becomes a ctest of its own. LABELS threads: also built and run under
#   the thread sanitizer. Targets unit_tests and thread_tests build all of them.

function(berth_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;PACKAGES" ${ARGN})
  add_library(berth_${name} STATIC ${ARG_SOURCES})
  target_include_directories(berth_${name} PUBLIC "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(berth_${name} PUBLIC berth_options PRIVATE ${ARG_PACKAGES})
  foreach(used IN LISTS ARG_USES)
    target_link_libraries(berth_${name} PUBLIC berth_${used})
  endforeach()
endfunction()

function(berth_test name)
  if(NOT BERTH_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;PACKAGES;LABELS" ${ARGN})
  if(NOT TARGET berth_doctest_main)
    add_library(berth_doctest_main OBJECT "${PROJECT_SOURCE_DIR}/tests/doctest_main.cpp")
    target_link_libraries(berth_doctest_main PUBLIC berth_options doctest::doctest)
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  target_compile_definitions(test_${name} PRIVATE
    BERTH_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data" BERTH_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(test_${name} PRIVATE berth_doctest_main ${ARG_PACKAGES})
  foreach(used IN LISTS ARG_USES)
    target_link_libraries(test_${name} PRIVATE berth_${used})
  endforeach()
  foreach(group IN ITEMS unit_tests thread_tests)
    if(NOT TARGET ${group})
      add_custom_target(${group})
    endif()
  endforeach()
  add_dependencies(unit_tests test_${name})
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(thread_tests test_${name})
  endif()
  # One word, because doctest's script would take a list apart; `ctest -L threads` finds "unit+threads".
  list(JOIN ARG_LABELS "+" more_labels)
  string(REGEX REPLACE "[+]$" "" labels "unit+${more_labels}")
  doctest_discover_tests(test_${name} TEST_PREFIX "${name}: " ADD_LABELS 0
                         PROPERTIES LABELS "${labels}" TIMEOUT 120)
endfunction()
