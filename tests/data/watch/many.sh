# A second slurmctld beside the rack's own, with 40 hosts that all find themselves unfit at the same second.
# Arguments: the bound. Standard input: the program, base64. Prints the most hosts that were out at once, and what is left.
set -eu
most=$1 at=$(mktemp -d /tmp/many.XXXX)
trap 'kill $(cat $at/ctld.pid) 2>/dev/null; rm -rf $at' EXIT
base64 -d > $at/watch
cat > $at/slurm.conf <<C
ClusterName=many
SlurmctldHost=$(hostname -s)
SlurmctldPort=7817
SlurmdPort=7818
SlurmUser=root
StateSaveLocation=$at
SlurmctldPidFile=$at/ctld.pid
SlurmctldLogFile=$at/ctld.log
SlurmdTimeout=0
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=gpu-[1-40] NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES State=UP
C
export SLURM_CONF=$at/slurm.conf
slurmctld -f $SLURM_CONF
for _ in $(seq 50); do scontrol ping | grep -q 'is UP' && break; sleep 0.2; done
cat > $at/one.py <<'P'
import sys, time
sys.path.insert(0, sys.argv[1])
from appliance.watch.bound import take_out
from appliance.watch.scontrol import Slurm
name, most, start = sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
slurm = Slurm(name)
time.sleep(max(0.0, start - time.time()))
take_out(slurm, "a judge that errs", most)
P
out() { scontrol --oneliner show nodes | grep -c 'State=[^ ]*DRAIN.*Reason=appliance: health: a judge' || true; }
start=$(python3 -c 'import time; print(time.time() + 3)')
pids=
for n in $(seq 40); do python3 -ISB $at/one.py $at/watch gpu-$n $most $start & pids="$pids $!"; done
highest=0
while kill -0 $pids 2>/dev/null; do
    now=$(out)
    [ "$now" -le $highest ] || highest=$now
done
wait $pids
echo "highest $highest"
echo "out $(out)"
echo "announced $(scontrol --oneliner show nodes | grep -c 'about to drain' || true)"
