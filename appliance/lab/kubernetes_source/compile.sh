#!/bin/sh
# Makes Kubernetes' programs, static, from Debian's source package. Runs in a Debian 12 tree of its own; leaves them in /out/bin.
set -eu
export DEBIAN_FRONTEND=noninteractive
version=1.20.2

sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >/etc/apt/sources.list.d/source.list
echo "fetching Go, etcd and the source"
apt-get -qq update
apt-get -qq --yes --no-install-recommends install \
    dpkg-dev golang-go golang-github-modern-go-reflect2-dev gcc libc6-dev etcd-server etcd-client busybox-static >/dev/null
export GOPATH=/build/go GOCACHE=/build/cache GO111MODULE=off CGO_ENABLED=0
mkdir -p "$GOPATH/src/k8s.io" "$GOCACHE" /out/bin
cd /build
apt-get -qq --download-only source kubernetes >/dev/null
dpkg-source --no-check -x kubernetes_*.dsc "$GOPATH/src/k8s.io/kubernetes" >/dev/null
cd "$GOPATH/src/k8s.io/kubernetes"

# The vendored reflect2 panics under Go 1.18 and newer.
rm -rf vendor/github.com/modern-go/reflect2
cp -r /usr/share/gocode/src/github.com/modern-go/reflect2 vendor/github.com/modern-go/reflect2

echo "making the API's description"
go build -o /build/openapi-gen ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
inputs=$(grep -rl --include='*.go' '+k8s:openapi-gen=' pkg cmd plugin staging/src/k8s.io \
    | xargs -n1 dirname | sort -u | grep -v -e '/testdata' -e '/vendor/' \
    -e staging/src/k8s.io/code-generator -e staging/src/k8s.io/sample \
    | sed -e 's,^staging/src/,k8s.io/kubernetes/vendor/,' -e t -e 's,^,k8s.io/kubernetes/,' | paste -sd,)
/build/openapi-gen --go-header-file hack/boilerplate/boilerplate.generatego.txt --output-base "$GOPATH/src" \
    --output-file-base zz_generated.openapi --output-package k8s.io/kubernetes/pkg/generated/openapi \
    --input-dirs "$inputs" --report-filename /build/openapi-violations

stamp=k8s.io/kubernetes/vendor/k8s.io/component-base/version
flags="-s -w -X $stamp.gitVersion=v$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=20 -X $stamp.gitTreeState=clean"
for program in kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubeadm kubectl; do
    echo "compiling $program"
    go build -p 2 -ldflags "$flags" -o "/out/bin/.$program" "./cmd/$program"
    mv "/out/bin/.$program" "/out/bin/$program"
done

echo "compiling pause and the resolver"
gcc -Os -static -o /out/bin/pause build/pause/linux/pause.c
cp -r /source/resolver cmd/rack-resolver
go build -ldflags "-s -w" -o /out/bin/rack-resolver ./cmd/rack-resolver
cp /usr/bin/etcd /usr/bin/etcdctl /out/bin/
cp /bin/busybox /out/bin/busybox
