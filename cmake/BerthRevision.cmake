# Run at build time (cmake -P): writes VERSION_CPP from version.cpp.in if something changed, so that a commit rebuilds only
# one small file. The revision is git's; in an unpacked source tarball it is the one that `git archive` put into
# cmake/revision.txt; otherwise "no revision".
set(revision "")
execute_process(COMMAND git -c safe.directory=* -C "${SOURCE_DIR}" rev-parse --show-prefix
                OUTPUT_VARIABLE prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
# A prefix means that an unpacked tarball is inside another project's repository.
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
