/* What the simulated GPUs are at this moment, as the state file says. */
#ifndef LAB_STATE_H
#define LAB_STATE_H

#define MAX_GPUS 16
#define TEXT 96

struct gpu {
	char name[TEXT], uuid[TEXT], serial[TEXT], vbios[TEXT], board_part[TEXT], pci[TEXT];
	unsigned long long pci_device_id, pci_subsystem_id, minor;
	unsigned long long memory_total, memory_used, memory_reserved;
	unsigned long long temperature, memory_temperature, power_mw, power_limit_mw;
	unsigned long long pcie_generation, pcie_generation_max, pcie_width, pcie_width_max;
	unsigned long long pcie_replays;
	unsigned long long nvlinks, nvlink_version, nvlinks_down, nvlink_errors;
	unsigned long long ecc;
	unsigned long long ecc_corrected_volatile, ecc_uncorrected_volatile;
	unsigned long long ecc_corrected_aggregate, ecc_uncorrected_aggregate;
	unsigned long long remapped_correctable, remapped_uncorrectable, remap_pending, remap_failed;
	unsigned long long mig, mig_pending, persistence, throttle_reasons;
	unsigned long long sm_clock, sm_clock_max, memory_clock, utilization;
	unsigned long long lost;
	unsigned index;
};

struct state {
	char driver_version[TEXT], nvml_version[TEXT];
	unsigned long long cuda_version, count;
	struct gpu gpus[MAX_GPUS];
};

/* The state, read again whenever the file was replaced; NULL where there is none. */
struct state *state_now(void);

#endif
