// A process that `berth sim` puts on a simulated GPU. It shows the arguments of a plausible program
// and does nothing. It exits when the other end of descriptor 3 is closed, which always happens
// when `berth sim` ends.
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc > 0) {
    const char* slash = strrchr(argv[0], '/');
    prctl(PR_SET_NAME, slash == NULL ? argv[0] : slash + 1);
  }
  char byte;
  while (read(3, &byte, 1) < 0) {
  }
  return 0;
}
