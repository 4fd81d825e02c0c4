"""The Pod Security Standard baseline as rules of a policy, for projects where the API server itself does not keep it.

RDMA needs IPC_LOCK, which baseline forbids, so such a project has pod_security: privileged, which forbids nothing.
"""

from appliance.stages.scheduler.queues.admission import EVERY, SPACE, Rule
from appliance.stages.scheduler.site import SchedulerOptions

CAPABILITIES = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
    *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
LOCK = "IPC_LOCK"
"""An additional capability that RDMA needs."""
SYSCTLS = (
    *(
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_unprivileged_port_start",
    ),
    *("net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports"),
    *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"),
    *("net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
)
SELINUX = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
HOOKS = ("postStart", "preStop")
CALLS = ("httpGet", "tcpSocket")
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP = (
    "seccomp.security.alpha.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
)


def baseline(options: SchedulerOptions) -> tuple[Rule, ...]:
    """All of its controls but volumes, which a policy of their own judges."""
    return (
        _spaces(options),
        _containers(),
        _locks(),
        _ports(),
        _contexts(),
        _sysctls(),
        _calls(),
        _notes(),
    )


def _spaces(options: SchedulerOptions) -> Rule:
    names = ("hostPID", "hostIPC", *(() if options.rdma == "host" else ("hostNetwork",)))
    none = " && ".join(f"(!has(t.spec.{name}) || !t.spec.{name})" for name in names)
    return Rule(
        f"variables.templates.all(t, {none})",
        f"the pod requests namespaces of the host: remove {', '.join(names)}",
    )


def _containers() -> Rule:
    names = ", ".join(f"'{name}'" for name in (*CAPABILITIES, LOCK))
    return Rule(
        f"variables.templates.all(t, {EVERY}.all(c, !has(c.securityContext)"
        " || ((!has(c.securityContext.privileged) || !c.securityContext.privileged)"
        " && (!has(c.securityContext.procMount) || c.securityContext.procMount == 'Default')"
        " && (!has(c.securityContext.capabilities) || !has(c.securityContext.capabilities.add)"
        f" || c.securityContext.capabilities.add.all(k, k in [{names}])))))",
        "the container requests privileges on the host: remove privileged, procMount and all added capabilities except IPC_LOCK",
    )


def _locks() -> Rule:
    """The API server refuses such a pod itself, but a Job only gets a warning of it."""
    wide = f"{SPACE}['pod-security.kubernetes.io/enforce'] == 'privileged'"
    return Rule(
        f"{wide} || variables.templates.all(t, {EVERY}.all(c, !has(c.securityContext)"
        " || !has(c.securityContext.capabilities) || !has(c.securityContext.capabilities.add)"
        f" || !('{LOCK}' in c.securityContext.capabilities.add)))",
        f"the capability {LOCK} is only for RDMA in projects with pod_security: privileged: remove it, or ask the "
        "administrator for such a project",
    )


def _ports() -> Rule:
    """In the host's network the API server itself writes each port of a container as one of the host."""
    shared = "(has(t.spec.hostNetwork) && t.spec.hostNetwork && p.hostPort == p.containerPort)"
    return Rule(
        f"variables.templates.all(t, {EVERY}.all(c, !has(c.ports) || c.ports.all(p,"
        f" !has(p.hostPort) || p.hostPort == 0 || {shared})))",
        "hostPort occupies a port of the host: remove it, and use a Service or kubectl port-forward",
    )


def _contexts() -> Rule:
    """SELinux, AppArmor, seccomp and Windows, of the pod and of each container."""
    kinds = ", ".join(f"'{kind}'" for kind in SELINUX)
    at, label = "c.securityContext", "c.securityContext.seLinuxOptions"
    plain = " && ".join(
        f"(!has({label}.{name}) || {label}.{name} == '')" for name in ("user", "role")
    )
    profiles = " && ".join(
        f"(!has({at}.{kind}) || {at}.{kind}.type in ['RuntimeDefault', 'Localhost'])"
        for kind in ("seccompProfile", "appArmorProfile")
    )
    rule = (
        f"!has({at}) || ((!has({label})"
        f" || ((!has({label}.type) || {label}.type in [{kinds}]) && {plain})) && {profiles}"
        f" && (!has({at}.windowsOptions) || !has({at}.windowsOptions.hostProcess)"
        f" || !{at}.windowsOptions.hostProcess))"
    )
    pod = rule.replace("c.securityContext", "t.spec.securityContext")
    return Rule(
        f"variables.templates.all(t, ({pod}) && {EVERY}.all(c, {rule}))",
        "the container disables its confinement: remove seLinuxOptions, and Unconfined in seccompProfile and appArmorProfile",
    )


def _sysctls() -> Rule:
    names = ", ".join(f"'{name}'" for name in SYSCTLS)
    return Rule(
        "variables.templates.all(t, !has(t.spec.securityContext) || !has(t.spec.securityContext.sysctls)"
        f" || t.spec.securityContext.sysctls.all(s, s.name in [{names}]))",
        "the sysctl affects the host: remove it from securityContext.sysctls",
    )


def _calls() -> Rule:
    """Kubelet makes these calls, from the host."""
    probes = [f"c.{probe}.{call}" for probe in PROBES for call in CALLS]
    hooks = [f"c.lifecycle.{hook}.{call}" for hook in HOOKS for call in CALLS]
    none = []
    for call in (*probes, *hooks):
        parts = call.split(".")
        there = " || ".join(f"!has({'.'.join(parts[:n])})" for n in range(2, len(parts) + 1))
        none.append(f"({there} || !has({call}.host) || {call}.host == '')")
    return Rule(
        f"variables.templates.all(t, {EVERY}.all(c, {' && '.join(none)}))",
        "a probe or hook with a host sends kubelet's requests to other machines: remove host, and the pod is probed",
    )


def _notes() -> Rule:
    """The older form of the same, which the container runtime still heeds for AppArmor."""
    notes = "t.metadata.annotations"
    old = " || ".join(f"k.startsWith('{prefix}')" for prefix in SECCOMP)
    return Rule(
        f"variables.templates.all(t, !has(t.metadata) || !has({notes}) || {notes}.all(k,"
        f" (!k.startsWith('{APPARMOR}') || {notes}[k] == 'runtime/default' || {notes}[k].startsWith('localhost/'))"
        f" && (!({old}) || {notes}[k] in ['runtime/default', 'docker/default'] || {notes}[k].startsWith('localhost/'))))",
        "the annotation disables the confinement of a container: remove it",
    )
