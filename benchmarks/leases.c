// leases SOCKET CLIENTS COUNT RATE: takes COUNT leases of 64 MiB over CLIENTS connections
// alternately, and returns each. RATE leases start per second. With RATE 0, each connection
// requests the next lease as soon as it has returned one. Prints "p50 p99 seconds". p50 and p99 are
// in microseconds, from the time when a request was due to the last byte of its answer. This is
// plain C, because an HTTP library would dominate the measurement.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

struct client {
  int fd, has_lease, busy;
  size_t have;
  double due;
  char answer[8192];
};

static const char kEcho[] = "HTTP/1.1 201 Created\r\nContent-Length: 12\r\n\r\n{\"id\":1     }";

/// Echoes everything on these sockets as fast as possible.
static void echo(const int* ends, int count) {
  const int poll = epoll_create1(0);
  for (int i = 0; i < count; ++i) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = ends[i]};
    epoll_ctl(poll, EPOLL_CTL_ADD, ends[i], &event);
  }
  struct epoll_event events[64];
  char request[512];
  for (;;) {
    const int n = epoll_wait(poll, events, 64, -1);
    for (int i = 0; i < n; ++i)
      if (read(events[i].data.fd, request, sizeof request) <= 0 ||
          write(events[i].data.fd, kEcho, sizeof kEcho - 1) < 0)
        _exit(0);
  }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void die(const char* why) {
  perror(why);
  exit(1);
}

static void ask(struct client* one, const char* path, const char* body) {
  char request[512];
  const int size = snprintf(request, sizeof request,
                            "POST %s HTTP/1.1\r\nHost: berth\r\nContent-Length: %zu\r\n\r\n%s",
                            path, strlen(body), body);
  one->have = 0;
  one->busy = 1;
  if (write(one->fd, request, (size_t)size) != size) die("write");
}

static void take(struct client* one, double due) {
  one->due = due;
  one->has_lease = 0;
  ask(one, "/v1/jobs", "{\"request\":{\"gpus\":1,\"memory_bytes\":67108864}}");
}

static void give_back(struct client* one) {
  const char* id = strstr(one->answer, "\"id\":");
  if (id == NULL || strncmp(one->answer, "HTTP/1.1 201", 12) != 0) {
    fprintf(stderr, "no lease: %s\n", one->answer);
    exit(1);
  }
  char path[64];
  snprintf(path, sizeof path, "/v1/jobs/%ld/end", strtol(id + 5, NULL, 10));
  one->has_lease = 1;
  ask(one, path, "{\"outcome\":{\"class\":0,\"exit_code\":0}}");
}

/// Whether the answer is complete.
static int has_come(struct client* one) {
  const ssize_t n = read(one->fd, one->answer + one->have, sizeof one->answer - 1 - one->have);
  if (n <= 0) die("read");
  one->have += (size_t)n;
  one->answer[one->have] = 0;
  const char* body = strstr(one->answer, "\r\n\r\n");
  const char* length = strcasestr(one->answer, "content-length:");
  return body != NULL && length != NULL &&
         one->have - (size_t)(body + 4 - one->answer) >= strtoul(length + 15, NULL, 10);
}

/// With `path` "-", connects by socket pairs; `ends` gets the other ends.
static void connect_all(const char* path, struct client* all, int* ends, int count, int poll) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) exit(2);
  strcpy(address.sun_path, path);
  const int alone = strcmp(path, "-") == 0;
  for (int i = 0; i < count; ++i) {
    int pair[2] = {-1, -1};
    if (alone && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) die("socketpair");
    ends[i] = pair[1];
    all[i].fd = alone ? pair[0] : socket(AF_UNIX, SOCK_STREAM, 0);
    if (!alone && connect(all[i].fd, (struct sockaddr*)&address, sizeof address) != 0)
      die("connect");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
    epoll_ctl(poll, EPOLL_CTL_ADD, all[i].fd, &event);
  }
}

static int ascending(const void* a, const void* b) {
  return (*(const double*)a > *(const double*)b) - (*(const double*)a < *(const double*)b);
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int clients = atoi(argv[2]), count = atoi(argv[3]), rate = atoi(argv[4]);
  struct client* all = calloc((size_t)clients, sizeof *all);
  double* taken = calloc((size_t)count, sizeof *taken);
  const int poll = epoll_create1(0);
  int* ends = calloc((size_t)clients, sizeof *ends);
  connect_all(argv[1], all, ends, clients, poll);
  const pid_t other = strcmp(argv[1], "-") == 0 ? fork() : -1;
  if (other == 0) {
    for (int i = 0; i < clients; ++i) close(all[i].fd);
    echo(ends, clients);
  }
  const double start = now();
  int begun = 0, granted = 0, over = 0, next = 0;
  while (over < count) {
    // If no connection is free when a request is due, its waiting time counts.
    const double due = start + (rate > 0 ? begun * 1e6 / rate : 0);
    while (begun < count && (rate == 0 || start + begun * 1e6 / rate <= now())) {
      int tried = 0;
      while (tried < clients && all[next].busy) next = (next + 1) % clients, ++tried;
      if (tried == clients) break;
      take(&all[next], rate > 0 ? start + begun * 1e6 / rate : now());
      next = (next + 1) % clients;
      ++begun;
    }
    struct epoll_event events[64];
    const double left = due - now();
    struct timespec wait = {0, left > 0 ? (long)(left * 1e3) : 0};
    const int n = epoll_pwait2(poll, events, 64, rate > 0 && begun < count ? &wait : NULL, NULL);
    for (int i = 0; i < n; ++i) {
      struct client* one = events[i].data.ptr;
      if (!has_come(one)) continue;
      if (!one->has_lease) {
        taken[granted++] = now() - one->due;
        give_back(one);
      } else {
        one->busy = 0;
        ++over;
      }
    }
  }
  const double seconds = (now() - start) / 1e6;
  if (other > 0) kill(other, SIGKILL);
  qsort(taken, (size_t)count, sizeof *taken, ascending);
  printf("%.1f %.1f %.4f\n", taken[count / 2], taken[count - 1 - count / 100], seconds);
  return 0;
}
