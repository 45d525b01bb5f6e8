# All compiler and linker settings. Every target of ours links berth_options.
add_library(berth_options INTERFACE)
target_compile_features(berth_options INTERFACE cxx_std_20)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

find_program(BERTH_CCACHE ccache)
if(BERTH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${BERTH_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${BERTH_CCACHE}")
endif()

target_compile_options(berth_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Wold-style-cast>
  # g++ 12 has false warnings about std::string at -O2 (GCC bug 105329) and, at -O3, about temporaries in a braced
  # list in a loop. With precompiled headers it also shows them for system headers.
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-array-bounds>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-stringop-overflow>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-stringop-overread>
  $<$<BOOL:${BERTH_WERROR}>:-Werror>
  # One section per function, so that the linker can drop unused ones.
  -ffunction-sections -fdata-sections)
target_link_options(berth_options INTERFACE -Wl,--gc-sections -Wl,--as-needed)

# GNU ld takes a minute for some programs with sanitizers.
get_filename_component(clang_folder "${CMAKE_CXX_COMPILER}" REALPATH)
get_filename_component(clang_folder "${clang_folder}" DIRECTORY)
if(EXISTS "${clang_folder}/ld.lld")
  target_link_options(berth_options INTERFACE $<$<LINK_LANG_AND_ID:CXX,Clang>:-fuse-ld=lld>)
endif()

if(BERTH_SANITIZE)
  target_compile_options(berth_options INTERFACE -fsanitize=${BERTH_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer)
  target_link_options(berth_options INTERFACE -fsanitize=${BERTH_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(berth_options INTERFACE "-fsanitize-ignorelist=${PROJECT_SOURCE_DIR}/cmake/sanitizer_ignore.txt")
    if(BERTH_SANITIZE MATCHES "fuzzer")
      target_compile_options(berth_options INTERFACE "-fsanitize-coverage-ignorelist=${PROJECT_SOURCE_DIR}/cmake/coverage_ignore.txt")
    endif()
  endif()
  if(BERTH_SANITIZE MATCHES "undefined")
    # A null pointer ends the program anyway, with the address sanitizer's report; this check is a seventh of the time. The
    # tests themselves are not checked for undefined behaviour, which is a third of theirs.
    target_compile_options(berth_options INTERFACE
                           -fno-sanitize=null$<$<BOOL:$<TARGET_PROPERTY:BERTH_IS_TEST>>:,undefined>)
  endif()
else()
  target_compile_definitions(berth_options INTERFACE
    $<$<CONFIG:Release>:_FORTIFY_SOURCE=2> $<$<CONFIG:Release>:_GLIBCXX_ASSERTIONS>)
  target_compile_options(berth_options INTERFACE $<$<CONFIG:Release>:-fstack-clash-protection>)
  target_link_options(berth_options INTERFACE -Wl,-z,relro,-z,now)
endif()
