/*
 * Reads what the driver's load left and the state file: lines of section.key=value, sections "system" and "gpu0" to
 * "gpu15". Without a loaded driver there is nothing to tell; what the state file says of the driver comes before it.
 */
#include "state.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_FILE "/var/lib/appliance-lab/gpu.state"
#define DEFAULT_DRIVER "/var/lib/appliance-lab/driver.state"

struct field {
	const char *key;
	size_t offset;
	int is_text;
};

#define WORD(type, key) { #key, offsetof(struct type, key), 1 }
#define NUMBER(type, key) { #key, offsetof(struct type, key), 0 }

static const struct field system_fields[] = {
	WORD(state, driver_version), WORD(state, nvml_version),
	NUMBER(state, cuda_version), NUMBER(state, count), { 0, 0, 0 },
};

static const struct field gpu_fields[] = {
	WORD(gpu, name), WORD(gpu, uuid), WORD(gpu, serial), WORD(gpu, vbios),
	WORD(gpu, board_part), WORD(gpu, pci),
	NUMBER(gpu, pci_device_id), NUMBER(gpu, pci_subsystem_id), NUMBER(gpu, minor),
	NUMBER(gpu, architecture), NUMBER(gpu, compute_major), NUMBER(gpu, compute_minor),
	NUMBER(gpu, cores),
	NUMBER(gpu, memory_total), NUMBER(gpu, memory_used), NUMBER(gpu, memory_reserved),
	NUMBER(gpu, temperature), NUMBER(gpu, memory_temperature),
	NUMBER(gpu, temperature_shutdown), NUMBER(gpu, temperature_slowdown),
	NUMBER(gpu, temperature_most),
	NUMBER(gpu, power_mw), NUMBER(gpu, power_limit_mw),
	NUMBER(gpu, power_default_mw), NUMBER(gpu, power_least_mw),
	NUMBER(gpu, pcie_generation), NUMBER(gpu, pcie_generation_max),
	NUMBER(gpu, pcie_width), NUMBER(gpu, pcie_width_max), NUMBER(gpu, pcie_replays),
	NUMBER(gpu, nvlinks), NUMBER(gpu, nvlink_version), NUMBER(gpu, nvlink_speed),
	NUMBER(gpu, nvlink_remote),
	NUMBER(gpu, nvlinks_down), NUMBER(gpu, nvlink_errors), NUMBER(gpu, ecc),
	NUMBER(gpu, ecc_corrected_volatile), NUMBER(gpu, ecc_uncorrected_volatile),
	NUMBER(gpu, ecc_corrected_aggregate), NUMBER(gpu, ecc_uncorrected_aggregate),
	NUMBER(gpu, remapped_correctable), NUMBER(gpu, remapped_uncorrectable),
	NUMBER(gpu, remap_pending), NUMBER(gpu, remap_failed), NUMBER(gpu, sram_exceeded),
	NUMBER(gpu, persistence),
	NUMBER(gpu, throttle_reasons), NUMBER(gpu, sm_clock), NUMBER(gpu, sm_clock_max),
	NUMBER(gpu, memory_clock), NUMBER(gpu, pstate), NUMBER(gpu, utilization),
	NUMBER(gpu, lost), NUMBER(gpu, off_bus),
	NUMBER(gpu, mig_compute), NUMBER(gpu, mig_memory), { 0, 0, 0 },
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct state current;
static struct stat seen, seen_driver;
static int loaded;

static void set(void *record, const struct field *fields, const char *key, const char *value)
{
	for (; fields->key; fields++) {
		if (strcmp(fields->key, key) != 0)
			continue;
		char *place = (char *)record + fields->offset;
		if (fields->is_text)
			snprintf(place, TEXT, "%s", value);
		else
			*(unsigned long long *)place = strtoull(value, NULL, 10);
	}
}

/* "index id compute memory most starts units name" of a profile. */
static void add_cut(struct gpu *gpu, const char *value)
{
	struct cut cut;
	if (gpu->cut_count < MAX_CUTS &&
	    sscanf(value, "%u %u %u %u %u %u %u %95s", &cut.index, &cut.id, &cut.compute, &cut.memory, &cut.most,
		   &cut.starts, &cut.units, cut.name) == 8)
		gpu->cuts[gpu->cut_count++] = cut;
}

static void take(struct state *into, char *line)
{
	line[strcspn(line, "\r\n")] = 0;
	char *key = strchr(line, '.'), *value = strchr(line, '=');
	if (!key || !value || key > value)
		return;
	*key++ = 0;
	*value++ = 0;
	unsigned index;
	if (strcmp(line, "system") == 0)
		set(into, system_fields, key, value);
	else if (sscanf(line, "gpu%u", &index) != 1 || index >= MAX_GPUS)
		return;
	else if (strncmp(key, "mig_profile", strlen("mig_profile")) == 0)
		add_cut(&into->gpus[index], value);
	else
		set(&into->gpus[index], gpu_fields, key, value);
}

static void add(struct state *into, const char *file)
{
	char line[512];
	FILE *stream = fopen(file, "re");
	if (!stream)
		return;
	while (fgets(line, sizeof line, stream))
		take(into, line);
	fclose(stream);
}

static void load(const char *file, const char *driver)
{
	static struct state fresh;
	memset(&fresh, 0, sizeof fresh);
	add(&fresh, driver);
	memcpy(fresh.loaded_version, fresh.driver_version, sizeof fresh.loaded_version);
	add(&fresh, file);
	loaded = fresh.driver_version[0] != 0;
	if (fresh.count > MAX_GPUS)
		fresh.count = MAX_GPUS;
	for (unsigned slot = 0; slot < fresh.count; slot++) {
		if (fresh.gpus[slot].off_bus)
			continue;
		fresh.gpus[slot].index = fresh.seen;
		fresh.order[fresh.seen++] = slot;
	}
	current = fresh;
}

/* Whether a file was replaced since it was last looked at; one that is not there looks the same each time. */
static int replaced(const char *file, struct stat *before)
{
	struct stat now;
	if (stat(file, &now) != 0)
		memset(&now, 0, sizeof now);
	int other = now.st_ino != before->st_ino || now.st_size != before->st_size ||
		    now.st_mtim.tv_sec != before->st_mtim.tv_sec ||
		    now.st_mtim.tv_nsec != before->st_mtim.tv_nsec;
	*before = now;
	return other;
}

struct state *state_now(void)
{
	static int looked;
	const char *file = getenv("APPLIANCE_LAB_GPU_STATE");
	const char *driver = getenv("APPLIANCE_LAB_DRIVER_STATE");
	if (!file)
		file = DEFAULT_FILE;
	if (!driver)
		driver = DEFAULT_DRIVER;
	pthread_mutex_lock(&lock);
	int news = replaced(file, &seen);
	news |= replaced(driver, &seen_driver);
	if (news || !looked)
		load(file, driver);
	looked = 1;
	pthread_mutex_unlock(&lock);
	return loaded && seen.st_ino ? &current : NULL;
}
