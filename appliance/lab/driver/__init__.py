"""Look-alikes of NVIDIA's packages: names, versions, programs and units are as there, what they do is simulated."""
