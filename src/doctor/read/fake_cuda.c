// A libcuda.so.1 for tests. BERTH_FAKE_CUINIT sets what cuInit() does: return a code, "hang" or
// "crash".
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) int cuInit(unsigned flags);

int cuInit(unsigned flags) {
  const char* told = getenv("BERTH_FAKE_CUINIT");
  (void)flags;
  if (told == NULL) return 0;
  if (strcmp(told, "hang") == 0)
    for (;;) pause();
  if (strcmp(told, "crash") == 0) abort();
  return atoi(told);
}
