/* NVML's interface to MIG: names, numbers and record layouts are those of NVIDIA's nvml.h (driver 535). */
#include <stdio.h>
#include <string.h>

#include "mig.h"

typedef char *nvmlGpuInstance_t;
typedef char *nvmlComputeInstance_t;
typedef struct { unsigned start, size; } nvmlGpuInstancePlacement_t;
typedef struct {
	unsigned id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
	unsigned copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
	u64 memorySizeMB;
} nvmlGpuInstanceProfileInfo_t;
typedef struct {
	unsigned version;
	unsigned id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
	unsigned copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
	u64 memorySizeMB;
	char name[96];
} nvmlGpuInstanceProfileInfo_v2_t;
typedef struct {
	nvmlDevice_t device;
	unsigned id, profileId;
	nvmlGpuInstancePlacement_t placement;
} nvmlGpuInstanceInfo_t;
typedef struct {
	unsigned id, sliceCount, instanceCount, multiprocessorCount;
	unsigned sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
} nvmlComputeInstanceProfileInfo_t;
typedef struct {
	nvmlDevice_t device;
	nvmlGpuInstance_t gpuInstance;
	unsigned id, profileId;
	nvmlGpuInstancePlacement_t placement;
} nvmlComputeInstanceInfo_t;
typedef struct {
	unsigned multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount;
	unsigned sharedJpegCount, sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount;
	u64 memorySizeMB;
} nvmlDeviceAttributes_t;
typedef struct { unsigned pid; u64 usedGpuMemory; } nvmlProcessInfo_v1_t;
typedef struct {
	unsigned pid;
	u64 usedGpuMemory;
	unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t;

#define MIB (1ull << 20)

/* NVML_COMPUTE_INSTANCE_PROFILE_* 0 to 4 by their compute slices; the id is the constant. */
static const unsigned part_slices[] = { 1, 2, 3, 4, 7 };
#define PART_PROFILES (sizeof part_slices / sizeof *part_slices)

/* What handles point to: only the address counts. */
static char instance_handles[MAX_GPUS][MIG_INSTANCES];
static char part_handles[MAX_GPUS][MIG_INSTANCES][MIG_PARTS];
static char device_handles[MAX_GPUS][MIG_INSTANCES][MIG_PARTS];

static const struct cut *by_id(const struct gpu *gpu, unsigned id)
{
	for (unsigned i = 0; i < gpu->cut_count; i++)
		if (gpu->cuts[i].id == id)
			return &gpu->cuts[i];
	return NULL;
}

static const struct cut *by_index(const struct gpu *gpu, unsigned index)
{
	for (unsigned i = 0; i < gpu->cut_count; i++)
		if (gpu->cuts[i].index == index)
			return &gpu->cuts[i];
	return NULL;
}

static unsigned slot_of(const struct state *now, const struct gpu *gpu)
{
	return (unsigned)(gpu - now->gpus);
}

u64 mig_memory(const struct gpu *gpu, unsigned size)
{
	return (gpu->memory_total - gpu->memory_reserved) / gpu->mig_memory * size / MIB * MIB;
}

void mig_name(const struct gpu *gpu, unsigned id, char *text, unsigned length)
{
	const struct cut *profile = by_id(gpu, id);
	snprintf(text, length, "%s", profile ? profile->name : "");
}

/* The same for the same place of the same GPU, after a reboot too. */
void mig_uuid(const struct state *now, struct mig_place place, char *text, unsigned length)
{
	const struct instance *found = &mig_now(now)[place.gpu].instances[place.instance];
	char name[TEXT + 64];
	u64 low = 14695981039346656037ull, high = 1099511628211ull;
	snprintf(name, sizeof name, "%s/%u/%u/%u", now->gpus[place.gpu].uuid, found->profile, found->start, place.part);
	for (const char *at = name; *at; at++) {
		low = (low ^ (unsigned char)*at) * 1099511628211ull;
		high = (high ^ low) * 6364136223846793005ull + 1442695040888963407ull;
	}
	snprintf(text, length, "MIG-%08llx-%04llx-5%03llx-8%03llx-%012llx", low >> 32, low >> 16 & 0xffff, low & 0xfff,
		 high >> 48 & 0xfff, high & 0xffffffffffffull);
}

int mig_is_divided(const struct state *now, unsigned gpu)
{
	const struct mig *mig = &mig_now(now)[gpu];
	for (unsigned i = 0; i < MIG_INSTANCES; i++)
		if (mig->instances[i].used)
			return 1;
	return 0;
}

static int within(const void *handle, const char *first, size_t count, size_t *number)
{
	*number = (size_t)((const char *)handle - first);
	return (const char *)handle >= first && *number < count;
}

int mig_device(const struct state *now, const void *handle, struct mig_place *place)
{
	size_t number;
	if (!within(handle, device_handles[0][0], sizeof device_handles, &number))
		return 0;
	*place = (struct mig_place){ (unsigned)(number / (MIG_INSTANCES * MIG_PARTS)),
				     (unsigned)(number / MIG_PARTS % MIG_INSTANCES), (unsigned)(number % MIG_PARTS) };
	const struct instance *found = &mig_now(now)[place->gpu].instances[place->instance];
	return found->used && found->parts[place->part].used;
}

/* ---- mode ---- */

API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t gpu, unsigned *current, unsigned *pending)
{
	DEVICE(gpu);
	if (!gpu->mig_memory)
		return NOT_SUPPORTED;
	const struct mig *mig = &mig_now(now)[slot_of(now, gpu)];
	*current = mig->current;
	*pending = mig->pending;
	return SUCCESS;
}

#define LOCKED(number) \
	int lock = mig_lock(); \
	if (lock < 0) \
		return NO_PERMISSION; \
	unsigned slot = number; \
	struct mig *mig = &mig_now(now)[slot]

#define CHANGE(gpu) \
	DEVICE(gpu); \
	LOCKED(slot_of(now, gpu))

static nvmlReturn_t ended(int lock, nvmlReturn_t result)
{
	mig_unlock(lock);
	return result;
}

static nvmlReturn_t saved(int lock, const struct state *now)
{
	return ended(lock, mig_save(now) ? SUCCESS : NO_PERMISSION);
}

/* Whoever uses the GPU keeps the mode from taking effect: it stays pending until a reset. */
API nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t gpu, unsigned mode, nvmlReturn_t *activation)
{
	CHANGE(gpu);
	if (!gpu->mig_memory)
		return ended(lock, NOT_SUPPORTED);
	if (mode > 1 || !activation)
		return ended(lock, INVALID_ARGUMENT);
	if (!mode && mig_is_divided(now, slot))
		return ended(lock, IN_USE);
	mig->pending = mode;
	*activation = mig->current != mode && processes_of(slot, NO_INSTANCE, 1) ? IN_USE : SUCCESS;
	if (*activation == SUCCESS)
		mig->current = mode;
	return saved(lock, now);
}

/* Not NVML's: what nvidia-smi --gpu-reset does. */
API nvmlReturn_t labDeviceReset(nvmlDevice_t gpu)
{
	CHANGE(gpu);
	if (processes_of(slot, NO_INSTANCE, 1))
		return ended(lock, IN_USE);
	memset(mig->instances, 0, sizeof mig->instances);
	mig->current = mig->pending;
	return saved(lock, now);
}

/* ---- profiles and places ---- */

#define DIVIDED(gpu) \
	if (!mig_now(now)[slot_of(now, gpu)].current) \
		return NOT_SUPPORTED

API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t gpu, unsigned index, nvmlGpuInstanceProfileInfo_t *info)
{
	DEVICE(gpu);
	const struct cut *profile = by_index(gpu, index);
	if (!profile)
		return NOT_SUPPORTED;
	unsigned media = strchr(profile->name, '+') != NULL || profile->compute == gpu->mig_compute;
	*info = (nvmlGpuInstanceProfileInfo_t){
		.id = profile->id, .sliceCount = profile->compute, .instanceCount = profile->most,
		.multiprocessorCount = profile->units, .copyEngineCount = profile->compute,
		.decoderCount = profile->compute, .jpegCount = media, .ofaCount = media,
		.memorySizeMB = mig_memory(gpu, profile->memory) / MIB,
	};
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t gpu, unsigned index,
						      nvmlGpuInstanceProfileInfo_v2_t *info)
{
	nvmlGpuInstanceProfileInfo_t plain;
	if (info->version != VERSIONED(*info, 2))
		return VERSION_MISMATCH;
	nvmlReturn_t result = nvmlDeviceGetGpuInstanceProfileInfo(gpu, index, &plain);
	if (result != SUCCESS)
		return result;
	*info = (nvmlGpuInstanceProfileInfo_v2_t){
		.version = info->version, .id = plain.id, .sliceCount = plain.sliceCount,
		.instanceCount = plain.instanceCount, .multiprocessorCount = plain.multiprocessorCount,
		.copyEngineCount = plain.copyEngineCount, .decoderCount = plain.decoderCount,
		.jpegCount = plain.jpegCount, .ofaCount = plain.ofaCount, .memorySizeMB = plain.memorySizeMB,
	};
	strcpy(info->name, "MIG ");
	mig_name(gpu, plain.id, info->name + 4, sizeof info->name - 4);
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t gpu, unsigned id,
							       nvmlGpuInstancePlacement_t *places, unsigned *count)
{
	DEVICE(gpu);
	DIVIDED(gpu);
	const struct cut *profile = by_id(gpu, id);
	unsigned found = 0;
	if (!profile)
		return NOT_SUPPORTED;
	for (unsigned start = 0; start < gpu->mig_memory; start++) {
		if (!(profile->starts >> start & 1))
			continue;
		if (places && found < *count)
			places[found] = (nvmlGpuInstancePlacement_t){ start, profile->memory };
		found++;
	}
	nvmlReturn_t result = places && *count < found ? INSUFFICIENT_SIZE : SUCCESS;
	*count = found;
	return result;
}
ALIAS(nvmlDeviceGetGpuInstancePossiblePlacements_v2)
nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t, unsigned, nvmlGpuInstancePlacement_t *, unsigned *);

/* Memory slices that are taken, compute slices that are, and how many instances of a profile there are. */
static unsigned taken(const struct gpu *gpu, const struct mig *mig, unsigned id, unsigned *compute, unsigned *alike)
{
	unsigned mask = 0;
	*compute = *alike = 0;
	for (unsigned i = 0; i < MIG_INSTANCES; i++) {
		const struct instance *each = &mig->instances[i];
		if (!each->used)
			continue;
		mask |= ((1u << each->size) - 1) << each->start;
		*compute += by_id(gpu, each->profile)->compute;
		*alike += each->profile == id;
	}
	return mask;
}

static int fits(const struct gpu *gpu, const struct mig *mig, const struct cut *profile, unsigned start)
{
	unsigned compute, alike, mask = taken(gpu, mig, profile->id, &compute, &alike);
	return profile->starts >> start & 1 && !(mask & ((1u << profile->memory) - 1) << start) &&
	       compute + profile->compute <= gpu->mig_compute && alike < profile->most;
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t gpu, unsigned id, unsigned *count)
{
	DEVICE(gpu);
	DIVIDED(gpu);
	const struct cut *profile = by_id(gpu, id);
	const struct mig *mig = &mig_now(now)[slot_of(now, gpu)];
	if (!profile)
		return NOT_SUPPORTED;
	unsigned compute, alike, mask = taken(gpu, mig, id, &compute, &alike), more = 0;
	for (unsigned start = 0; start < gpu->mig_memory; start++) {
		unsigned wanted = ((1u << profile->memory) - 1) << start;
		if (!(profile->starts >> start & 1) || mask & wanted || alike + more >= profile->most ||
		    compute + (more + 1) * profile->compute > gpu->mig_compute)
			continue;
		mask |= wanted;
		more++;
	}
	*count = more;
	return SUCCESS;
}

/* ---- GPU instances ---- */

/* A number for every place there is, as in a tree of halves. */
static unsigned instance_id(const struct gpu *gpu, unsigned start, unsigned size)
{
	return (unsigned)gpu->mig_memory / size - 1 + start / size;
}

static nvmlReturn_t create(nvmlDevice_t gpu, unsigned id, int wanted, nvmlGpuInstance_t *made)
{
	CHANGE(gpu);
	const struct cut *profile = by_id(gpu, id);
	int slices = (int)gpu->mig_memory, start = wanted >= 0 ? wanted : slices - 1;
	if (!mig->current || !profile)
		return ended(lock, NOT_SUPPORTED);
	if (start >= slices || (wanted >= 0 && !(profile->starts >> start & 1)))
		return ended(lock, INVALID_ARGUMENT);
	while (!fits(gpu, mig, profile, (unsigned)start)) {
		if (wanted >= 0 || start == 0)
			return ended(lock, INSUFFICIENT_RESOURCES);
		start--;
	}
	unsigned number = instance_id(gpu, (unsigned)start, profile->memory);
	memset(&mig->instances[number], 0, sizeof mig->instances[number]);
	mig->instances[number].used = 1;
	mig->instances[number].profile = id;
	mig->instances[number].start = (unsigned)start;
	mig->instances[number].size = profile->memory;
	*made = &instance_handles[slot][number];
	return saved(lock, now);
}

API nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t gpu, unsigned id, nvmlGpuInstance_t *made)
{
	return create(gpu, id, -1, made);
}

API nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t gpu, unsigned id,
							  const nvmlGpuInstancePlacement_t *place, nvmlGpuInstance_t *made)
{
	const struct cut *profile = by_id(gpu, id);
	if (!place || (profile && place->size != profile->memory))
		return INVALID_ARGUMENT;
	return create(gpu, id, (int)place->start, made);
}

static int instance_of(const struct state *now, nvmlGpuInstance_t handle, struct mig_place *place)
{
	size_t number;
	if (!within(handle, instance_handles[0], sizeof instance_handles, &number))
		return 0;
	*place = (struct mig_place){ (unsigned)(number / MIG_INSTANCES), (unsigned)(number % MIG_INSTANCES), 0 };
	return mig_now(now)[place->gpu].instances[place->instance].used;
}

#define INSTANCE(handle) \
	STATE(now); \
	struct mig_place place; \
	if (!instance_of(now, handle, &place)) \
		return INVALID_ARGUMENT

API nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t handle)
{
	INSTANCE(handle);
	LOCKED(place.gpu);
	for (unsigned p = 0; p < MIG_PARTS; p++)
		if (mig->instances[place.instance].parts[p].used)
			return ended(lock, IN_USE);
	if (processes_of(slot, place.instance, 0))
		return ended(lock, IN_USE);
	mig->instances[place.instance].used = 0;
	return saved(lock, now);
}

API nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t gpu, unsigned id, nvmlGpuInstance_t *found, unsigned *count)
{
	DEVICE(gpu);
	DIVIDED(gpu);
	unsigned slot = slot_of(now, gpu);
	const struct mig *mig = &mig_now(now)[slot];
	if (!by_id(gpu, id))
		return NOT_SUPPORTED;
	*count = 0;
	for (unsigned i = 0; i < MIG_INSTANCES; i++)
		if (mig->instances[i].used && mig->instances[i].profile == id)
			found[(*count)++] = &instance_handles[slot][i];
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t gpu, unsigned number, nvmlGpuInstance_t *found)
{
	DEVICE(gpu);
	DIVIDED(gpu);
	unsigned slot = slot_of(now, gpu);
	if (number >= MIG_INSTANCES || !mig_now(now)[slot].instances[number].used)
		return NOT_FOUND;
	*found = &instance_handles[slot][number];
	return SUCCESS;
}

API nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t *info)
{
	INSTANCE(handle);
	const struct instance *found = &mig_now(now)[place.gpu].instances[place.instance];
	*info = (nvmlGpuInstanceInfo_t){ &now->gpus[place.gpu], place.instance, found->profile,
					 { found->start, found->size } };
	return SUCCESS;
}

/* ---- compute instances ---- */

API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t handle, unsigned index, unsigned engines,
							      nvmlComputeInstanceProfileInfo_t *info)
{
	INSTANCE(handle);
	const struct cut *whole = by_id(&now->gpus[place.gpu], mig_now(now)[place.gpu].instances[place.instance].profile);
	if (index >= PART_PROFILES || engines || part_slices[index] > whole->compute)
		return NOT_SUPPORTED;
	*info = (nvmlComputeInstanceProfileInfo_t){
		.id = index, .sliceCount = part_slices[index], .instanceCount = whole->compute / part_slices[index],
		.multiprocessorCount = whole->units * part_slices[index] / whole->compute,
		.sharedCopyEngineCount = whole->compute, .sharedDecoderCount = whole->compute,
	};
	return SUCCESS;
}

API nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t handle, unsigned index, nvmlComputeInstance_t *made)
{
	INSTANCE(handle);
	LOCKED(place.gpu);
	struct instance *whole = &mig->instances[place.instance];
	unsigned used = 0, number = MIG_PARTS;
	if (index >= PART_PROFILES)
		return ended(lock, NOT_SUPPORTED);
	for (unsigned p = MIG_PARTS; p-- > 0;) {
		if (whole->parts[p].used)
			used += whole->parts[p].size;
		else
			number = p;
	}
	if (number == MIG_PARTS || used + part_slices[index] > by_id(&now->gpus[slot], whole->profile)->compute)
		return ended(lock, INSUFFICIENT_RESOURCES);
	whole->parts[number] = (struct part){ 1, index, used, part_slices[index] };
	*made = &part_handles[slot][place.instance][number];
	return saved(lock, now);
}

static int part_of(const struct state *now, nvmlComputeInstance_t handle, struct mig_place *place)
{
	size_t number;
	if (!within(handle, part_handles[0][0], sizeof part_handles, &number))
		return 0;
	return mig_device(now, device_handles[0][0] + number, place);
}

API nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t handle)
{
	STATE(now);
	struct mig_place place;
	if (!part_of(now, handle, &place))
		return INVALID_ARGUMENT;
	LOCKED(place.gpu);
	if (processes_of(slot, place.instance, 0))
		return ended(lock, IN_USE);
	mig->instances[place.instance].parts[place.part].used = 0;
	return saved(lock, now);
}

API nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t handle, unsigned index, nvmlComputeInstance_t *found,
						    unsigned *count)
{
	INSTANCE(handle);
	const struct instance *whole = &mig_now(now)[place.gpu].instances[place.instance];
	if (index >= PART_PROFILES)
		return NOT_SUPPORTED;
	*count = 0;
	for (unsigned p = 0; p < MIG_PARTS; p++)
		if (whole->parts[p].used && whole->parts[p].profile == index)
			found[(*count)++] = &part_handles[place.gpu][place.instance][p];
	return SUCCESS;
}

API nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t *info)
{
	STATE(now);
	struct mig_place place;
	if (!part_of(now, handle, &place))
		return INVALID_ARGUMENT;
	const struct part *found = &mig_now(now)[place.gpu].instances[place.instance].parts[place.part];
	*info = (nvmlComputeInstanceInfo_t){ &now->gpus[place.gpu], &instance_handles[place.gpu][place.instance],
					     place.part, found->profile, { found->start, found->size } };
	return SUCCESS;
}

/* ---- MIG devices ---- */

API nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is_mig)
{
	STATE(now);
	struct mig_place place;
	*is_mig = (unsigned)mig_device(now, device, &place);
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t gpu, unsigned *count)
{
	DEVICE(gpu);
	*count = mig_now(now)[slot_of(now, gpu)].current ? (unsigned)gpu->mig_compute : 0;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t gpu, unsigned index, nvmlDevice_t *device)
{
	DEVICE(gpu);
	unsigned slot = slot_of(now, gpu);
	const struct mig *mig = &mig_now(now)[slot];
	for (unsigned i = 0; i < MIG_INSTANCES; i++)
		for (unsigned p = 0; mig->instances[i].used && p < MIG_PARTS; p++)
			if (mig->instances[i].parts[p].used && index-- == 0) {
				*device = (nvmlDevice_t)(void *)&device_handles[slot][i][p];
				return SUCCESS;
			}
	return NOT_FOUND;
}

#define MIG_DEVICE(handle) \
	STATE(now); \
	struct mig_place place; \
	if (!mig_device(now, handle, &place)) \
		return INVALID_ARGUMENT

API nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *gpu)
{
	MIG_DEVICE(device);
	*gpu = &now->gpus[place.gpu];
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id)
{
	MIG_DEVICE(device);
	*id = place.instance;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *id)
{
	MIG_DEVICE(device);
	*id = place.part;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
	MIG_DEVICE(device);
	const struct gpu *gpu = &now->gpus[place.gpu];
	const struct instance *whole = &mig_now(now)[place.gpu].instances[place.instance];
	const struct cut *profile = by_id(gpu, whole->profile);
	unsigned slices = whole->parts[place.part].size;
	*attributes = (nvmlDeviceAttributes_t){
		.multiprocessorCount = profile->units * slices / profile->compute,
		.sharedCopyEngineCount = profile->compute, .sharedDecoderCount = profile->compute,
		.gpuInstanceSliceCount = profile->compute, .computeInstanceSliceCount = slices,
		.memorySizeMB = mig_memory(gpu, whole->size) / MIB,
	};
	return SUCCESS;
}

/* ---- processes ---- */

#define USED_MEMORY (512 * MIB)
#define MOST_PROCESSES 256

/* Those that compute on a GPU, or on the MIG device a handle stands for. */
static nvmlReturn_t running(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *into)
{
	STATE(now);
	struct mig_place place;
	struct process all[MOST_PROCESSES];
	int is_part = mig_device(now, device, &place);
	if (!is_part) {
		if (device < now->gpus || device >= now->gpus + MAX_GPUS)
			return INVALID_ARGUMENT;
		if (device->lost || device->off_bus)
			return GPU_IS_LOST;
		place.gpu = slot_of(now, device);
	}
	unsigned known = processes_now(all, MOST_PROCESSES), room = into ? *count : 0, found = 0;
	for (unsigned i = 0; i < known; i++) {
		const struct process *one = &all[i];
		if (one->gpu != place.gpu || one->is_client ||
		    (is_part && (one->instance != place.instance || one->part != place.part)))
			continue;
		if (found < room)
			into[found] = (nvmlProcessInfo_v2_t){ one->pid, USED_MEMORY, one->instance, one->part };
		found++;
	}
	*count = found;
	return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *into)
{
	return running(device, count, into);
}
ALIAS(nvmlDeviceGetComputeRunningProcesses_v3)
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t, unsigned *, nvmlProcessInfo_v2_t *);

API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *into)
{
	nvmlProcessInfo_v2_t all[MOST_PROCESSES];
	unsigned room = into ? *count : 0;
	*count = MOST_PROCESSES;
	nvmlReturn_t result = running(device, count, all);
	if (result != SUCCESS)
		return result;
	for (unsigned i = 0; i < *count && i < room; i++)
		into[i] = (nvmlProcessInfo_v1_t){ all[i].pid, all[i].usedGpuMemory };
	return *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}
