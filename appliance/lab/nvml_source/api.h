/* What all parts of the library share: NVML's types and codes, and how a call finds its state. */
#ifndef LAB_API_H
#define LAB_API_H

#include "state.h"

#define API __attribute__((visibility("default")))
#define ALIAS(of) __attribute__((visibility("default"), alias(#of)))

typedef int nvmlReturn_t;
typedef struct gpu *nvmlDevice_t;
typedef unsigned long long u64;

enum {
	SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4,
	NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15,
	LIBRARY_MISMATCH = 18, IN_USE = 19, INSUFFICIENT_RESOURCES = 23, VERSION_MISMATCH = 25,
};

#define AMPERE 7
#define HOPPER 9
/* How newer records name their own layout. */
#define VERSIONED(record, version) ((unsigned)sizeof(record) | (version) << 24)

/* How many have initialised the library and not let it go. */
int nvml_users(void);

/* The state for a call, or return from it as NVML would. */
#define STATE(name) \
	struct state *name = state_now(); \
	if (!nvml_users()) \
		return UNINITIALIZED; \
	if (!name) \
		return DRIVER_NOT_LOADED

/* Refresh before every answer: a fault shows at once, in clients that have long been running too. */
#define DEVICE(gpu) \
	STATE(now); \
	if ((gpu) < now->gpus || (gpu) >= now->gpus + MAX_GPUS) \
		return INVALID_ARGUMENT; \
	if ((gpu)->lost || (gpu)->off_bus) \
		return GPU_IS_LOST

#endif
