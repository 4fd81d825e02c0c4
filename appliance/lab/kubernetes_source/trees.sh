#!/bin/sh
# Gathers what each image of the rack's cluster holds, below /out/trees.
# Runs in the tree that gather.sh made; /bin-of-kubernetes holds the compiled programs.
set -eu

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
