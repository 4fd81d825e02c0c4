"""Ways to cheat a quota, a pool, a limit or a neighbour, as what is sent to the API server.

Written down before the policies were. Each cheat names who has to refuse it: a policy by its name, or the rights of members.
"""

from tests.integration import (
    cheats_of_devices,
    cheats_of_makers,
    cheats_of_operators,
    cheats_of_queues,
    cheats_of_rights,
    cheats_of_volumes,
)
from tests.integration.cheat_parts import Cheat

CHEATS: tuple[Cheat, ...] = (
    *cheats_of_queues.CHEATS,
    *cheats_of_devices.CHEATS,
    *cheats_of_volumes.CHEATS,
    *cheats_of_rights.CHEATS,
    *cheats_of_makers.CHEATS,
    *cheats_of_operators.CHEATS,
)
