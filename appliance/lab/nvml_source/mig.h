/* How each simulated GPU is divided: kept in files, so that every process of the host sees the same. */
#ifndef LAB_MIG_H
#define LAB_MIG_H

#include "api.h"

#define MIG_INSTANCES 15
#define MIG_PARTS 8
#define NO_INSTANCE 0xffffffffu

/* A compute instance: `size` of the compute slices of its GPU instance, from `start`. */
struct part { unsigned used, profile, start, size; };
/* A GPU instance: `size` memory slices from `start`; `profile` is the id nvidia-smi shows. */
struct instance { unsigned used, profile, start, size; struct part parts[MIG_PARTS]; };
struct mig { unsigned current, pending; struct instance instances[MIG_INSTANCES]; };

/* Where a handle leads. */
struct mig_place { unsigned gpu, instance, part; };

/* What is known of all GPUs at this moment; changes of it count after mig_save. */
struct mig *mig_now(const struct state *now);
/* One change at a time on this host: a lock, or -1 for who may not change anything. */
int mig_lock(void);
int mig_save(const struct state *now);
void mig_unlock(int lock);

int mig_is_divided(const struct state *now, unsigned gpu);
/* Whether a handle is a MIG device that is still there; `place` says which. */
int mig_device(const struct state *now, const void *handle, struct mig_place *place);
void mig_uuid(const struct state *now, struct mig_place place, char *text, unsigned length);
/* "1g.10gb", with the extra engine's sign; "" for a profile this GPU does not have. */
void mig_name(const struct gpu *gpu, unsigned profile, char *text, unsigned length);
u64 mig_memory(const struct gpu *gpu, unsigned size);

struct process { unsigned gpu, pid, instance, part, is_client; };
/* Programs that live and use a GPU, those of the file gpu.processes; returns how many. */
unsigned processes_now(struct process *found, unsigned room);
unsigned processes_of(unsigned gpu, unsigned instance, int clients_too);

#endif
