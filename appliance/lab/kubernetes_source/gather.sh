#!/bin/sh
# Downloads the packages of the roles to the archives in /out/packages, and installs what images hold of Debian.
# Runs in a Debian 12 tree of its own, before trees.sh. Arguments: the packages.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq --yes --download-only --no-install-recommends install "$@" >/dev/null
mkdir -p /out/packages
cp /var/cache/apt/archives/*.deb /out/packages/ 2>/dev/null || true

# What the rack's device plugin is written with, beside the hosts' own packages.
mkdir -p /out/grpc/partial /out/libraries
apt-get -qq --yes --download-only --no-install-recommends -o Dir::Cache::archives=/out/grpc install python3-grpcio >/dev/null
for archive in /out/grpc/*.deb; do dpkg-deb --extract "$archive" /out/libraries; done
rm -rf /out/libraries/usr/share

# With its two libraries inside, so that hosts need none of their own.
apt-get -qq --yes --no-install-recommends install gcc libc6-dev libfuse3-dev libnfs-dev >/dev/null
gcc -std=gnu11 -D_FILE_OFFSET_BITS=64 -O2 -Wall -Wextra -Werror -I/usr/include/fuse3 -o /out/mount.nfs /source/mount_nfs.c \
    -Wl,--wrap=socket,-Bstatic -lfuse3 -lnfs -Wl,-Bdynamic -ldl -lpthread

apt-get -qq --yes --no-install-recommends install busybox-static iptables ipset conntrack >/dev/null
