/* Which driver this library belongs to, told by its file's name as in NVIDIA's packages: libnvidia-ml.so.580.95.05. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

#define STEM ".so."

int library_fits(const struct state *now)
{
	char path[PATH_MAX];
	Dl_info here;
	if (!now->loaded_version[0] || !dladdr((void *)&library_fits, &here) ||
	    !realpath(here.dli_fname, path))
		return 1;
	const char *version = strstr(path, STEM);
	/* A bare ".so.1" is the interface's number. */
	if (!version || !strchr(version + strlen(STEM), '.'))
		return 1;
	return strcmp(version + strlen(STEM), now->loaded_version) == 0;
}
