"""Fabric dump, as several test modules use it."""

DUMP = """\
# Net status - Fri Nov 20 13:30:58 2026

Switch 40 "S-0c42a10300f00001"\tnodeguid c42a10300f00001\tsysimgguid c42a10300f00001
#\tlinearcap 30720 FDBtop 26 portchange 0
#\tForwarding table 0-15: [0]FF [1]1
c42a10300f00001\t[0]\t"Sma Port"[0]\t lid 2 lmc 0 smlid 1  4x  2.5G Active/LinkUp
c42a10300f00001\t[1]\t"H-0c42a10300000000"[1]\t  4x 50G Active/LinkUp

Ca 1 "H-0c42a10300000000"\tnodeguid c42a10300000000\tsysimgguid c42a10300000000
c42a10300000001\t[1]\t"S-0c42a10300f00001"[1]\t lid 26 lmc 0 smlid 1  4x 50G Active/LinkUp

Ca 1 "H-0c42a10300010000"\tnodeguid c42a10300010000\tsysimgguid c42a10300010000
c42a10300010001\t[1]\t\t\t lid 3 lmc 0 smlid 1  4x 50G Down/Polling
#  dumped 3 nodes
"""
