"""Which adapter sits nearest to which GPU."""

from appliance.models.affinity import rails
from tests.support.gpu_facts import facts, gpu

ROOTS = ("pci0000:00", "pci0000:40")


def port(device: str, *path: str) -> dict[str, object]:
    """An adapter at a place of the PCI tree."""
    words = {"state": "ACTIVE", "physical": "LinkUp", "link_layer": "InfiniBand"}
    return {"device": device, "port": 1, "rate": 200.0, "pci_path": path, **words}


def test_the_adapter_behind_the_same_switch_is_the_gpus_rail() -> None:
    seen = facts(
        "gpu-1",
        gpu(0, pci_path=(ROOTS[0], "0000:00:01.0", "0000:01:00.0")),
        gpu(1, pci_path=(ROOTS[1], "0000:40:01.0")),
        ports=[
            port("mlx5_0", ROOTS[0], "0000:00:01.0", "0000:01:00.0"),
            port("mlx5_1", ROOTS[0], "0000:00:02.0"),
            port("mlx5_2", ROOTS[1], "0000:40:02.0"),
            port("mlx5_3", ROOTS[1], "0000:40:03.0"),
        ],
    )
    assert rails(seen)[0] == ("mlx5_0",)
    assert rails(seen)[1] == ("mlx5_2", "mlx5_3")


def test_nothing_is_near_where_the_way_is_not_known() -> None:
    seen = facts("gpu-1", ports=[port("mlx5_0"), port("mlx5_1", ROOTS[0])])
    assert set(rails(seen).values()) == {()}
