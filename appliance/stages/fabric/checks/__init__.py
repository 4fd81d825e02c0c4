"""Compares the fabric with the profile: ports, links, rates, errors, one subnet manager, reachable hosts."""

from appliance.checks.causes import SILENT, UNASKED, Cause, Reach, is_unknown
from appliance.checks.check import GPU_HOSTS, Check, ClusterCheck, HostCheck, Nature
from appliance.stages.fabric import ids
from appliance.stages.fabric.causes import (
    LINK_DOWN,
    NO_PORT,
    OTHER_FABRIC,
    PORT_MISSING,
    waits_for_all,
)
from appliance.stages.fabric.checks import cabling as fabric_cabling
from appliance.stages.fabric.checks import driver as fabric_driver
from appliance.stages.fabric.checks import ethernet as fabric_ethernet
from appliance.stages.fabric.checks import firmware as fabric_firmware
from appliance.stages.fabric.checks import gpu_direct as fabric_gpu_direct
from appliance.stages.fabric.checks import links as fabric_links
from appliance.stages.fabric.checks import pcie as fabric_pcie
from appliance.stages.fabric.checks import services as fabric_services
from appliance.stages.fabric.checks.errors import judge_errors
from appliance.stages.fabric.checks.ports import (
    RATE,
    judge_active,
    judge_ports,
    judge_rate,
    judge_state,
)
from appliance.stages.fabric.checks.subnet import judge_subnet_manager, judge_topology

UNITS = ("opensm.service",)

CHECKS: tuple[Check, ...] = (
    HostCheck(
        id=ids.PORTS,
        title="All high-speed ports are there",
        nature=Nature.SYMPTOM,
        roles=GPU_HOSTS,
        judge=judge_ports,
        explain="The number of RDMA ports of the profile's kind. If one is missing, an adapter dropped off the PCIe bus, a port is in the wrong "
        "mode (Ethernet instead of InfiniBand), or the driver rejected its firmware.",
        limit="hardware.fabric.ports of the profile",
    ),
    HostCheck(
        id=ids.STATE,
        title="Ports have a link",
        nature=Nature.SYMPTOM,
        roles=GPU_HOSTS,
        judge=judge_state,
        explain="The physical state of a port: LinkUp. Polling means no signal: a cable is unplugged or broken, or a switch port is off. Software "
        "cannot fix it.",
        limit="LinkUp",
        causes=(
            PORT_MISSING,
            NO_PORT,
        ),
    ),
    HostCheck(
        id=ids.ACTIVE,
        title="Linked ports are active",
        roles=GPU_HOSTS,
        judge=judge_active,
        explain="The logical state of a port. INIT on a link that is up means that no subnet manager has configured it, ARMED that the subnet "
        "manager did not finish.",
        limit="ACTIVE",
        causes=(
            NO_PORT,
            Cause(
                ids.SM,
                "without a subnet manager no port leaves INIT",
                Reach.SITE,
                waits_for_all,
            ),
            OTHER_FABRIC,
            Cause(
                ids.STATE,
                "a port without a link is not configured and has no rate",
                when=is_unknown,
            ),
        ),
    ),
    HostCheck(
        id=ids.RATE,
        title="Ports run at full rate",
        nature=Nature.SYMPTOM,
        roles=GPU_HOSTS,
        judge=judge_rate,
        explain="The rate of each port, compared with the profile. With a dirty or badly seated connector, a link trains at half its width or "
        "speed, and every collective waits for that port.",
        limit="hardware.fabric.rate_gbps of the profile",
        bound=RATE,
        causes=(
            NO_PORT,
            LINK_DOWN,
            Cause(
                ids.STATE,
                "a port without a link is not configured and has no rate",
                when=is_unknown,
            ),
            Cause(ids.ACTIVE, "a port that is not active has no rate", when=is_unknown),
        ),
    ),
    HostCheck(
        id=ids.ERRORS,
        title="Ports count no errors",
        nature=Nature.SYMPTOM,
        roles=GPU_HOSTS,
        judge=judge_errors,
        explain="Growth of each port's error counters since the last deploy, plan or validate that is more than a minute old. The counters run from "
        "the day they were cleared, so a single reading above zero proves nothing.",
        limit="none: link_downed, local_link_integrity_errors, excessive_buffer_overrun_errors, rnr_nak_retry_err; "
        "symbol_error 120/h, link_error_recovery 5/min, port_rcv_errors 10/s, port_xmit_discards 100/s (NVSentinel)",
        causes=(
            PORT_MISSING,
            NO_PORT,
            LINK_DOWN,
        ),
    ),
    ClusterCheck(
        id=ids.SM,
        title="One subnet manager is master",
        judge=judge_subnet_manager,
        explain="The subnet manager as seen through the fabric. Without a master, no port becomes ACTIVE after a reboot. Two masters mean that the "
        "fabric is split. If the site uses opensm, a master elsewhere fails: it was started by hand with a higher priority.",
        limit="1 master, on a control host where fabric.subnet_manager is opensm",
        causes=(
            UNASKED,
            Cause(ids.STATE, "a port without a link does not reach a subnet manager"),
        ),
    ),
    ClusterCheck(
        id=ids.TOPOLOGY,
        title="Discovery finds every port",
        nature=Nature.SYMPTOM,
        judge=judge_topology,
        explain="The ports that each GPU host reports, compared with those that discovery from the control host finds. A missing port is unplugged "
        "or connected to another fabric.",
        limit="every port of every GPU host",
        causes=(
            SILENT,
            UNASKED,
            PORT_MISSING,
            OTHER_FABRIC,
            LINK_DOWN,
            Cause(ids.ACTIVE, "discovery may not find a port that is not configured", Reach.PART),
        ),
    ),
    *fabric_cabling.CHECKS,
    *fabric_links.CHECKS,
    *fabric_services.CHECKS,
    *fabric_ethernet.CHECKS,
    *fabric_firmware.CHECKS,
    *fabric_driver.CHECKS,
    *fabric_pcie.CHECKS,
    *fabric_gpu_direct.CHECKS,
)
