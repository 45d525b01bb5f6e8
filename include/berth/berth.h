/* libberth: Berth for programs in any language.
 *
 * Functions exchange complete JSON documents (docs/json.md, docs/api.md). Text is UTF-8 and ends
 * with a zero byte. The caller must release documents that a function returns with berth_free().
 * C++ programs use berth/berth.hpp instead (docs/cpp.md).
 *
 * A function that can fail returns 0 or an exit code of `berth` (docs/exit-codes.md): 1 nothing
 * found, 2 wrong call, 3 no device, 4 no broker, 5 not permitted, 6 refused, 70 a bug. Then
 * berth_last_error() describes the error.
 *
 * Functions may be called from any thread; use a lease in only one thread at a time. They load no
 * driver into the calling process, start no thread, and leave its environment and signals alone.
 */
#ifndef BERTH_H
#define BERTH_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BERTH_API __attribute__((visibility("default")))

/* Increased when something existing here changes; additions do not count. */
#define BERTH_ABI 1
BERTH_API int berth_abi(void);
/* "0.1.0" */
BERTH_API const char* berth_version(void);

/* Sets the path of the program `berth`, which starts the broker and makes documents. By default it
 * is searched for beside the library, in the bin folders above it, and on PATH. */
BERTH_API void berth_use_program(const char* path);

/* {"schema":1,"error":{"id","code","message","hint","exit_code"}} of this thread's last failed
 * call. Valid until the thread's next call. Never a null pointer. */
BERTH_API const char* berth_last_error(void);

BERTH_API void berth_free(char* text);

/* The output of `berth WORDS… --json`: {"ls", NULL}, {"ps", NULL}, {"doctor", "--static", NULL}. If
 * the result is 0 or 1 (for example, the doctor found something), there is a document; otherwise it
 * is a null pointer. */
BERTH_API int berth_document(const char* const* words, char** document);

/* A parsed document, for programs without a JSON library. Free it with berth_parsed_free(). */
typedef struct berth_parsed berth_parsed;
BERTH_API int berth_parse(const char* document, berth_parsed** parsed);
BERTH_API void berth_parsed_free(berth_parsed* parsed);

/* The value at a JSON pointer (RFC 6901), such as "/devices/0/name". Returns 1, and writes nothing,
 * if there is no such value, or it is null or of another type. A boolean is the integer 0 or 1.
 * Text is valid until berth_parsed_free(). berth_count_at: the number of elements of an array. */
BERTH_API int berth_text_at(const berth_parsed* parsed, const char* pointer, const char** text);
BERTH_API int berth_integer_at(const berth_parsed* parsed, const char* pointer, long long* value);
BERTH_API int berth_number_at(const berth_parsed* parsed, const char* pointer, double* value);
BERTH_API int berth_count_at(const berth_parsed* parsed, const char* pointer, int* count);

/* A lease: the right to use devices until this process ends or calls berth_lease_end(). */
typedef struct berth_lease berth_lease;

/* Asks the broker for a lease and does not wait. Starts a broker if needed. `wish` is the body of
 * POST /v1/jobs: {"request":{"gpus":1}},
 * {"request":{"memory_bytes":8589934592,"share_permille":300}}. If this process already runs in a
 * job (BERTH_JOB), the lease is that job's, or a part of it. */
BERTH_API int berth_lease_ask(const char* wish, berth_lease** lease);

/* Waits at most this many milliseconds (0: not at all). `document` is a null pointer until the
 * lease is granted, then {"schema":1,"job":{…},"environment":{…}}: the job as in `berth jobs
 * --json`, and the output of `berth env --json` for it. Returns 6 if the request was cancelled. */
BERTH_API int berth_lease_wait(berth_lease* lease, int milliseconds, char** document);

/* {"schema":1,"message","hint"}: "message" says what the request waits for,
 * "hint" names a request that would work now. */
BERTH_API int berth_lease_why(berth_lease* lease, char** document);

/* Gives the lease back, or withdraws the request, and frees it. `exit_code`: 0 on success. A
 * process that was forked from the one that asked only frees it and gives nothing back. */
BERTH_API int berth_lease_end(berth_lease* lease, int exit_code);

/* A launch through OpenCL that is prepared once and repeated, for languages in which each call of a
 * library takes long. The first two are clEnqueueNDRangeKernel and clFlush of the OpenCL library
 * that queue and kernel belong to; the kernel's arguments are set. */
typedef struct berth_opencl_launch {
  int (*enqueue)(void* queue, void* kernel, unsigned axes, const size_t* offset,
                 const size_t* total, const size_t* group, unsigned waits, void* const* wait_for,
                 void** event);
  int (*flush)(void* queue);
  void *queue, *kernel;
  size_t axes, total[3], group[3];
  void* event; /* set by the call; release it with clReleaseEvent */
} berth_opencl_launch;
/* Returns OpenCL's error, or 0. */
BERTH_API int berth_opencl_launch_run(berth_opencl_launch* launch);

#ifdef __cplusplus
}
#endif

#endif
