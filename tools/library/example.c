/* nxdkit from C: prints what is in a checkpoint, and reads its first tensor.
 *   cc -std=c99 example.c $(pkg-config --cflags --libs nxdkit) -o example && ./example runs/grpo */
#include <inttypes.h>
#include <nxdkit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of the first tensor of an index; a program that reads more of it takes a JSON library. */
static uint64_t FirstBytes(const char* index) {
  const char* dtype = strstr(index, "\"dtype\":\"");
  if (dtype == NULL) return 0;
  dtype += strlen("\"dtype\":\"");
  uint64_t bits = strtoull(dtype + strcspn(dtype, "0123456789"), NULL, 10);
  char* at = strstr(dtype, "\"shape\":[") + strlen("\"shape\":[");
  while (*at != ']') bits *= strtoull(at + (*at == ','), &at, 10);
  return bits / 8;
}

static int Fail(int code, char* reply) {
  fprintf(stderr, "%s\n", reply);
  nxdkit_free(reply);
  return code;
}

int main(int argc, char** argv) {
  char request[4200], *reply = NULL;
  nxdkit_source* run = NULL;
  if (argc != 2 || strlen(argv[1]) > 4096 || strpbrk(argv[1], "\"\\")) return 2; /* JSON's own */
  snprintf(request, sizeof request, "{\"path\": \"%s\"}", argv[1]);
  int code = nxdkit_open(request, NULL, NULL, &run, &reply);
  if (code != 0) return Fail(code, reply);
  const char* index = nxdkit_index(run);
  const uint64_t bytes = FirstBytes(index);
  void* tensor = malloc(bytes);
  code = nxdkit_read(run, 0, NULL, NULL, NULL, tensor, bytes, &reply);
  if (code == 0)
    printf("%.300s ...\n%" PRIu64 " bytes of the first tensor are read\n", index, bytes);
  free(tensor);
  nxdkit_close(run);
  return code == 0 ? 0 : Fail(code, reply);
}
