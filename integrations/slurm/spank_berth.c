/* A SPANK plugin for Slurm: srun --berth-memory=8G --berth-share=30% --berth-report=report.json COMMAND
 *
 * It starts `berth slurm task` when a task begins and when it has ended, as the user of the job.
 * The first is started before slurmstepd prepares its tasks, because a GPU driver takes some time.
 * The first prints variables that put Berth's guard into the task; the second writes the report.
 * With --berth-hang-timeout=10m the first also leaves a process that watches the task.
 * A job without these options is not touched.
 *
 * It calls functions of spank.h only, none of libslurm, and is built on the machine that runs it:
 *
 *     berth slurm plugin --install
 *
 * which comes to  cc -shared -fPIC -O2 -o spank_berth.so spank_berth.c  and this line in plugstack.conf:
 *
 *     optional /usr/local/lib/berth/spank_berth.so berth=/usr/local/bin/berth
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <slurm/spank.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

SPANK_PLUGIN(berth, 1);

enum { MEMORY, SHARE, REPORT, HANG_TIMEOUT, OPTIONS };
enum { MOST_TEXT = 4096, MOST_VARIABLES = 8192, MOST_SECONDS = 15, MOST_WORDS = 20, MOST_HELPERS = 16 };

static char g_value[OPTIONS][MOST_TEXT];
static char g_berth[MOST_TEXT] = "/usr/local/bin/berth";

/* The ends of two pipes to a `berth slurm task --begin -`, one for each task of this node. */
static struct helper {
  int to, from;
} g_helper[MOST_HELPERS];
static int g_helpers;

static int set_option(int which, const char *value, int remote) {
  (void)remote;
  if (which < 0 || which >= OPTIONS || value == NULL || *value == 0 || strlen(value) >= MOST_TEXT)
    return ESPANK_BAD_ARG;
  strcpy(g_value[which], value);
  return ESPANK_SUCCESS;
}

static struct spank_option g_options[] = {
    {"berth-memory", "SIZE", "Berth: hold each task to this much GPU memory (8G)", 1, MEMORY, set_option},
    {"berth-share", "PART", "Berth: hold each task to this part of a GPU's time (30%)", 1, SHARE, set_option},
    {"berth-report", "FILE", "Berth: write a report of each task, as JSON (%j job, %t task)", 1, REPORT, set_option},
    {"berth-hang-timeout", "TIME", "Berth: say where a task is that makes no progress for this long (10m)", 1, HANG_TIMEOUT, set_option},
};

static int is_wanted(void) {
  for (int i = 0; i < OPTIONS; ++i)
    if (g_value[i][0] != 0) return 1;
  return 0;
}

int slurm_spank_init(spank_t spank, int count, char **words) {
  for (int i = 0; i < count; ++i)
    if (strncmp(words[i], "berth=", 6) == 0 && strlen(words[i] + 6) < MOST_TEXT) strcpy(g_berth, words[i] + 6);
  for (int i = 0; i < OPTIONS; ++i) {
    const int result = spank_option_register(spank, &g_options[i]);
    if (result != ESPANK_SUCCESS) return result;
  }
  return ESPANK_SUCCESS;
}

/* The job's own variables, without those that would change our program. */
static char **variables_of(spank_t spank, char **into) {
  char **all = NULL;
  int n = 0;
  if (spank_get_item(spank, S_JOB_ENV, &all) != ESPANK_SUCCESS || all == NULL) return NULL;
  for (int i = 0; all[i] != NULL && n < MOST_VARIABLES - 1; ++i)
    if (strncmp(all[i], "LD_PRELOAD=", 11) != 0 && strncmp(all[i], "LD_AUDIT=", 9) != 0) into[n++] = all[i];
  into[n] = NULL;
  return into;
}

struct user {
  uid_t uid;
  gid_t gid;
  gid_t *groups;
  int group_count;
};

/* As root, slurmd must not run a program with the job's variables: the child becomes the job's user. */
static int become(const struct user *user) {
  if (geteuid() != 0 || user->uid == 0) return 0;
  return setgroups((size_t)user->group_count, user->groups) != 0 || setgid(user->gid) != 0 || setuid(user->uid) != 0;
}

static long seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (long)now.tv_sec;
}

static int user_of(spank_t spank, struct user *user) {
  memset(user, 0, sizeof(*user));
  if (spank_get_item(spank, S_JOB_UID, &user->uid) != ESPANK_SUCCESS || spank_get_item(spank, S_JOB_GID, &user->gid) != ESPANK_SUCCESS) return -1;
  if (spank_get_item(spank, S_JOB_SUPPLEMENTARY_GIDS, &user->groups, &user->group_count) != ESPANK_SUCCESS) user->group_count = 0;
  return 0;
}

/* Starts the program and reads what it prints, for 15 seconds at most. The number of bytes; -1: it failed. */
static int run(spank_t spank, char **words, char *output, size_t size) {
  static char *variables[MOST_VARIABLES];
  struct user user;
  int ends[2];
  size_t filled = 0;
  int status = -1;
  const long deadline = seconds_now() + MOST_SECONDS;
  if (variables_of(spank, variables) == NULL || user_of(spank, &user) != 0) return -1;
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    if (become(&user) != 0 || dup2(ends[1], 1) < 0) _exit(126);
    execve(words[0], words, variables);
    _exit(127);
  }
  close(ends[1]);
  while (child > 0 && filled + 1 < size) {
    struct pollfd one = {ends[0], POLLIN, 0};
    const long left = deadline - seconds_now();
    const int ready = left > 0 ? poll(&one, 1, (int)left * 1000) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      kill(child, SIGKILL);
      break;
    }
    const ssize_t n = read(ends[0], output + filled, size - 1 - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    filled += (size_t)n;
  }
  close(ends[0]);
  output[filled] = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? (int)filled : -1;
}

/* "7.0.3": job, step and task. */
static int task_name(spank_t spank, char *into, size_t size) {
  uint32_t job = 0, step = 0, task = 0;
  if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS || spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_TASK_GLOBAL_ID, &task) != ESPANK_SUCCESS)
    return -1;
  return snprintf(into, size, "%u.%u.%u", job, step, task) > 0 ? 0 : -1;
}

/* What is there stays behind ours. */
static void set_variable(spank_t spank, const char *name, const char *value) {
  static char joined[2 * MOST_TEXT], before[MOST_TEXT];
  if (strcmp(name, "LD_PRELOAD") == 0 && spank_getenv(spank, name, before, sizeof(before)) == ESPANK_SUCCESS && before[0] != 0 &&
      strstr(before, value) == NULL) {
    snprintf(joined, sizeof(joined), "%s:%s", value, before);
    value = joined;
  }
  spank_setenv(spank, name, value, 1);
}

/* `words` has place for MOST_WORDS. */
static void begin_words(spank_t spank, char *name, char **words) {
  char **command = NULL;
  int n = 0, word_count = 0;
  words[n++] = g_berth;
  words[n++] = "slurm";
  words[n++] = "task";
  words[n++] = "--begin";
  words[n++] = name;
  if (g_value[MEMORY][0] != 0) {
    words[n++] = "--memory";
    words[n++] = g_value[MEMORY];
  }
  if (g_value[SHARE][0] != 0) {
    words[n++] = "--share";
    words[n++] = g_value[SHARE];
  }
  if (g_value[REPORT][0] != 0) {
    words[n++] = "--report";
    words[n++] = g_value[REPORT];
  }
  if (g_value[HANG_TIMEOUT][0] != 0) {
    words[n++] = "--hang-timeout";
    words[n++] = g_value[HANG_TIMEOUT];
  }
  if (spank_get_item(spank, S_JOB_ARGV, &word_count, &command) == ESPANK_SUCCESS && word_count > 0) {
    words[n++] = "--command";
    words[n++] = command[0];
  }
  words[n] = NULL;
}

/* Its child goes on, so that slurmstepd does not take it for one of its tasks. */
static int start_helper(const struct user *user, char **words, char **variables, struct helper *helper) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0) return -1;
  if (pipe2(from, O_CLOEXEC) != 0) {
    close(to[0]);
    close(to[1]);
    return -1;
  }
  const pid_t child = fork();
  if (child == 0) {
    if (fork() != 0) _exit(0);
    if (become(user) != 0 || dup2(to[0], 0) < 0 || dup2(from[1], 1) < 0) _exit(126);
    execve(words[0], words, variables);
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
  }
  helper->to = to[1];
  helper->from = from[0];
  return child > 0 ? 0 : -1;
}

/* In slurmstepd, before it prepares its tasks. A task without a helper starts its own program. */
int slurm_spank_init_post_opt(spank_t spank, int count, char **arguments) {
  static char *variables[MOST_VARIABLES];
  struct user user;
  char *words[MOST_WORDS];
  uint32_t tasks = 0;
  (void)count;
  (void)arguments;
  /* The program that watches a task must be started by that task. */
  if (spank_context() != S_CTX_REMOTE || !is_wanted() || g_value[HANG_TIMEOUT][0] != 0) return ESPANK_SUCCESS;
  if (spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS || user_of(spank, &user) != 0 || variables_of(spank, variables) == NULL)
    return ESPANK_SUCCESS;
  char from_stdin[] = "-";
  begin_words(spank, from_stdin, words);
  while (g_helpers < (int)tasks && g_helpers < MOST_HELPERS && start_helper(&user, words, variables, &g_helper[g_helpers]) == 0) ++g_helpers;
  return ESPANK_SUCCESS;
}

/* The task's name, its folder and its variables, each with a NUL behind it, and another NUL. NULL: it cannot be made. */
static char *request_of(spank_t spank, const char *name, size_t *size) {
  static char *variables[MOST_VARIABLES], folder[MOST_TEXT];
  if (variables_of(spank, variables) == NULL || getcwd(folder, sizeof(folder)) == NULL) return NULL;
  *size = strlen(name) + strlen(folder) + 3;
  for (char **one = variables; *one != NULL; ++one) *size += strlen(*one) + 1;
  char *request = calloc(1, *size), *end = request;
  if (request == NULL) return NULL;
  end = stpcpy(end, name) + 1;
  end = stpcpy(end, folder) + 1;
  for (char **one = variables; *one != NULL; ++one)
    if (**one != 0) end = stpcpy(end, *one) + 1;
  *size = (size_t)(end - request) + 1;
  return request;
}

/* Asks the helper of this task. Returns 0 if it has answered completely: its last line is ".". */
static int ask_helper(spank_t spank, const char *name, char *output, size_t size) {
  int local = -1;
  size_t left = 0, filled = 0;
  if (spank_get_item(spank, S_TASK_ID, &local) != ESPANK_SUCCESS || local < 0 || local >= g_helpers) return -1;
  char *request = request_of(spank, name, &left), *next = request;
  const struct helper helper = g_helper[local];
  const long deadline = seconds_now() + MOST_SECONDS;
  void (*before)(int) = signal(SIGPIPE, SIG_IGN);
  fcntl(helper.to, F_SETFL, O_NONBLOCK);
  while (request != NULL && filled + 1 < size) {
    struct pollfd one = {left > 0 ? helper.to : helper.from, left > 0 ? POLLOUT : POLLIN, 0};
    const long seconds = deadline - seconds_now();
    const int ready = seconds > 0 ? poll(&one, 1, (int)seconds * 1000) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    const ssize_t n = left > 0 ? write(helper.to, next, left) : read(helper.from, output + filled, size - 1 - filled);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) break;
    if (left > 0) {
      next += n;
      left -= (size_t)n;
    } else {
      filled += (size_t)n;
    }
  }
  signal(SIGPIPE, before);
  free(request);
  output[filled] = 0;
  return filled >= 2 && strcmp(output + filled - 2, ".\n") == 0 ? 0 : -1;
}

/* In the task, as its user, before its program starts. */
int slurm_spank_task_init(spank_t spank, int count, char **arguments) {
  static char output[4 * MOST_TEXT];
  char name[64];
  char *words[MOST_WORDS];
  (void)count;
  (void)arguments;
  if (!is_wanted() || task_name(spank, name, sizeof(name)) != 0) return ESPANK_SUCCESS;
  begin_words(spank, name, words);
  if (ask_helper(spank, name, output, sizeof(output)) != 0 && run(spank, words, output, sizeof(output)) < 0) {
    fprintf(stderr, "berth: %s could not prepare this task: limits not enforced, hangs not detected\n", g_berth);
    return ESPANK_SUCCESS;
  }
  for (char *line = output, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
    *end = 0;
    char *equals = strchr(line, '=');
    if (equals == NULL) continue;
    *equals = 0;
    set_variable(spank, line, equals + 1);
  }
  return ESPANK_SUCCESS;
}

/* In slurmstepd, when the task has ended. */
int slurm_spank_task_exit(spank_t spank, int count, char **arguments) {
  static char output[MOST_TEXT];
  char name[64], status_text[32];
  int status = 0;
  (void)count;
  (void)arguments;
  if (!is_wanted() || task_name(spank, name, sizeof(name)) != 0) return ESPANK_SUCCESS;
  if (spank_get_item(spank, S_TASK_EXIT_STATUS, &status) != ESPANK_SUCCESS) return ESPANK_SUCCESS;
  snprintf(status_text, sizeof(status_text), "%d", status);
  char *words[] = {g_berth, "slurm", "task", "--end", name, "--status", status_text, NULL};
  run(spank, words, output, sizeof(output));
  return ESPANK_SUCCESS;
}
