/* libberth: Berth for programs in any language.
 *
 * Whole JSON documents cross the border, not fields: those of docs/json.md and docs/api.md. Text is
 * UTF-8, ends with a zero byte, and what a function hands out is the caller's to berth_free().
 *
 * A function that can fail returns 0, or what `berth` itself would exit with (docs/exit-codes.md):
 * 1 nothing found, 2 a wrong call, 3 no device, 4 no broker, 5 not permitted, 6 refused, 70 a bug.
 * berth_last_error() has the words then.
 *
 * Any thread may call; one lease is used by one thread at a time. Nothing here loads a driver into
 * the calling process, changes its environment, starts a thread in it or catches its signals.
 */
#ifndef BERTH_H
#define BERTH_H

#ifdef __cplusplus
extern "C" {
#endif

#define BERTH_API __attribute__((visibility("default")))

/* Raised when something here changes its meaning; what is only added leaves it as it is. */
#define BERTH_ABI 1
BERTH_API int berth_abi(void);
/* "0.1.0" */
BERTH_API const char* berth_version(void);

/* Where the program `berth` lies, which starts the broker and makes documents. Without this call it
 * is looked for beside the library, in the bin folders above it, and on PATH. */
BERTH_API void berth_use_program(const char* path);

/* {"schema":1,"error":{"id","code","message","hint","exit_code"}} of this thread's last call that
 * failed; valid until its next call. Never a null pointer. */
BERTH_API const char* berth_last_error(void);

BERTH_API void berth_free(char* text);

/* What `berth WORDS… --json` prints: {"ls", NULL}, {"ps", NULL}, {"doctor", "--static", NULL}. The
 * document is there also where the result is 1 (a doctor that found something, say); else it is a
 * null pointer where the result is not 0. */
BERTH_API int berth_document(const char* const* words, char** document);

/* A lease: the right to devices for as long as this process lives, or until berth_lease_end(). */
typedef struct berth_lease berth_lease;

/* Asks the broker, which is started where none is there, and does not wait. `wish` is the body of
 * POST /v1/jobs: {"request":{"gpus":1}}, {"request":{"memory_bytes":8589934592,"share_permille":300}}.
 * Where this process is in a job already (BERTH_JOB), the lease is that job's, or a part of it. */
BERTH_API int berth_lease_ask(const char* wish, berth_lease** lease);

/* Waits for at most so many milliseconds (0: not at all). `document` is a null pointer as long as it
 * is not granted, then {"schema":1,"job":{…},"environment":{…}}: the job as in `berth jobs --json`,
 * and what `berth env --json` prints for it. 6: it was taken back meanwhile. */
BERTH_API int berth_lease_wait(berth_lease* lease, int milliseconds, char** document);

/* {"schema":1,"message","hint"}: what a lease that is not granted waits for, and what would do
 * instead. */
BERTH_API int berth_lease_why(berth_lease* lease, char** document);

/* Gives it back, or takes the question back, and frees it. `exit_code`: 0 where all went well. In a
 * process that was forked from the one that asked it frees, and gives nothing back. */
BERTH_API int berth_lease_end(berth_lease* lease, int exit_code);

#ifdef __cplusplus
}
#endif

#endif
