/* What the simulated GPUs are at this moment, as the state file says. */
#ifndef LAB_STATE_H
#define LAB_STATE_H

#define MAX_GPUS 16
#define TEXT 96

#define MAX_CUTS 16

/*
 * A MIG profile. `index` is NVML's NVML_GPU_INSTANCE_PROFILE_* constant, `starts` a bit for each memory slice an instance
 * may begin at, `units` its multiprocessors, in proportion to its compute slices.
 */
struct cut { unsigned index, id, compute, memory, most, starts, units; char name[TEXT]; };

struct gpu {
	char name[TEXT], uuid[TEXT], serial[TEXT], vbios[TEXT], board_part[TEXT], pci[TEXT];
	unsigned long long pci_device_id, pci_subsystem_id, minor;
	unsigned long long architecture, compute_major, compute_minor, cores;
	unsigned long long memory_total, memory_used, memory_reserved;
	unsigned long long temperature, memory_temperature;
	unsigned long long temperature_shutdown, temperature_slowdown, temperature_most;
	unsigned long long power_mw, power_limit_mw, power_default_mw, power_least_mw;
	unsigned long long pcie_generation, pcie_generation_max, pcie_width, pcie_width_max;
	unsigned long long pcie_replays;
	unsigned long long nvlinks, nvlink_version, nvlink_speed, nvlink_remote;
	unsigned long long nvlinks_down, nvlink_errors;
	unsigned long long ecc, sram_exceeded;
	unsigned long long ecc_corrected_volatile, ecc_uncorrected_volatile;
	unsigned long long ecc_corrected_aggregate, ecc_uncorrected_aggregate;
	unsigned long long remapped_correctable, remapped_uncorrectable, remap_pending, remap_failed;
	unsigned long long persistence, throttle_reasons;
	unsigned long long sm_clock, sm_clock_max, memory_clock, pstate, utilization;
	unsigned long long lost, off_bus;
	/* How MIG divides it: 0 slices where it cannot be. */
	unsigned long long mig_compute, mig_memory;
	struct cut cuts[MAX_CUTS];
	unsigned cut_count;
	unsigned index;
};

struct state {
	char driver_version[TEXT], nvml_version[TEXT];
	/* The version of the driver that is loaded, whatever the state file claims. */
	char loaded_version[TEXT];
	unsigned long long cuda_version, count;
	struct gpu gpus[MAX_GPUS];
	/* A GPU that is off the bus is not counted, and those after it move up. */
	unsigned seen, order[MAX_GPUS];
};

/* The state, read again whenever a file was replaced; NULL where there are no GPUs or no driver is loaded. */
struct state *state_now(void);

/* Whether this library was made for the loaded driver; one that names no version of its own fits any. */
int library_fits(const struct state *now);

#endif
