# A ninth adapter, after the eight of the class: $1 Ethernet|InfiniBand, without a cable
cd /var/lib/appliance-lab/sys
d=devices/pci0000:60/0000:61:00.0/0000:62:00.0; mkdir -p $d/infiniband
cp -r devices/pci0000:00/0000:0b:00.0/0000:0c:00.0/infiniband/mlx5_0 $d/infiniband/mlx5_8
for f in vendor device class numa_node; do cp devices/pci0000:00/0000:0b:00.0/0000:0c:00.0/$f $d/ 2>/dev/null; done
p=$d/infiniband/mlx5_8/ports/1
echo "$1" > $p/link_layer; echo "1: DOWN" > $p/state
if [ "$1" = Ethernet ]; then echo "3: Disabled" > $p/phys_state; else echo "2: Polling" > $p/phys_state; fi
echo "10 Gb/sec (4X SDR)" > $p/rate; echo "fe80:0000:0000:0000:e8eb:d303:00aa:bb08" > $p/gids/0
rm -f $d/infiniband/mlx5_8/device; ln -s ../.. $d/infiniband/mlx5_8/device
ln -sfn ../../$d/infiniband/mlx5_8 class/infiniband/mlx5_8
