"""Tests that the pod network enforces NetworkPolicies: a pod reaches the open port, and not the closed one."""

from appliance.acceptance.hello_parts import (
    HELLO,
    Hello,
    Resource,
    Where,
    condition,
    job,
    labels,
    pod,
    resource,
)

KEY = "network_policies"
OPEN, CLOSED = 8080, 8081
SERVER = {"appliance/side": "server"}
SERVES = f"echo hello > /tmp/index.html; httpd -p {OPEN} -h /tmp; exec httpd -f -p {CLOSED} -h /tmp"
TRIES = "1 2 3"
ASKS = "timeout 10 wget -q -O /dev/null"
READY = {"exec": {"command": ["sh", "-c", f"{ASKS} http://127.0.0.1:{CLOSED}/"]}}
"""Sent from inside the pod, where no policy applies: it shows that a server listens on the closed port."""


def _network(where: Where) -> list[Resource]:
    """The policy exists before the pods that it selects.

    A closed project's own policy lets its pods reach each other, and policies add up, so pods of another project
    send the requests.
    """
    chosen = {HELLO: KEY, **SERVER}
    closing = {
        "podSelector": {"matchLabels": chosen},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"port": OPEN, "protocol": "TCP"}]}],
    }
    ports = [
        {"name": f"http-{number}", "port": number, "protocol": "TCP"} for number in (OPEN, CLOSED)
    ]
    command = ["sh", "-c", SERVES]
    template = pod(where, KEY, "plain", command=command, restart="Always", readinessProbe=READY)
    template["metadata"]["labels"] = {**labels(where, KEY), **SERVER}
    served = {"replicas": 1, "selector": {"matchLabels": chosen}, "template": template}
    policy = resource(where, KEY, "networking.k8s.io/v1", "NetworkPolicy", spec=closing)
    asks = where.client or where
    server = f"{policy['metadata']['name']}.{where.namespace}"
    return [
        policy,
        resource(where, KEY, "v1", "Service", spec={"selector": chosen, "ports": ports}),
        resource(where, KEY, "apps/v1", "Deployment", spec=served),
        resource(asks, KEY, "batch/v1", "Job", spec=job(_client(asks, server))),
    ]


def _client(where: Where, server: str) -> Resource:
    """It fails only if the closed port answers. Without an answer from the open port it waits.

    A single lost packet proves nothing: each request to the closed port is between two that the open port answered.
    """
    answered = f"until {ASKS} http://{server}:{OPEN}/; do sleep 2; done"
    closed = f"if {ASKS} http://{server}:{CLOSED}/; then exit 1; fi"
    tries = f"for i in {TRIES}; do sleep 5; {closed}; {answered}; done"
    command = ["sh", "-c", f"{answered}; {tries}"]
    return pod(where, KEY, "plain", command=command)


HELLOS: tuple[Hello, ...] = (
    Hello(
        KEY,
        "A NetworkPolicy blocks traffic to a pod",
        _network,
        condition("Complete", "Failed"),
        failed="a pod reached a port that a NetworkPolicy closes: the pod network does not enforce network policies",
        fix="check the pods of the network (calico-node, cilium) and their logs; appliance health --check workloads.network",
    ),
)
