"""The record of a run survives JSON, and knows its own numbers."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from appliance.models.facts import HostFacts, Receipt
from appliance.models.facts_host import Clock, Cpu, Memory, Os
from appliance.models.result import CheckResult, Measurement, Status
from appliance.models.run import RunRecord, Table, host_record, host_versions
from appliance.models.site import Host, Role
from appliance.stages.fabric.facts import Port
from appliance.stages.gpu.facts import Gpu, Gpus

RecordBuilder = Callable[..., RunRecord]
HOST = Host.model_validate({"name": "gpu-1", "roles": ["gpu", "login"], "address": "10.1.0.13"})


def facts() -> HostFacts:
    gpu = Gpu(index=0, uuid="GPU-1", name="A100", serial="1653", vbios="92", bus_id="0", memory=80)
    port = Port(
        device="mlx5_0",
        port=1,
        state="ACTIVE",
        physical="LinkUp",
        rate=200,
        link_layer="InfiniBand",
        guid="0xb8",
        firmware="20.43",
    )
    left = Receipt(
        stage="base",
        fingerprint="f",
        written="w",
        run="r",
        appliance="0",
        resources=1,
        versions={"chrony": "4.3"},
    )
    return HostFacts(
        version=1, host="gpu-1", taken="2026-11-29T00:00:00Z", cpu_seconds=0.1, user="root",
        os=Os(id="debian", version_id="12", kernel="6.1", boot_id="b", hostname="gpu-1", cgroup="v2"),
        cpu=Cpu(model="EPYC", sockets=1, cores=64, threads=128), memory=Memory(total=2**40, available=1),
        clock=Clock(time=0), gpus=Gpus(driver="580.82", nvml="12", devices=(gpu,)), ports=(port,),
        packages={"chrony": "4.4"}, receipts={"base": left},
    )  # fmt: skip


def test_a_full_record_goes_through_json_unharmed(sample: RunRecord) -> None:
    assert RunRecord.model_validate_json(sample.model_dump_json()) == sample


@pytest.mark.parametrize("value", [True, 1, 1.0, "1", None, "Zürich → 東京", 2**60, 0.1 + 0.2])
def test_a_value_keeps_its_type_through_json(build: RecordBuilder, value: object) -> None:
    result = CheckResult.model_validate(
        {"id": "a.b", "target": "h", "status": "pass", "value": value}
    )
    record = build(
        results=(result,), tables=(Table(title="t", columns=("c",), rows=((result.value,),)),)
    )
    again = RunRecord.model_validate_json(record.model_dump_json())
    assert again == record
    assert type(again.results[0].value) is type(value)
    assert type(again.tables[0].rows[0][0]) is type(value)


def test_a_time_zone_other_than_utc_is_the_same_instant_afterwards(build: RecordBuilder) -> None:
    started = datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=2)))
    record = build(started=started, finished=started + timedelta(minutes=3))
    again = RunRecord.model_validate_json(record.model_dump_json())
    assert again == record
    assert again.seconds == 180


def test_a_naive_time_is_refused(build: RecordBuilder) -> None:
    with pytest.raises(ValidationError, match="timezone"):
        build(started=datetime(2026, 1, 1))


def test_a_record_of_another_schema_version_is_refused(build: RecordBuilder) -> None:
    with pytest.raises(ValidationError, match="version"):
        build(version=3)


def test_a_record_of_the_version_before_acceptance_is_still_read(build: RecordBuilder) -> None:
    old = json.loads(build().model_dump_json()) | {"version": 1}
    del old["acceptance"]
    assert RunRecord.model_validate_json(json.dumps(old)).acceptance is None


def test_numbers_json_cannot_carry_are_refused_by_name(build: RecordBuilder) -> None:
    with pytest.raises(ValidationError, match=r"gpt3: nan"):
        build(measurements=(Measurement(name="gpt3", value=float("nan"), unit="tokens/s"),))
    worst = CheckResult(id="a.b", target="h", status=Status.PASS, limit=float("inf"))
    with pytest.raises(ValidationError, match=r"a\.b: inf"):
        build(results=(worst,))


def test_ports_count_only_when_active_and_fast_enough(sample: RunRecord) -> None:
    assert sum(len(host.ports) for host in sample.hosts) == 32
    assert sample.ports_at_rate == 31


def test_only_ports_of_gpu_hosts_were_promised(sample: RunRecord) -> None:
    """Else a control host's port makes 17 of 16, or hides one that is missing."""
    gpu = next(host for host in sample.hosts if host.ports)
    more = gpu.model_copy(update={"name": "head-2", "roles": ("control",)})
    with_head = sample.model_copy(update={"hosts": (*sample.hosts, more)})
    assert with_head.ports_at_rate == sample.ports_at_rate


def test_the_headline_is_the_largest_run_in_tokens_per_second(sample: RunRecord) -> None:
    assert sample.headline is not None
    assert sample.headline.detail["gpus"] == 32


def test_inventory_comes_from_the_facts() -> None:
    record = host_record(HOST, facts())
    assert (record.roles, record.address, record.os) == (("gpu", "login"), "10.1.0.13", "debian-12")
    assert record.cpu == "EPYC, 1 socket, 64 cores"
    assert (record.gpus[0].serial, record.gpus[0].driver) == ("1653", "580.82")
    assert (record.ports[0].guid, record.ports[0].rate) == ("0xb8", 200)


def test_a_host_without_facts_says_why() -> None:
    record = host_record(HOST, None, "connection timed out")
    assert record.unreachable == "connection timed out"
    assert record.name == "gpu-1"
    assert Role.GPU.value in record.roles
    assert host_record(HOST, None).unreachable == "no facts"


def test_versions_are_those_found_not_those_once_installed() -> None:
    versions = host_versions(facts())
    assert versions == {
        "os": "debian-12", "kernel": "6.1", "gpu driver": "580.82", "chrony": "4.4",
    }  # fmt: skip
