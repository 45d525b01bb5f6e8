// Replaces NVRTC for tests: it supports sm_80 and sm_89, requires --fmad=false, and reports one
// mistake. Its machine code is the name of the architecture.
#include <stddef.h>
#include <string.h>

static char source[65536], options[64], code[1];

int nvrtcGetNumSupportedArchs(int* count) {
  *count = 2;
  return 0;
}
int nvrtcGetSupportedArchs(int* all) {
  all[0] = 80, all[1] = 89;
  return 0;
}
int nvrtcCreateProgram(void** made, const char* text, const char* name, int n, void* a, void* b) {
  if (strcmp(name, "kernel") != 0 || n != 0 || a != NULL || b != NULL ||
      strlen(text) >= sizeof source)
    return 3;
  strcpy(source, text);
  *made = &code;
  return 0;
}
int nvrtcDestroyProgram(void** made) {
  *made = NULL;
  return 0;
}
int nvrtcCompileProgram(void* made, int n, const char** given) {
  if (made != &code || n != 2 || strcmp(given[1], "--fmad=false") != 0 ||
      strlen(given[0]) >= sizeof options || !strstr(source, "#line 1 \"kernel\"") ||
      !strstr(source, "extern \"C\" __global__"))
    return 3;
  strcpy(options, given[0]);
  return strstr(source, "z[i]") || strstr(source, "nowhere") || strstr(source, "( {") ? 6 : 0;
}
int nvrtcGetProgramLogSize(void* made, size_t* size) {
  *size = made == &code ? 64 : 0;
  return 0;
}
int nvrtcGetProgramLog(void* made, char* log) {
  strcpy(log, strstr(source, "z[i]") ? "kernel(4): error: identifier \"z\" is undefined\n"
                                     : "kernel(2): error: identifier \"x\" is undefined\n");
  return made != &code;
}
int nvrtcGetPTXSize(void* made, size_t* size) {
  *size = strlen(options) + 1;
  return made != &code;
}
int nvrtcGetPTX(void* made, char* to) {
  strcpy(to, options);
  return made == &code && strstr(options, "compute_") ? 0 : 9;
}
int nvrtcGetCUBINSize(void* made, size_t* size) {
  return nvrtcGetPTXSize(made, size);
}
int nvrtcGetCUBIN(void* made, char* to) {
  strcpy(to, options);
  return made == &code && strstr(options, "sm_") ? 0 : 9;
}
