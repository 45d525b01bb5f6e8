#include "policy/thread_pools.hpp"

#include <doctest/doctest.h>

using berth::policy::thread_pools;
using Names = std::vector<std::string>;

TEST_CASE("the BLAS of Debian is named with its way of threading and its version") {
  const auto found = thread_pools({
      "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblasp-r0.3.21.so",
      "/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3",
      "/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0",
  });
  CHECK(found.blas == Names{"OpenBLAS 0.3.21 (pthreads)"});
  CHECK(found.pools == Names{"OpenBLAS", "GNU OpenMP"});
}

TEST_CASE("the checksum in a wheel's file name is not a part of the version") {
  const auto found = thread_pools(
      {"/v/lib/python3.11/site-packages/numpy.libs/libopenblas64_p-r0-15028c96.3.21.so",
       "/v/lib/python3.11/site-packages/scipy.libs/libscipy_openblas-68440149.so"});
  CHECK(found.blas == Names{"OpenBLAS 0.3.21 (pthreads)"});
}

TEST_CASE("two versions of one BLAS are both named") {
  CHECK(thread_pools({"/v/libopenblasp-r0.3.21.so", "/w/libopenblasp-r0.3.27.so"}).blas ==
        Names{"OpenBLAS 0.3.21 (pthreads)", "OpenBLAS 0.3.27 (pthreads)"});
}

TEST_CASE("a libblas.so of no other library is the reference BLAS") {
  CHECK(thread_pools({"/usr/lib/x86_64-linux-gnu/blas/libblas.so.3.11.0"}).blas ==
        Names{"reference BLAS"});
  CHECK(thread_pools({"/usr/lib/x86_64-linux-gnu/blis-openmp/libblas.so.3"}).blas == Names{"BLIS"});
}

TEST_CASE("several OpenMP libraries in one job are all named, and each once") {
  const auto found = thread_pools({"/v/lib/libiomp5.so", "/v/lib/libmkl_core.so.2",
                                   "/v/lib/libmkl_rt.so.2", "/w/torch/lib/libgomp-a34b3233.so.1"});
  CHECK(found.pools == Names{"Intel OpenMP", "GNU OpenMP"});
  CHECK(found.blas == Names{"MKL"});
}

TEST_CASE("names that are not versions are left out") {
  for (const char* file :
       {"/x/libopenblasp-r.so", "/x/libopenblasp-rc.1.so", "/x/libopenblasp-r0..;.so",
        "/x/libopenblasp-r123456789.123456789.so", "/x/libopenblasp-r0.so", "/x/libopenblasp.so.0"})
    CHECK(thread_pools({file}).blas == Names{"OpenBLAS (pthreads)"});
  CHECK(thread_pools({}).blas.empty());
}
