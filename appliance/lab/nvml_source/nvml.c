/*
 * The public NVML interface over the simulated state. Names, numbers and record layouts are those of
 * NVIDIA's nvml.h (driver 535): a client cannot tell the difference, except by the state file.
 */
#include <stdio.h>
#include <string.h>

#include "api.h"
#include "mig.h"

typedef struct { u64 total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; u64 total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;
typedef struct { unsigned version; int margin; } nvmlMarginTemperature_v1_t;
typedef struct { unsigned version; u64 counts[11]; unsigned exceeded; } nvmlEccSramErrorStatus_v1_t;
typedef struct { unsigned max, high, partial, low, none; } nvmlRowRemapperHistogramValues_t;
typedef struct {
	char busIdLegacy[16];
	unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;
typedef struct {
	unsigned fieldId, scopeId;
	long long timestamp, latencyUsec;
	int valueType;
	nvmlReturn_t nvmlReturn;
	union { double d; unsigned ui; u64 ull; } value;
} nvmlFieldValue_t;

static int users;

int nvml_users(void)
{
	return users;
}

/* ---- library and system ---- */

API nvmlReturn_t nvmlInit_v2(void)
{
	const struct state *now = state_now();
	if (!now)
		return DRIVER_NOT_LOADED;
	if (!library_fits(now))
		return LIBRARY_MISMATCH;
	users++;
	return SUCCESS;
}
ALIAS(nvmlInit_v2) nvmlReturn_t nvmlInit(void);

API nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
	(void)flags;
	return nvmlInit_v2();
}

API nvmlReturn_t nvmlShutdown(void)
{
	if (!users)
		return UNINITIALIZED;
	users--;
	return SUCCESS;
}

API const char *nvmlErrorString(nvmlReturn_t result)
{
	static const char *const words[] = {
		"Success", "Uninitialized", "Invalid Argument", "Not Supported",
		"Insufficient Permissions", "Already Initialized", "Not Found",
		"Insufficient Size", "Insufficient External Power", "Driver Not Loaded",
		"Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found",
		"Function Not Found", "Corrupted infoROM", "GPU is lost", "GPU requires restart",
		"The operating system has blocked the request.",
		"Driver/library version mismatch", "In use by another client",
		"Insufficient Memory", "No data", "ECC is enabled", "Insufficient Resources",
	};
	if (result >= 0 && result < (int)(sizeof words / sizeof *words))
		return words[result];
	return "Unknown Error";
}

static nvmlReturn_t copy(char *into, unsigned room, const char *text)
{
	if (!into)
		return INVALID_ARGUMENT;
	if (strlen(text) >= room)
		return INSUFFICIENT_SIZE;
	strcpy(into, text);
	return SUCCESS;
}

API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	STATE(now);
	return copy(version, length, now->driver_version);
}

API nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
	STATE(now);
	return copy(version, length, now->nvml_version);
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	STATE(now);
	*version = (int)now->cuda_version;
	return SUCCESS;
}
ALIAS(nvmlSystemGetCudaDriverVersion) nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version);

/* ---- finding a device ---- */

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
	STATE(now);
	*count = now->seen;
	return SUCCESS;
}
ALIAS(nvmlDeviceGetCount_v2) nvmlReturn_t nvmlDeviceGetCount(unsigned *count);

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
	STATE(now);
	if (index >= now->seen || !device)
		return INVALID_ARGUMENT;
	*device = &now->gpus[now->order[index]];
	return (*device)->lost ? GPU_IS_LOST : SUCCESS;
}
ALIAS(nvmlDeviceGetHandleByIndex_v2)
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device);

static void fill_pci(const struct gpu *gpu, nvmlPciInfo_t *pci)
{
	memset(pci, 0, sizeof *pci);
	sscanf(gpu->pci, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
	pci->pciDeviceId = (unsigned)gpu->pci_device_id;
	pci->pciSubSystemId = (unsigned)gpu->pci_subsystem_id;
	snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0",
		 pci->domain & 0xffff, pci->bus & 0xff, pci->device & 0xff);
	snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0",
		 pci->domain, pci->bus & 0xff, pci->device & 0xff);
}

#define FIND_BY(suffix, matches) \
	API nvmlReturn_t nvmlDeviceGetHandleBy##suffix(const char *text, nvmlDevice_t *device) \
	{ \
		STATE(now); \
		for (unsigned i = 0; i < now->seen; i++) { \
			struct gpu *gpu = &now->gpus[now->order[i]]; \
			if (matches(gpu, text)) { \
				*device = gpu; \
				return gpu->lost ? GPU_IS_LOST : SUCCESS; \
			} \
		} \
		return NOT_FOUND; \
	}

static int has_uuid(const struct gpu *gpu, const char *text) { return !strcmp(gpu->uuid, text); }
static int has_serial(const struct gpu *gpu, const char *text) { return !strcmp(gpu->serial, text); }
static int has_pci(const struct gpu *gpu, const char *text)
{
	nvmlPciInfo_t pci;
	unsigned domain, bus, device;
	fill_pci(gpu, &pci);
	return sscanf(text, "%x:%x:%x", &domain, &bus, &device) == 3 && domain == pci.domain &&
	       bus == pci.bus && device == pci.device;
}

FIND_BY(UUID, has_uuid)
FIND_BY(Serial, has_serial)
FIND_BY(PciBusId_v2, has_pci)
ALIAS(nvmlDeviceGetHandleByPciBusId_v2)
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *text, nvmlDevice_t *device);

/* ---- what a device says of itself ---- */

#define SAY_TEXT(call, field) \
	API nvmlReturn_t nvmlDeviceGet##call(nvmlDevice_t gpu, char *text, unsigned length) \
	{ \
		DEVICE(gpu); \
		return copy(text, length, gpu->field); \
	}

#define SAY_NUMBER(call, type, expression) \
	API nvmlReturn_t nvmlDeviceGet##call(nvmlDevice_t gpu, type *value) \
	{ \
		DEVICE(gpu); \
		if (!value) \
			return INVALID_ARGUMENT; \
		*value = (type)(expression); \
		return SUCCESS; \
	}

#define SAY_PAIR(call, type, first_expression, second_expression) \
	API nvmlReturn_t nvmlDeviceGet##call(nvmlDevice_t gpu, type *first, type *second) \
	{ \
		DEVICE(gpu); \
		*first = (type)(first_expression); \
		*second = (type)(second_expression); \
		return SUCCESS; \
	}

API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned length)
{
	STATE(first);
	struct mig_place place;
	if (mig_device(first, device, &place)) {
		char profile[32], name[TEXT + 40];
		struct gpu *whole = &first->gpus[place.gpu];
		mig_name(whole, mig_now(first)[place.gpu].instances[place.instance].profile, profile, sizeof profile);
		snprintf(name, sizeof name, "%s MIG %s", whole->name, profile);
		return copy(text, length, name);
	}
	DEVICE(device);
	return copy(text, length, device->name);
}

API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned length)
{
	STATE(first);
	struct mig_place place;
	if (mig_device(first, device, &place)) {
		char uuid[TEXT];
		mig_uuid(first, place, uuid, sizeof uuid);
		return copy(text, length, uuid);
	}
	DEVICE(device);
	return copy(text, length, device->uuid);
}

SAY_TEXT(Serial, serial)
SAY_TEXT(VbiosVersion, vbios)
SAY_TEXT(BoardPartNumber, board_part)

SAY_NUMBER(Index, unsigned, gpu->index)
SAY_NUMBER(MinorNumber, unsigned, gpu->minor)
SAY_NUMBER(Brand, unsigned, 14)
SAY_NUMBER(Architecture, unsigned, gpu->architecture)
SAY_NUMBER(NumGpuCores, unsigned, gpu->cores)
SAY_NUMBER(ComputeMode, unsigned, 0)
SAY_NUMBER(PersistenceMode, unsigned, gpu->persistence)
SAY_NUMBER(PowerUsage, unsigned, gpu->power_mw)
SAY_NUMBER(EnforcedPowerLimit, unsigned, gpu->power_limit_mw)
SAY_NUMBER(PowerManagementLimit, unsigned, gpu->power_limit_mw)
SAY_NUMBER(PowerManagementDefaultLimit, unsigned, gpu->power_default_mw)
SAY_NUMBER(PerformanceState, unsigned, gpu->pstate)
SAY_NUMBER(CurrPcieLinkGeneration, unsigned, gpu->pcie_generation)
SAY_NUMBER(CurrPcieLinkWidth, unsigned, gpu->pcie_width)
SAY_NUMBER(MaxPcieLinkGeneration, unsigned, gpu->pcie_generation_max)
SAY_NUMBER(GpuMaxPcieLinkGeneration, unsigned, gpu->pcie_generation_max)
SAY_NUMBER(MaxPcieLinkWidth, unsigned, gpu->pcie_width_max)
SAY_NUMBER(PcieReplayCounter, unsigned, gpu->pcie_replays)
SAY_NUMBER(CurrentClocksEventReasons, u64, gpu->throttle_reasons)
SAY_NUMBER(CurrentClocksThrottleReasons, u64, gpu->throttle_reasons)
SAY_NUMBER(SupportedClocksEventReasons, u64, 0x1ff)
SAY_NUMBER(SupportedClocksThrottleReasons, u64, 0x1ff)
SAY_PAIR(EccMode, unsigned, gpu->ecc, gpu->ecc)
SAY_PAIR(CudaComputeCapability, int, gpu->compute_major, gpu->compute_minor)
SAY_PAIR(PowerManagementLimitConstraints, unsigned, gpu->power_least_mw, gpu->power_default_mw)

API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t gpu, nvmlPciInfo_t *pci)
{
	DEVICE(gpu);
	fill_pci(gpu, pci);
	return SUCCESS;
}
ALIAS(nvmlDeviceGetPciInfo_v3) nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t, nvmlPciInfo_t *);
ALIAS(nvmlDeviceGetPciInfo_v3) nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t, nvmlPciInfo_t *);

API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t gpu, nvmlMemory_t *memory)
{
	STATE(first);
	struct mig_place place;
	if (mig_device(first, gpu, &place)) {
		unsigned size = mig_now(first)[place.gpu].instances[place.instance].size;
		*memory = (nvmlMemory_t){ .total = mig_memory(&first->gpus[place.gpu], size) };
		memory->free = memory->total;
		return SUCCESS;
	}
	DEVICE(gpu);
	memory->total = gpu->memory_total;
	memory->used = gpu->memory_used + gpu->memory_reserved;
	memory->free = memory->total - memory->used;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t gpu, nvmlMemory_v2_t *memory)
{
	DEVICE(gpu);
	memory->total = gpu->memory_total;
	memory->reserved = gpu->memory_reserved;
	memory->used = gpu->memory_used;
	memory->free = memory->total - memory->reserved - memory->used;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t gpu, unsigned sensor, unsigned *degrees)
{
	DEVICE(gpu);
	if (sensor != 0)
		return INVALID_ARGUMENT;
	*degrees = (unsigned)gpu->temperature;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t gpu, unsigned kind, unsigned *degrees)
{
	DEVICE(gpu);
	const u64 thresholds[] = { gpu->temperature_shutdown, gpu->temperature_slowdown, 95,
				   gpu->temperature_most };
	if (kind >= sizeof thresholds / sizeof *thresholds)
		return NOT_SUPPORTED;
	*degrees = (unsigned)thresholds[kind];
	return SUCCESS;
}

/* From Hopper on: how far the GPU is below the point where it slows down. */
API nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t gpu, nvmlMarginTemperature_v1_t *margin)
{
	DEVICE(gpu);
	if (gpu->architecture < HOPPER)
		return NOT_SUPPORTED;
	if (margin->version != VERSIONED(*margin, 1))
		return VERSION_MISMATCH;
	margin->margin = (int)gpu->temperature_most - (int)gpu->temperature;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t gpu, nvmlUtilization_t *rates)
{
	DEVICE(gpu);
	if (mig_now(now)[gpu - now->gpus].current)
		return NOT_SUPPORTED;
	rates->gpu = (unsigned)gpu->utilization;
	rates->memory = (unsigned)gpu->utilization / 2;
	return SUCCESS;
}

static nvmlReturn_t clock_of(unsigned kind, u64 sm, u64 memory, unsigned *mhz)
{
	if (kind > 3)
		return INVALID_ARGUMENT;
	*mhz = (unsigned)(kind == 2 ? memory : sm);
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t gpu, unsigned kind, unsigned *mhz)
{
	DEVICE(gpu);
	return clock_of(kind, gpu->sm_clock, gpu->memory_clock, mhz);
}

API nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t gpu, unsigned kind, unsigned *mhz)
{
	DEVICE(gpu);
	return clock_of(kind, gpu->sm_clock_max, gpu->memory_clock, mhz);
}

static nvmlReturn_t ecc_of(const struct gpu *gpu, unsigned uncorrected, unsigned aggregate, u64 *count)
{
	if (!gpu->ecc)
		return NOT_SUPPORTED;
	if (uncorrected > 1 || aggregate > 1)
		return INVALID_ARGUMENT;
	if (aggregate)
		*count = uncorrected ? gpu->ecc_uncorrected_aggregate : gpu->ecc_corrected_aggregate;
	else
		*count = uncorrected ? gpu->ecc_uncorrected_volatile : gpu->ecc_corrected_volatile;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t gpu, unsigned type, unsigned counter, u64 *count)
{
	DEVICE(gpu);
	return ecc_of(gpu, type, counter, count);
}

/* Every error lies in device memory (location 2). */
API nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t gpu, unsigned type, unsigned counter,
						 unsigned location, u64 *count)
{
	DEVICE(gpu);
	nvmlReturn_t result = ecc_of(gpu, type, counter, count);
	if (result == SUCCESS && location != 2)
		*count = 0;
	return result;
}

API nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t gpu, nvmlEccSramErrorStatus_v1_t *status)
{
	DEVICE(gpu);
	if (!gpu->ecc)
		return NOT_SUPPORTED;
	if (status->version != VERSIONED(*status, 1))
		return VERSION_MISMATCH;
	memset(status->counts, 0, sizeof status->counts);
	status->exceeded = (unsigned)gpu->sram_exceeded;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t gpu, unsigned *correctable, unsigned *uncorrectable,
					   unsigned *pending, unsigned *failed)
{
	DEVICE(gpu);
	if (mig_is_divided(now, (unsigned)(gpu - now->gpus)))
		return NOT_SUPPORTED;
	*correctable = (unsigned)gpu->remapped_correctable;
	*uncorrectable = (unsigned)gpu->remapped_uncorrectable;
	*pending = (unsigned)gpu->remap_pending;
	*failed = (unsigned)gpu->remap_failed;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t gpu, nvmlRowRemapperHistogramValues_t *banks)
{
	DEVICE(gpu);
	unsigned spoilt = gpu->remap_failed ? 1 : 0;
	*banks = (nvmlRowRemapperHistogramValues_t){ 640 - spoilt, 0, 0, 0, spoilt };
	return SUCCESS;
}

/* Nothing draws here. */
API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t gpu, unsigned *count, void *processes)
{
	(void)processes;
	DEVICE(gpu);
	*count = 0;
	return SUCCESS;
}
ALIAS(nvmlDeviceGetGraphicsRunningProcesses_v3)
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t, unsigned *, void *);
ALIAS(nvmlDeviceGetGraphicsRunningProcesses_v3)
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t, unsigned *, void *);

/* ---- NVLink: the last nvlinks_down links are down; errors are on link 0 ---- */

#define LINK(gpu, link) \
	DEVICE(gpu); \
	if ((link) >= (gpu)->nvlinks) \
		return INVALID_ARGUMENT

API nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t gpu, unsigned link, unsigned *active)
{
	LINK(gpu, link);
	*active = link + gpu->nvlinks_down < gpu->nvlinks;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t gpu, unsigned link, unsigned *version)
{
	LINK(gpu, link);
	*version = (unsigned)gpu->nvlink_version;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t gpu, unsigned link, unsigned *type)
{
	LINK(gpu, link);
	*type = (unsigned)gpu->nvlink_remote;
	return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t gpu, unsigned link, unsigned counter, u64 *value)
{
	LINK(gpu, link);
	if (counter > 4)
		return INVALID_ARGUMENT;
	*value = link == 0 && counter == 1 ? gpu->nvlink_errors : 0;
	return SUCCESS;
}

/* ---- fields: the memory's temperature (82), the links' MB/s (90, 164) and their count (91) ---- */

API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t gpu, int count, nvmlFieldValue_t *values)
{
	DEVICE(gpu);
	for (int i = 0; i < count; i++) {
		values[i].valueType = 1;
		values[i].nvmlReturn = SUCCESS;
		if (values[i].fieldId == 82)
			values[i].value.ui = (unsigned)gpu->memory_temperature;
		else if ((values[i].fieldId == 90 || values[i].fieldId == 164) && gpu->nvlinks)
			values[i].value.ui = (unsigned)gpu->nvlink_speed;
		else if (values[i].fieldId == 91)
			values[i].value.ui = (unsigned)gpu->nvlinks;
		else
			values[i].nvmlReturn = NOT_SUPPORTED;
	}
	return SUCCESS;
}
