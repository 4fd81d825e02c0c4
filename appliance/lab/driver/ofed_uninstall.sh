#!/bin/sh
# Simulated. Takes the packages off; what is loaded stays until the next boot.
exec apt-get -qq -y --allow-change-held-packages purge doca-ofed mlnx-ofed-kernel-dkms
