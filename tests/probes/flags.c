// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each flag of the C driver, in a process that has both drivers: is it one of
// this driver's, with the same default? The process has the flags of both,
// whichever is probed.
//
// expect flags of the C driver: yes
// expect without one here: none
// expect with another default here: none
// expect an unknown parameter: INVALID_ARGUMENT
// expect[amdgpu_rs] flags that are no parameter: none -- parameters of a device URI are new here

#include "iree/base/tooling/flags.h"
#include "probe.h"

#define THEIRS "--amdgpu_"
#define OURS "--amdgpu_rs_"

// The value of the flag |name|, which is |length| bytes with its dashes, in |dump|, a line `--name=value` each; NULL if
// there is none.
static const char* find(const char* dump, const char* name, size_t length) {
  for (const char* line = dump; line; line = strchr(line, '\n')) {
    line += *line == '\n';
    line += *line == '#' ? 1 + strspn(line + 1, " ") : 0;
    if (strncmp(line, name, length) == 0 && (line[length] == '=' || line[length] == '\n')) return line + length;
  }
  return NULL;
}

static void append(char* list, size_t capacity, const char* name, size_t length) {
  size_t used = strlen(list);
  snprintf(list + used, capacity - used, "%s%.*s", used ? " " : "", (int)length, name);
}

PROBE(flags) {
  char* dump = NULL;
  size_t size = 0;
  FILE* file = open_memstream(&dump, &size);
  iree_flags_dump(IREE_FLAG_DUMP_MODE_DEFAULT, file);
  fclose(file);
  char missing[4096] = {0}, different[4096] = {0};
  int count = 0;
  for (const char* line = strstr(dump, THEIRS); line; line = strstr(line + 1, THEIRS)) {
    if (strncmp(line, OURS, strlen(OURS)) == 0) continue;
    ++count;
    const char* key = line + strlen(THEIRS);
    const size_t length = strcspn(key, "=\n");
    char name[256];
    snprintf(name, sizeof(name), OURS "%.*s", (int)length, key);
    const char* ours = find(dump, name, strlen(name));
    const size_t value = strcspn(key + length, "\n");
    if (!ours) {
      append(missing, sizeof(missing), key, length);
    } else if (strcspn(ours, "\n") != value || strncmp(ours, key + length, value) != 0) {
      append(different, sizeof(different), key, length);
    }
  }
  fact_bool("flags of the C driver", count > 10);
  fact("without one here", "%s", *missing ? missing : "none");
  fact("with another default here", "%s", *different ? different : "none");
  iree_hal_device_t* device = NULL;
  iree_status_t unknown = probe_create("0", "no_such_option=1", &device);
  if (probe_is_ours()) {
    // The message names the known ones, each behind a space.
    char message[8192] = {0}, others[4096] = {0};
    iree_host_size_t length = 0;
    iree_status_format(unknown, sizeof(message), message, &length);
    for (const char* line = strstr(dump, OURS); line; line = strstr(line + 1, OURS)) {
      const char* key = line + strlen(OURS);
      const size_t key_length = strcspn(key, "=\n");
      const char* known = strstr(message, "known options: ");
      bool is_known = false;
      while (known && !is_known && (known = strchr(known, ' '))) {
        ++known;
        is_known = strncmp(known, key, key_length) == 0 && strchr(",;\n ", known[key_length]);
      }
      if (!is_known) append(others, sizeof(others), key, key_length);
    }
    fact("flags that are no parameter", "%s", *others ? others : "none");
  }
  fact_status("an unknown parameter", unknown);
  iree_hal_device_release(device);
  free(dump);
}
