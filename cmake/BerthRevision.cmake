# Run at build time (cmake -P): writes VERSION_CPP from version.cpp.in, only where something changed, so that a commit
# costs one small compile and nothing else is built again. The revision is git's; in an unpacked source tarball it is
# what `git archive` put into cmake/revision.txt; else "no revision".
set(revision "")
execute_process(COMMAND git -c safe.directory=* -C "${SOURCE_DIR}" rev-parse --show-prefix
                OUTPUT_VARIABLE prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
# A prefix means that the repository is another project's, around an unpacked tarball.
if(NOT failed AND prefix STREQUAL "")
  execute_process(COMMAND git -c safe.directory=* -C "${SOURCE_DIR}" describe --always --dirty=+ --exclude=* --abbrev=9
                  OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(revision STREQUAL "")
  file(READ "${SOURCE_DIR}/cmake/revision.txt" revision)
  string(STRIP "${revision}" revision)
endif()
if(NOT revision MATCHES "^[0-9a-f]+[+]?$")
  set(revision "no revision")
endif()
set(BERTH_REVISION "${revision}")
configure_file("${SOURCE_DIR}/src/cli/version.cpp.in" "${VERSION_CPP}" @ONLY)
