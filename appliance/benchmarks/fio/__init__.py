"""fio on local scratch and shared storage: sequential, random, many small files, one client to all, decay over time."""
