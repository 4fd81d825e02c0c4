/* Simulated: stands in for Pyxis in the virtual rack. Takes its two main options as Pyxis does, has the look-alike
 * enroot prepare the container, and tells the task of it; the task itself runs on the host. */
#define _GNU_SOURCE
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

SPANK_PLUGIN(pyxis, 1)

static char *image;
static char *mounts;

static int take(char **place, const char *said)
{
	if (said == NULL || *said == '\0') {
		slurm_error("pyxis (simulated): an option lacks its argument");
		return -1;
	}
	free(*place);
	*place = strdup(said);
	return 0;
}

static int take_image(int val, const char *said, int remote)
{
	return take(&image, said);
}

static int take_mounts(int val, const char *said, int remote)
{
	return take(&mounts, said);
}

struct spank_option spank_options[] = {
	{"container-image", "IMAGE", "[pyxis, simulated] image of the container", 1, 0, take_image},
	{"container-mounts", "SRC:DST", "[pyxis, simulated] what it sees of the host", 1, 0, take_mounts},
	SPANK_OPTIONS_TABLE_END
};

/* As the user alone, as Pyxis does: slurmstepd is root still by its real id, to which a shell returns. */
static int as_user(char *const argv[])
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		if (setregid(getegid(), getegid()) == 0 && setreuid(geteuid(), geteuid()) == 0)
			execvp(argv[0], argv);
		_exit(127);
	}
	return child < 0 || waitpid(child, &status, 0) < 0 ? -1 : status;
}

int slurm_spank_user_init(spank_t spank, int ac, char *argv[])
{
	if (image == NULL || !spank_remote(spank))
		return 0;
	char *const create[] = {"enroot", "create", "--name", image, NULL};
	int ended = as_user(create);
	if (ended != 0) {
		slurm_error("pyxis (simulated): enroot ended with %d", ended);
		return -1;
	}
	return 0;
}

int slurm_spank_task_init(spank_t spank, int ac, char *argv[])
{
	if (image == NULL || !spank_remote(spank))
		return 0;
	spank_setenv(spank, "SIMULATED_CONTAINER_IMAGE", image, 1);
	if (mounts != NULL)
		spank_setenv(spank, "SIMULATED_CONTAINER_MOUNTS", mounts, 1);
	return 0;
}
