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

static void read_values(void) {
  const char* const document =
      "{\"a\":[{\"name\":\"x\\u00e9\",\"none\":null,\"yes\":true,\"n\":-3,\"big\":"
      "18446744073709551615,"
      "\"part\":0.5}],\"a/b\":1}";
  berth_parsed* parsed = NULL;
  const char* text = NULL;
  long long integer = 7;
  double number = 7;
  int count = 7;
  expect(berth_parse(document, &parsed) == 0 && parsed != NULL, "a document");
  expect(berth_text_at(parsed, "/a/0/name", &text) == 0 && strcmp(text, "x\xc3\xa9") == 0, "text");
  expect(berth_integer_at(parsed, "/a/0/n", &integer) == 0 && integer == -3, "an integer");
  expect(berth_integer_at(parsed, "/a/0/yes", &integer) == 0 && integer == 1, "a boolean");
  expect(berth_integer_at(parsed, "/a~1b", &integer) == 0 && integer == 1, "an escaped key");
  expect(berth_number_at(parsed, "/a/0/part", &number) == 0 && number == 0.5, "a number");
  expect(berth_number_at(parsed, "/a/0/n", &number) == 0 && number == -3, "an integer as number");
  expect(berth_count_at(parsed, "/a", &count) == 0 && count == 1, "an array");
  integer = 7, number = 7, count = 7, text = NULL;
  expect(berth_text_at(parsed, "/a/0/none", &text) == 1 && text == NULL, "null");
  expect(berth_text_at(parsed, "/a/0/n", &text) == 1 && text == NULL, "another type");
  expect(berth_integer_at(parsed, "/a/0/big", &integer) == 1 && integer == 7, "too large");
  expect(berth_integer_at(parsed, "/a/0/part", &integer) == 1 && integer == 7, "not an integer");
  expect(berth_integer_at(parsed, "/a/1/n", &integer) == 1, "behind the end");
  expect(berth_integer_at(parsed, "/b/c", &integer) == 1, "no such key");
  expect(berth_count_at(parsed, "/a/0", &count) == 1 && count == 7, "not an array");
  expect(berth_integer_at(parsed, "a", &integer) == 2, "not a pointer");
  expect(berth_number_at(parsed, NULL, &number) == 2 && number == 7, "a null pointer");
  berth_parsed_free(parsed);
  expect(berth_parse("{", &parsed) == 2 && parsed == NULL, "not a document");
  expect(strstr(berth_last_error(), "E0551") != NULL, "why");
  expect(berth_parse(NULL, &parsed) == 2, "a null pointer");
  berth_parsed_free(NULL);
}

int main(int argc, char** argv) {
  const char* const list[] = {"ls", NULL};
  const char* const nonsense[] = {"nonsense", NULL};
  char* document = NULL;
  int granted = 0;
  berth_lease *first, *second, *none = NULL;
  read_values();
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
