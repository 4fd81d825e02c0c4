// A small resolver for the virtual rack's cluster, where CoreDNS cannot be had: it answers for services and
// headless endpoints below cluster.local from the API server, and passes everything else on. UDP only.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
)

const domain = ".svc.cluster.local"

type resolver struct {
	services  listers.ServiceLister
	endpoints listers.EndpointsLister
	upstream  string
}

func main() {
	address := flag.String("listen", ":53", "where to answer")
	health := flag.String("health", ":8080", "where to say that it is ready")
	flag.Parse()
	config, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 10*time.Minute)
	answers := &resolver{
		services:  factory.Core().V1().Services().Lister(),
		endpoints: factory.Core().V1().Endpoints().Lister(),
		upstream:  upstream(),
	}
	services := factory.Core().V1().Services().Informer()
	endpoints := factory.Core().V1().Endpoints().Informer()
	factory.Start(context.Background().Done())
	for !services.HasSynced() || !endpoints.HasSynced() {
		time.Sleep(100 * time.Millisecond)
	}
	socket, err := net.ListenPacket("udp", *address)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		ready := func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) }
		log.Fatal(http.ListenAndServe(*health, http.HandlerFunc(ready)))
	}()
	packet := make([]byte, 4096)
	for {
		size, from, err := socket.ReadFrom(packet)
		if err != nil {
			log.Fatal(err)
		}
		query := append([]byte(nil), packet[:size]...)
		go func() {
			if reply := answers.reply(query); reply != nil {
				socket.WriteTo(reply, from)
			}
		}()
	}
}

// reply answers one query, or passes it on where the name is not the cluster's. nil: not a query one could answer.
func (r *resolver) reply(query []byte) []byte {
	name, kind, end, ok := question(query)
	if !ok {
		return nil
	}
	if !strings.HasSuffix(name, ".cluster.local") {
		return r.forward(query)
	}
	found, known := r.addresses(name)
	reply := append([]byte(nil), query[:end]...)
	reply[2], reply[3] = 0x84|query[2]&1, 0x80 // an authoritative answer; recursion is on offer
	for index := 6; index < 12; index++ {
		reply[index] = 0
	}
	if !known {
		reply[3] |= 3 // no such name
		return reply
	}
	if kind != 1 { // only A records exist
		return reply
	}
	for _, address := range found {
		reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4)
		reply = append(reply, address.To4()...)
	}
	reply[7] = byte(len(found))
	return reply
}

// question reads the name, lower case without its last dot, the type, and where the question ends.
func question(query []byte) (string, int, int, bool) {
	if len(query) < 17 || query[2]&0x80 != 0 || query[4] != 0 || query[5] != 1 {
		return "", 0, 0, false
	}
	labels, at := []string{}, 12
	for query[at] != 0 {
		size := int(query[at])
		if size > 63 || at+size+1 >= len(query) {
			return "", 0, 0, false
		}
		labels = append(labels, string(query[at+1:at+1+size]))
		at += size + 1
	}
	if at+5 > len(query) {
		return "", 0, 0, false
	}
	kind := int(query[at+1])<<8 | int(query[at+2])
	return strings.ToLower(strings.Join(labels, ".")), kind, at + 5, true
}

// addresses finds service.namespace.svc.cluster.local, and pod.service.namespace… of a headless service.
func (r *resolver) addresses(name string) ([]net.IP, bool) {
	if !strings.HasSuffix(name, domain) {
		return nil, false
	}
	parts := strings.Split(strings.TrimSuffix(name, domain), ".")
	if len(parts) < 2 || len(parts) > 3 {
		return nil, false
	}
	service, namespace := parts[len(parts)-2], parts[len(parts)-1]
	found, err := r.services.Services(namespace).Get(service)
	if err != nil {
		return nil, false
	}
	if len(parts) == 2 && found.Spec.ClusterIP != corev1.ClusterIPNone {
		return ips(found.Spec.ClusterIP), true
	}
	endpoints, err := r.endpoints.Endpoints(namespace).Get(service)
	if err != nil {
		return nil, len(parts) == 2
	}
	all := []net.IP{}
	for _, subset := range endpoints.Subsets {
		for _, address := range subset.Addresses {
			if len(parts) == 2 || address.Hostname == parts[0] {
				all = append(all, ips(address.IP)...)
			}
		}
	}
	return all, len(parts) == 2 || len(all) > 0
}

func ips(text string) []net.IP {
	if address := net.ParseIP(text); address != nil && address.To4() != nil {
		return []net.IP{address}
	}
	return nil
}

// forward asks the machine's own resolver, and says "server failure" where it is silent.
func (r *resolver) forward(query []byte) []byte {
	failure := append([]byte(nil), query...)
	failure[2], failure[3] = 0x80|query[2]&1, 0x82
	if r.upstream == "" {
		return failure
	}
	link, err := net.DialTimeout("udp", r.upstream, 2*time.Second)
	if err != nil {
		return failure
	}
	defer link.Close()
	link.SetDeadline(time.Now().Add(3 * time.Second))
	if _, err := link.Write(query); err != nil {
		return failure
	}
	reply := make([]byte, 4096)
	size, err := link.Read(reply)
	if err != nil {
		return failure
	}
	return reply[:size]
}

func upstream() string {
	text, _ := os.ReadFile("/etc/resolv.conf")
	for _, line := range strings.Split(string(text), "\n") {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "nameserver" {
			return net.JoinHostPort(words[1], "53")
		}
	}
	return ""
}

