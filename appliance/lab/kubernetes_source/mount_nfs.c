/*
 * mount.nfs for hosts that share a kernel without an NFS client: mounts an export by FUSE and speaks NFS version 3 to its
 * server through libnfs, whatever version the options ask for. Each call is made in its caller's name; of the
 * caller's groups only the first is told, and file locks hold on this host alone.
 */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <nfsc/libnfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define FAILED 32 /* mount(8): the mount failed */
#define USAGE 1
#define PATIENCE_MS 60000
#define PAUSE_US 100000

static struct nfs_context *server;

/* libnfs asks a server that refuses again at once, for as long as it refuses. */
int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol)
{
	static int asked;

	if (asked++)
		usleep(PAUSE_US);
	return __real_socket(domain, type, protocol);
}

static struct nfs_context *as_caller(void)
{
	struct fuse_context *caller = fuse_get_context();

	nfs_set_uid(server, (int)caller->uid);
	nfs_set_gid(server, (int)caller->gid);
	return server;
}

static struct nfsfh *handle(const struct fuse_file_info *file)
{
	return (struct nfsfh *)(uintptr_t)file->fh;
}

static void copy(const struct nfs_stat_64 *from, struct stat *to)
{
	memset(to, 0, sizeof(*to));
	to->st_ino = from->nfs_ino;
	to->st_mode = from->nfs_mode;
	to->st_nlink = from->nfs_nlink;
	to->st_uid = from->nfs_uid;
	to->st_gid = from->nfs_gid;
	to->st_rdev = from->nfs_rdev;
	to->st_size = (off_t)from->nfs_size;
	to->st_blksize = (blksize_t)from->nfs_blksize;
	to->st_blocks = (blkcnt_t)from->nfs_blocks;
	to->st_atim = (struct timespec){(time_t)from->nfs_atime, (long)from->nfs_atime_nsec};
	to->st_mtim = (struct timespec){(time_t)from->nfs_mtime, (long)from->nfs_mtime_nsec};
	to->st_ctim = (struct timespec){(time_t)from->nfs_ctime, (long)from->nfs_ctime_nsec};
}

static void *on_init(struct fuse_conn_info *kernel, struct fuse_config *config)
{
	(void)kernel;
	config->use_ino = 1;
	return NULL;
}

static int on_getattr(const char *path, struct stat *found, struct fuse_file_info *file)
{
	struct nfs_stat_64 told;
	int result = file ? nfs_fstat64(as_caller(), handle(file), &told)
			  : nfs_lstat64(as_caller(), path, &told);

	if (result == 0)
		copy(&told, found);
	return result;
}

static int on_access(const char *path, int mode)
{
	return nfs_access(as_caller(), path, mode);
}

static int on_readdir(const char *path, void *list, fuse_fill_dir_t add, off_t offset,
		      struct fuse_file_info *file, enum fuse_readdir_flags flags)
{
	struct nfsdir *folder;
	struct nfsdirent *entry;
	int result = nfs_opendir(as_caller(), path, &folder);

	(void)offset, (void)file, (void)flags;
	if (result)
		return result;
	while ((entry = nfs_readdir(server, folder)))
		add(list, entry->name, NULL, 0, 0);
	nfs_closedir(server, folder);
	return 0;
}

static int on_open(const char *path, struct fuse_file_info *file)
{
	struct nfsfh *opened;
	/* Where to append is the kernel's to say: it gives every write its offset. */
	int flags = file->flags & (O_ACCMODE | O_TRUNC | O_SYNC);
	int result = nfs_open(as_caller(), path, flags, &opened);

	if (result == 0)
		file->fh = (uintptr_t)opened;
	return result;
}

static int on_create(const char *path, mode_t mode, struct fuse_file_info *file)
{
	struct nfsfh *opened;
	int flags = file->flags & (O_ACCMODE | O_EXCL | O_TRUNC | O_SYNC);
	int result = nfs_create(as_caller(), path, flags, (int)mode, &opened);

	if (result == 0)
		file->fh = (uintptr_t)opened;
	return result;
}

static int on_read(const char *path, char *into, size_t size, off_t offset, struct fuse_file_info *file)
{
	(void)path;
	return nfs_pread(as_caller(), handle(file), (uint64_t)offset, size, into);
}

static int on_write(const char *path, const char *from, size_t size, off_t offset, struct fuse_file_info *file)
{
	(void)path;
	return nfs_pwrite(as_caller(), handle(file), (uint64_t)offset, size, from);
}

static int on_fsync(const char *path, int data_only, struct fuse_file_info *file)
{
	(void)path, (void)data_only;
	return nfs_fsync(as_caller(), handle(file));
}

static int on_release(const char *path, struct fuse_file_info *file)
{
	(void)path;
	return nfs_close(as_caller(), handle(file));
}

static int on_truncate(const char *path, off_t size, struct fuse_file_info *file)
{
	return file ? nfs_ftruncate(as_caller(), handle(file), (uint64_t)size)
		    : nfs_truncate(as_caller(), path, (uint64_t)size);
}

static int on_mknod(const char *path, mode_t mode, dev_t device)
{
	return nfs_mknod(as_caller(), path, (int)mode, (int)device);
}

static int on_mkdir(const char *path, mode_t mode)
{
	return nfs_mkdir2(as_caller(), path, (int)mode);
}

static int on_rmdir(const char *path)
{
	return nfs_rmdir(as_caller(), path);
}

static int on_unlink(const char *path)
{
	return nfs_unlink(as_caller(), path);
}

static int on_symlink(const char *target, const char *path)
{
	return nfs_symlink(as_caller(), target, path);
}

static int on_readlink(const char *path, char *into, size_t size)
{
	int result = nfs_readlink(as_caller(), path, into, (int)size);

	return result < 0 ? result : 0;
}

static int on_link(const char *from, const char *to)
{
	return nfs_link(as_caller(), from, to);
}

static int on_rename(const char *from, const char *to, unsigned int flags)
{
	return flags ? -EINVAL : nfs_rename(as_caller(), from, to);
}

static int on_chmod(const char *path, mode_t mode, struct fuse_file_info *file)
{
	(void)file;
	return nfs_chmod(as_caller(), path, (int)mode);
}

static int on_chown(const char *path, uid_t owner, gid_t group, struct fuse_file_info *file)
{
	struct stat now;
	int result = on_getattr(path, &now, file);

	if (result)
		return result;
	return nfs_lchown(server, path, (int)(owner == (uid_t)-1 ? now.st_uid : owner),
			  (int)(group == (gid_t)-1 ? now.st_gid : group));
}

static struct timeval wanted(const struct timespec *asked, const struct timespec *stands)
{
	struct timeval moment;

	if (asked->tv_nsec == UTIME_NOW)
		gettimeofday(&moment, NULL);
	else if (asked->tv_nsec == UTIME_OMIT)
		moment = (struct timeval){stands->tv_sec, stands->tv_nsec / 1000};
	else
		moment = (struct timeval){asked->tv_sec, asked->tv_nsec / 1000};
	return moment;
}

static int on_utimens(const char *path, const struct timespec asked[2], struct fuse_file_info *file)
{
	struct stat now;
	struct timeval times[2];
	int result = on_getattr(path, &now, file);

	if (result)
		return result;
	times[0] = wanted(&asked[0], &now.st_atim);
	times[1] = wanted(&asked[1], &now.st_mtim);
	return nfs_lutimes(server, path, times);
}

static int on_statfs(const char *path, struct statvfs *found)
{
	struct nfs_statvfs_64 told;
	int result = nfs_statvfs64(as_caller(), path, &told);

	if (result)
		return result;
	memset(found, 0, sizeof(*found));
	found->f_bsize = told.f_bsize;
	found->f_frsize = told.f_frsize;
	found->f_blocks = told.f_blocks;
	found->f_bfree = told.f_bfree;
	found->f_bavail = told.f_bavail;
	found->f_files = told.f_files;
	found->f_ffree = told.f_ffree;
	found->f_favail = told.f_favail;
	found->f_namemax = told.f_namemax;
	return 0;
}

static const struct fuse_operations operations = {
	.init = on_init,
	.getattr = on_getattr,
	.access = on_access,
	.readdir = on_readdir,
	.open = on_open,
	.create = on_create,
	.read = on_read,
	.write = on_write,
	.fsync = on_fsync,
	.release = on_release,
	.truncate = on_truncate,
	.mknod = on_mknod,
	.mkdir = on_mkdir,
	.rmdir = on_rmdir,
	.unlink = on_unlink,
	.symlink = on_symlink,
	.readlink = on_readlink,
	.link = on_link,
	.rename = on_rename,
	.chmod = on_chmod,
	.chown = on_chown,
	.utimens = on_utimens,
	.statfs = on_statfs,
};

static int has(const char *options, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = options; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
		if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0'))
			return 1;
	return 0;
}

/* The export's mount is checked before anybody waits for it. */
static int reach(const char *source)
{
	const char *path = strstr(source, ":/");
	char *name;
	int result;

	if (path == NULL) {
		fprintf(stderr, "mount.nfs: %s is not SERVER:/PATH\n", source);
		return USAGE;
	}
	name = strndup(source, (size_t)(path - source));
	server = nfs_init_context();
	if (name == NULL || server == NULL) {
		fprintf(stderr, "mount.nfs: out of memory\n");
		return FAILED;
	}
	nfs_set_version(server, 3);
	nfs_set_timeout(server, PATIENCE_MS);
	/* Other hosts change folders too, and the caller's umask has been applied already. */
	nfs_set_dircache(server, 0);
	nfs_umask(server, 0);
	result = nfs_mount(server, name, path + 1);
	if (result)
		fprintf(stderr, "mount.nfs: %s: %s\n", source, nfs_get_error(server));
	free(name);
	return result ? FAILED : 0;
}

static int serve(const char *source, const char *target, int read_only)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse *file_system = NULL;
	char *options;
	int result = FAILED;

	if (asprintf(&options, "allow_other,subtype=nfs,fsname=%s%s", source, read_only ? ",ro" : "") < 0)
		return FAILED;
	if (fuse_opt_add_arg(&args, "mount.nfs") == 0 && fuse_opt_add_arg(&args, "-o") == 0 &&
	    fuse_opt_add_arg(&args, options) == 0)
		file_system = fuse_new(&args, &operations, sizeof(operations), NULL);
	if (file_system && fuse_mount(file_system, target) == 0) {
		if (fuse_daemonize(0) == 0 && fuse_set_signal_handlers(fuse_get_session(file_system)) == 0)
			result = fuse_loop(file_system) < 0 ? FAILED : 0;
		fuse_unmount(file_system);
	}
	return result;
}

int main(int count, char **words)
{
	const char *options = "";
	int read_only = 0, letter, result;

	while ((letter = getopt(count, words, "sfnvrwN:t:o:")) != -1) {
		if (letter == '?')
			return USAGE;
		if (letter == 'o')
			options = optarg;
		read_only |= letter == 'r';
	}
	if (count - optind != 2) {
		fprintf(stderr, "usage: mount.nfs SERVER:/PATH TARGET [-o OPTIONS]\n");
		return USAGE;
	}
	result = reach(words[optind]);
	if (result)
		return result;
	return serve(words[optind], words[optind + 1], read_only || has(options, "ro"));
}
