"""Registers the rack's simulated GPUs with kubelet. Runs on the rack's hosts: as a pod of the look-alike charts, or as a unit if the site brings its own device plugin."""
