"""Grafana boards as data, and the program that makes their files. This tuple is the list of all boards."""

from boards import cluster, gpu, host, job, project, queue
from boards.panel import Board

BOARDS: tuple[Board, ...] = (
    cluster.BOARD,
    host.BOARD,
    gpu.BOARD,
    queue.BOARD,
    project.BOARD,
    job.BOARD,
)
