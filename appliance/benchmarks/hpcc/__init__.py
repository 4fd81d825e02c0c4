"""HPC Challenge on the processors of each host: STREAM and HPL in one program, through MPI within the host."""
