#!/bin/sh
# Gathers what each image of the rack's cluster holds, below /out/trees, and downloads the packages of the roles to the archives.
# Runs in a Debian 12 tree of its own; /bin-of-kubernetes holds the compiled programs. Arguments: the packages.
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

tree() { # NAME PROGRAM...: the programs below usr/local/bin, with the libraries they load
    root=/out/trees/$1
    shift
    mkdir -p "$root/usr/local/bin" "$root/tmp" "$root/etc"
    for program in "$@"; do
        cp -L "$program" "$root/usr/local/bin/"
        ldd "$program" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
            mkdir -p "$root$(dirname "$library")"
            cp -L "$library" "$root$library"
        done
    done
}

for component in kube-apiserver kube-controller-manager kube-scheduler; do
    tree "$component" "/bin-of-kubernetes/$component"
done
tree etcd /bin-of-kubernetes/etcd /bin-of-kubernetes/etcdctl /bin-of-kubernetes/etcdutl
mkdir -p /out/trees/pause
gcc -Os -static -o /out/trees/pause/pause /bin-of-kubernetes/pause.c
tree coredns /bin-of-kubernetes/coredns
for program in /bin-of-kubernetes/kai-*; do tree "${program##*/}" "$program"; done
# The image of KAI's hooks has a shell, kubectl, and the definitions as they lie in KAI's module.
tools=/out/trees/kai-crd-upgrader
tree kai-crd-upgrader /bin/bash /bin/busybox /bin-of-kubernetes/kubectl
mkdir -p "$tools/bin"
mv "$tools/usr/local/bin/bash" "$tools/bin/"
cp /bin-of-kubernetes/apply-crds.sh "$tools/"
cp -r /bin-of-kubernetes/crds "$tools/internal-crds"
tree busybox /bin/busybox
tree kube-vip /bin/busybox /bin-of-kubernetes/kubectl
cp /source/address-holder /out/trees/kube-vip/
tree kai-resourcereservation /bin/busybox /bin-of-kubernetes/kubectl
cp /source/reservation /out/trees/kai-resourcereservation/
for name in busybox kube-vip kai-crd-upgrader kai-resourcereservation; do
    mkdir -p "/out/trees/$name/bin"
    for applet in $(/bin/busybox --list); do [ -e "/out/trees/$name/bin/$applet" ] || ln -s /usr/local/bin/busybox "/out/trees/$name/bin/$applet"; done
done

# Both call iptables, which finds its extensions where it was built to look for them.
for name in kube-proxy kube-router; do
    tree "$name" "/bin-of-kubernetes/$name" /usr/sbin/xtables-nft-multi /usr/sbin/xtables-legacy-multi /usr/sbin/conntrack /usr/sbin/ipset
    root=/out/trees/$name
    for extension in /usr/lib/x86_64-linux-gnu/xtables/*.so; do
        mkdir -p "$root/usr/lib/x86_64-linux-gnu/xtables"
        cp "$extension" "$root/usr/lib/x86_64-linux-gnu/xtables/"
        ldd "$extension" | grep -o '/[^ ]*' | while read -r library; do
            [ -e "$root$library" ] || { mkdir -p "$root$(dirname "$library")"; cp -L "$library" "$root$library"; }
        done
    done
    for call in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
        ln -s xtables-nft-multi "$root/usr/local/bin/$call"
    done
    mkdir -p "$root/run" "$root/lib/modules"
    cp /etc/protocols /etc/services "$root/etc/" 2>/dev/null || true
done
