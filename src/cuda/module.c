/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The kernels that this library loads into contexts of programs: where they are, and what the environment says of them. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/plugin.h"

#define MODULE_MOST (16u << 20)

static void find_module(const char *file, const char *environment, char path[4096])
{
	const char *given = getenv(environment), *end;
	Dl_info self;

	*path = '\0';
	if (given)
		snprintf(path, 4096, "%s", given);
	else if (dladdr((void *)find_module, &self) && self.dli_fname &&
		 (end = strrchr(self.dli_fname, '/')))
		snprintf(path, 4096, "%.*s%s", (int)(end + 1 - self.dli_fname), self.dli_fname,
			 file);
}

/* The file, and a zero behind it, as the driver takes texts; NULL: there is none. */
static void *read_module(const char *path)
{
	void *image = calloc(1, MODULE_MOST);
	FILE *file = fopen(path, "re");
	size_t bytes = 0;

	if (file && image)
		bytes = fread(image, 1, MODULE_MOST - 1, file);
	if (file)
		fclose(file);
	if (bytes)
		return image;
	free(image);
	return NULL;
}

unsigned int weft_cuda_number(const char *environment, unsigned int otherwise)
{
	const char *given = getenv(environment);

	return given ? (unsigned int)atoi(given) : otherwise;
}

int weft_cuda_load(const struct weft_cuda *cuda, const char *file, const char *environment,
		   const char *kernel, weft_cu_module *module, weft_cu_function *function)
{
	char path[4096];
	void *image;
	int err;

	find_module(file, environment, path);
	image = read_module(path);
	err = image ? 0 : -ENOTSUP;
	if (!err && cuda->cuModuleLoadData(module, image)) {
		*module = NULL;
		err = -ENOTSUP;
	}
	if (!err && cuda->cuModuleGetFunction(function, *module, kernel))
		err = -ENOTSUP;
	free(image);
	return err;
}
