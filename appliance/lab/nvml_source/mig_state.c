/*
 * MIG modes and instances in files. As on the real parts: instances are gone after a reboot (the file lies in /run),
 * A100 keeps its mode (a file beside the state), Hopper forgets it.
 */
#define _DEFAULT_SOURCE
#include "mig.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define DEFAULT_RUN "/run/appliance-lab"
#define DEFAULT_STATE "/var/lib/appliance-lab/gpu.state"
#define PATH 512
/* Of the range for local use; the real one is given out by the kernel. */
#define CAPS_MAJOR 240

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct mig known[MAX_GPUS];
static struct stat seen[2];
static int is_known;

static const char *run_folder(void)
{
	const char *folder = getenv("APPLIANCE_LAB_GPU_RUN");
	return folder ? folder : DEFAULT_RUN;
}

static void in_run(char *path, const char *name)
{
	snprintf(path, PATH, "%s/%s", run_folder(), name);
}

static void kept_modes(char *path)
{
	const char *state = getenv("APPLIANCE_LAB_GPU_STATE");
	snprintf(path, PATH, "%s.mig", state ? state : DEFAULT_STATE);
}

static void read_modes(void)
{
	char path[PATH];
	unsigned gpu, mode;
	kept_modes(path);
	FILE *stream = fopen(path, "re");
	if (!stream)
		return;
	while (fscanf(stream, "%u %u", &gpu, &mode) == 2)
		if (gpu < MAX_GPUS)
			known[gpu].current = known[gpu].pending = mode;
	fclose(stream);
}

static void take(const char *line)
{
	unsigned gpu, a, b, c, d, e;
	if (sscanf(line, "mode %u %u %u", &gpu, &a, &b) == 3 && gpu < MAX_GPUS) {
		known[gpu].current = a;
		known[gpu].pending = b;
	} else if (sscanf(line, "instance %u %u %u %u %u", &gpu, &a, &b, &c, &d) == 5 &&
		   gpu < MAX_GPUS && a < MIG_INSTANCES) {
		struct instance *found = &known[gpu].instances[a];
		found->used = 1;
		found->profile = b;
		found->start = c;
		found->size = d;
	} else if (sscanf(line, "part %u %u %u %u %u %u", &gpu, &a, &b, &c, &d, &e) == 6 &&
		   gpu < MAX_GPUS && a < MIG_INSTANCES && b < MIG_PARTS) {
		known[gpu].instances[a].parts[b] = (struct part){ 1, c, d, e };
	}
}

/* Whether a file is not what it was when it was last read. */
static int differs(const char *path, struct stat *before)
{
	struct stat found;
	if (stat(path, &found) != 0)
		memset(&found, 0, sizeof found);
	int same = found.st_ino == before->st_ino && found.st_size == before->st_size &&
		   found.st_mtim.tv_sec == before->st_mtim.tv_sec && found.st_mtim.tv_nsec == before->st_mtim.tv_nsec;
	*before = found;
	return !same;
}

static void read_all(const char *path)
{
	char line[128];
	memset(known, 0, sizeof known);
	read_modes();
	FILE *stream = fopen(path, "re");
	if (stream) {
		while (fgets(line, sizeof line, stream))
			take(line);
		fclose(stream);
	}
}

struct mig *mig_now(const struct state *now)
{
	char instances[PATH], modes[PATH];
	(void)now;
	pthread_mutex_lock(&guard);
	in_run(instances, "mig.state");
	kept_modes(modes);
	int changed = differs(instances, &seen[0]) | differs(modes, &seen[1]);
	if (changed || !is_known)
		read_all(instances);
	is_known = 1;
	pthread_mutex_unlock(&guard);
	return known;
}

int mig_lock(void)
{
	char path[PATH];
	if (geteuid() != 0 && !getenv("APPLIANCE_LAB_GPU_RUN"))
		return -1;
	mkdir(run_folder(), 0755);
	in_run(path, "mig.lock");
	int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock >= 0)
		flock(lock, LOCK_EX);
	/* A change that could not be written must not be taken for the truth. */
	is_known = 0;
	return lock;
}

void mig_unlock(int lock)
{
	close(lock);
}

/* As the driver numbers them: 9 for each of 15 GPU instances of a GPU, after 3 for all. */
static void node_of(char *path, const struct gpu *gpu, unsigned instance, int part)
{
	unsigned minor = 3 + 135 * (unsigned)gpu->minor + 9 * instance + (unsigned)(part + 1);
	snprintf(path, PATH, "/dev/nvidia-caps/nvidia-cap%u", minor);
}

static void settle_node(const struct gpu *gpu, unsigned instance, int part, unsigned wanted)
{
	char path[PATH];
	node_of(path, gpu, instance, part);
	if (!wanted)
		unlink(path);
	else if (access(path, F_OK) != 0)
		mknod(path, S_IFCHR | 0666, makedev(CAPS_MAJOR, (unsigned)strtoul(strrchr(path, 'p') + 1, NULL, 10)));
}

static void settle_nodes(const struct state *now, unsigned gpu)
{
	if (getenv("APPLIANCE_LAB_GPU_RUN"))
		return;
	mkdir("/dev/nvidia-caps", 0755);
	for (unsigned i = 0; i < MIG_INSTANCES; i++) {
		const struct instance *each = &known[gpu].instances[i];
		settle_node(&now->gpus[gpu], i, -1, each->used);
		for (int p = 0; p < MIG_PARTS; p++)
			settle_node(&now->gpus[gpu], i, p, each->used && each->parts[p].used);
	}
}

static void write_gpu(FILE *stream, unsigned gpu)
{
	const struct mig *mig = &known[gpu];
	fprintf(stream, "mode %u %u %u\n", gpu, mig->current, mig->pending);
	for (unsigned i = 0; i < MIG_INSTANCES; i++) {
		const struct instance *each = &mig->instances[i];
		if (!each->used)
			continue;
		fprintf(stream, "instance %u %u %u %u %u\n", gpu, i, each->profile, each->start, each->size);
		for (unsigned p = 0; p < MIG_PARTS; p++)
			if (each->parts[p].used)
				fprintf(stream, "part %u %u %u %u %u %u\n", gpu, i, p, each->parts[p].profile,
					each->parts[p].start, each->parts[p].size);
	}
}

/* Whole or not at all, so that no reader sees half of it. */
static int replace(const char *path, const struct state *now, int modes_only)
{
	char fresh[PATH + 8];
	snprintf(fresh, sizeof fresh, "%s.new", path);
	FILE *stream = fopen(fresh, "we");
	if (!stream)
		return 0;
	for (unsigned gpu = 0; gpu < now->count; gpu++) {
		if (!modes_only)
			write_gpu(stream, gpu);
		else if (now->gpus[gpu].architecture == AMPERE)
			fprintf(stream, "%u %u\n", gpu, known[gpu].pending);
	}
	return fclose(stream) == 0 && rename(fresh, path) == 0;
}

int mig_save(const struct state *now)
{
	char volatile_file[PATH], modes[PATH];
	in_run(volatile_file, "mig.state");
	kept_modes(modes);
	for (unsigned gpu = 0; gpu < now->count; gpu++)
		settle_nodes(now, gpu);
	return replace(modes, now, 1) && replace(volatile_file, now, 0);
}

/* Lines "GPU PID", "GPU PID INSTANCE [PART]" for a program that computes, "GPU PID client" for one that only watches. */
unsigned processes_now(struct process *found, unsigned room)
{
	char path[PATH], line[128], word[16];
	unsigned count = 0;
	in_run(path, "gpu.processes");
	FILE *stream = fopen(path, "re");
	if (!stream)
		return 0;
	while (count < room && fgets(line, sizeof line, stream)) {
		struct process one = { 0, 0, NO_INSTANCE, NO_INSTANCE, 0 };
		int fields = sscanf(line, "%u %u %u %u", &one.gpu, &one.pid, &one.instance, &one.part);
		if (fields < 2 || (kill((pid_t)one.pid, 0) != 0 && errno == ESRCH))
			continue;
		if (fields == 3)
			one.part = 0;
		one.is_client = sscanf(line, "%*u %*u %15s", word) == 1 && strcmp(word, "client") == 0;
		found[count++] = one;
	}
	fclose(stream);
	return count;
}

unsigned processes_of(unsigned gpu, unsigned instance, int clients_too)
{
	struct process all[256];
	unsigned count = 0, known_ones = processes_now(all, 256);
	for (unsigned i = 0; i < known_ones; i++)
		count += all[i].gpu == gpu && (instance == NO_INSTANCE || all[i].instance == instance) &&
			 (clients_too || !all[i].is_client);
	return count;
}
