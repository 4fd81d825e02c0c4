"""perftest: ib_write_bw and ib_write_lat over every rail of pairs of hosts, from host and GPU memory."""
