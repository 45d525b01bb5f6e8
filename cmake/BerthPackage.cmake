# Installed files beside the program, which it generates from its verb table, and the packages (cpack).
set(pages "${PROJECT_BINARY_DIR}/pages")
set(page_files "${pages}/man1/berth.1.gz" "${pages}/berth.bash" "${pages}/_berth" "${pages}/berth.fish")
add_custom_command(OUTPUT ${page_files}
  COMMAND "${PROJECT_SOURCE_DIR}/scripts/make_pages.sh" $<TARGET_FILE:berth> "${pages}"
  DEPENDS berth scripts/make_pages.sh VERBATIM
  COMMENT "Making man page and completions")
add_custom_target(berth_pages ALL DEPENDS ${page_files})

install(DIRECTORY "${pages}/man1" DESTINATION "${CMAKE_INSTALL_MANDIR}")
install(FILES "${pages}/berth.bash" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME berth)
install(FILES "${pages}/berth.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
# Debian's zsh uses different folders for completions of packages and for local ones.
install(CODE "set(zsh_folder site-functions)
if(CMAKE_INSTALL_PREFIX MATCHES \"(^|/)usr$\" AND EXISTS /etc/debian_version)
  set(zsh_folder vendor-completions)
endif()
file(INSTALL \"${pages}/_berth\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/zsh/\${zsh_folder}\")")
# systemd does not search PATH, so the unit needs an absolute path.
install(CODE "set(berth \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/berth\")
configure_file(\"${PROJECT_SOURCE_DIR}/integrations/systemd/berth.service\" \"${PROJECT_BINARY_DIR}/berth.service\" @ONLY)
file(INSTALL \"${PROJECT_BINARY_DIR}/berth.service\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/systemd/system\")")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME copyright)
install(FILES "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/README.zh-CN.md" "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
              "${PROJECT_SOURCE_DIR}/data/pci_names.LICENSE" "${PROJECT_SOURCE_DIR}/data/libraries.LICENSE"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples/cpp" DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DOCDIR}" FILES_MATCHING PATTERN "*.md")

set(CPACK_GENERATOR "DEB;TGZ")
set(CPACK_PACKAGE_NAME berth)
set(CPACK_PACKAGE_CONTACT "The Berth authors <berth@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "Finds the GPUs of a machine, shows who uses them, runs jobs on free ones with the right
environment, and plays machines that are not there. Needs no GPU, no driver and nothing but glibc.")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_SOURCE_DIR}/build/package")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
