"""Compiles the programs of a rack's cluster in a separate process, at low priority, while other parts of the rack are created."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

from appliance.adapters.process import alongside
from appliance.errors import ApplianceError
from appliance.lab import go
from appliance.lab.kubernetes_build import MODULES
from appliance.lab.programs import CACHE, HELM, Module, at_work, built, fetch, is_built
from appliance.provision.building import Progress, reported_progress

EVERY = (*MODULES, HELM)
LOW = ("setpriv", "--pdeathsig", "KILL", "--", "nice", "-n", "19", "ionice", "-c", "idle")
"""It ends with the program that started it, and takes what others leave of processors and disks."""

AT_ONCE = 2
"""Modules that are compiled at once: a processor that waits for one, while a program is linked, is given to the other."""
ROOMY_GIB = 15
"""With less memory one at a time: each takes up to 2 GiB on each processor."""


def is_compiled(cache: Path) -> bool:
    """Whether all programs are there. Without them a first rack takes ten minutes more."""
    return is_built(cache, *EVERY)


SHARES: Mapping[str, float] = {
    "kubeadm": 20,
    "kubelet": 44,
    "kubectl": 28,
    "kube-apiserver": 86,
    "kube-controller-manager": 24,
    "kube-scheduler": 8,
    "kube-proxy": 7,
    "etcd": 20,
    "etcdctl": 5,
    "etcdutl": 3,
    "coredns": 94,
    "kube-router": 81,
    "kai-admission": 90,
    "kai-binder": 14,
    "kai-operator": 14,
    "kai-podgroupcontroller": 8,
    "kai-podgrouper": 14,
    "kai-queuecontroller": 6,
    "kai-scheduler": 12,
    "helm": 100,
}
"""Seconds of each program on two idle processors, one after the other in this order (2026-11-27)."""

TRUSTED = 120.0
"""Seconds of ``SHARES`` that count like measured ones: the first program is built in parallel with an image, at low priority."""


class Pace:
    """Estimates the slowdown of the compiler from the time of the finished part."""

    def __init__(self, cache: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._cache, self._clock, self._began = cache, clock, clock()
        self._before = self._done()
        self._seen, self._took = self._before, 0.0

    def line(self) -> str:
        """Progress in one line: the programs that are being compiled, and the remaining time."""
        done = sum(len(at_work(self._cache, module)) for module in EVERY)
        return f"{done} of {len(SHARES)} programs compiled{self.left()}"

    def left(self) -> str:
        """Text for a line of progress; "" before the first program is compiled."""
        passed, done = self._clock() - self._began, self._done()
        if done != self._seen:
            self._seen, self._took = done, passed
        if not self._took:
            return ""
        pace = (self._took + TRUSTED) / (done - self._before + TRUSTED)
        left = pace * (sum(SHARES.values()) - done) - (passed - self._took)
        minutes = max(1, round(left / 60))
        return f"; all programs in about {minutes} min"

    def _done(self) -> float:
        return sum(SHARES[name] for module in EVERY for name in at_work(self._cache, module))


@contextmanager
def compiled_meanwhile(cache: Path, progress: Progress) -> Iterator[None]:
    """Compile missing programs while the block runs, and wait for the end. A program that failed is compiled again by its next user, which shows the error.

    To be entered in ``one_build`` of the cluster's programs.
    """
    if is_compiled(cache):
        yield
        return
    argv = (*LOW, sys.executable, "-m", __name__, str(cache))
    with alongside(argv, progress):
        yield


def main(folder: str) -> int:
    """Compile every program, in the order in which a rack needs them. 1 if one fails."""
    cache = Path(folder)

    def tell(text: str) -> None:
        print(text, flush=True)  # noqa: T201 - read by the process that started it

    pace = Pace(cache)
    at_once = AT_ONCE if memory_gib() >= ROOMY_GIB else 1
    with reported_progress(
        tell, f"compiling {len(SHARES)} programs for Kubernetes, once", pace.line
    ):
        try:
            go.program(cache / CACHE, tell)
            all_built(cache, EVERY, at_once)
        except ApplianceError:
            # Compilations that are still running end with this process.
            os._exit(1)
    return 0


def all_built(cache: Path, modules: Sequence[Module], at_once: int) -> None:
    """Compile the programs of modules, in order, while the sources of the next ones are downloaded.

    ``at_once``: number of concurrent modules. Raises ApplianceError as soon as one fails; others may still be running then.
    """
    fetcher, compiler = ThreadPoolExecutor(1), ThreadPoolExecutor(at_once)
    missing = [module for module in modules if not is_built(cache, module)]
    fetched = [fetcher.submit(fetch, cache, module, _quietly) for module in missing]

    def build(module: Module, source: Future[None]) -> None:
        source.result()
        built(cache, module, _quietly)

    builds = [compiler.submit(build, *pair) for pair in zip(missing, fetched, strict=True)]
    try:
        for done in as_completed(builds):
            done.result()
    finally:
        for pool in (fetcher, compiler):
            pool.shutdown(wait=False, cancel_futures=True)


def memory_gib() -> float:
    """Memory of this machine in GiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _quietly(_: str) -> None:
    """One line reports all modules."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
