# Products on AMD's GPUs, a part of the room bench. Its anonymous names are those of cublas.cpp, so it is no part of a unity file.
target_sources(berth_bench PRIVATE "${CMAKE_CURRENT_LIST_DIR}/rocblas.cpp")
set_source_files_properties("${CMAKE_CURRENT_LIST_DIR}/rocblas.cpp" TARGET_DIRECTORY berth_bench PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
if(TARGET test_bench)
  # bench_test.cpp loads it in place of HIP and rocBLAS.
  add_library(fake_rocblas MODULE "${CMAKE_CURRENT_LIST_DIR}/fake_rocblas.c")
  target_link_libraries(fake_rocblas PRIVATE berth_options)
  add_dependencies(test_bench fake_rocblas)
  target_compile_definitions(test_bench PRIVATE FAKE_ROCBLAS="$<TARGET_FILE:fake_rocblas>")
endif()
