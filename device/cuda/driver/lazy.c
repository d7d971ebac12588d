//go:build linux && gpu && (amd64 || arm64)

#include "lazy.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define HIDDEN __attribute__((visibility("hidden")))

enum { NO_LIBRARY = -1, NOT_INITIALIZED = 3, NOT_FOUND = 500 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *library;
static char reason[512];

static void load(void) {
	const char *path = getenv("HALFSTEP_LIBCUDA");
	if (!path || !*path) path = "libcuda.so.1";
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		const char *e = dlerror();
		snprintf(reason, sizeof reason, "%s", e ? e : "dlopen failed");
	}
}

/* What a function does when there is no library, or no such function in it. */
static int no_library(void) { return NOT_INITIALIZED; }
static int no_function(void) { return NOT_FOUND; }

/* Called by the trampolines. */
HIDDEN void *halfstep_cuda_resolve(const char *name) {
	pthread_once(&once, load);
	if (!library) return (void *)no_library;
	void *f = dlsym(library, name);
	return f ? f : (void *)no_function;
}

/* gorgonia.org/cu calls this when the program starts and exits the process if it fails. It succeeds without touching the
   driver; halfstep_cuda_open makes the real call. */
HIDDEN int cuInit(unsigned flags) {
	(void)flags;
	return 0;
}

int halfstep_cuda_open(const char **why) {
	pthread_once(&once, load);
	*why = reason;
	if (!library) return NO_LIBRARY;
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
	if (!init) {
		*why = "the library has no cuInit";
		return NO_LIBRARY;
	}
	return init(0);
}
