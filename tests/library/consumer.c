/* What a program in another language does with libberth: prints what it got, a line each. */
#include <berth/berth.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "not so: %s\n%s\n", what, berth_last_error());
  exit(1);
}

static berth_lease* take(const char* wish, int* granted) {
  berth_lease* lease = NULL;
  char* document = NULL;
  expect(berth_lease_ask(wish, &lease) == 0 && lease != NULL, wish);
  expect(berth_lease_wait(lease, 100, &document) == 0, "waited");
  *granted = document != NULL;
  if (document != NULL) printf("%s\n", document);
  berth_free(document);
  return lease;
}

int main(int argc, char** argv) {
  const char* const list[] = {"ls", NULL};
  const char* const nonsense[] = {"nonsense", NULL};
  char* document = NULL;
  int granted = 0;
  berth_lease *first, *second, *none = NULL;
  expect(berth_abi() == BERTH_ABI && strcmp(berth_version(), "") != 0, "a version");
  if (argc > 1) berth_use_program(argv[1]);
  expect(berth_document(list, &document) == 0 && document != NULL, "ls");
  printf("%s", document);
  berth_free(document);
  expect(berth_document(nonsense, &document) == 2 && document == NULL, "a verb that is not there");
  expect(strstr(berth_last_error(), "E0002") != NULL, "why");
  first = take("{\"request\":{\"gpus\":1}}", &granted);
  expect(granted, "one GPU is free");
  second = take("{\"request\":{\"gpus\":1},\"name\":\"second\"}", &granted);
  expect(!granted, "no GPU is free");
  expect(berth_lease_why(second, &document) == 0, "why");
  printf("%s\n", document);
  berth_free(document);
  if (fork() == 0) _exit(berth_lease_end(first, 0)); /* a child's end is not ours */
  wait(NULL);
  expect(berth_lease_wait(second, 50, &document) == 0 && document == NULL, "still not free");
  expect(berth_lease_end(first, 0) == 0, "given back");
  expect(berth_lease_wait(second, 20000, &document) == 0 && document != NULL, "then it is free");
  berth_free(document);
  expect(berth_lease_end(second, 3) == 0, "given back");
  expect(berth_lease_ask("{\"request\":{\"gpus\":9}}", &none) == 3 && none == NULL,
         "no such machine");
  expect(strstr(berth_last_error(), "E0411") != NULL, "why");
  expect(berth_lease_ask("nonsense", &none) == 2 && berth_lease_ask(NULL, &none) == 2,
         "a wrong wish");
  expect(berth_lease_end(NULL, 0) == 0, "nothing");
  return 0;
}
