"""Default passwords from vendors' manuals: attackers try them first."""

SOLD_WITH = frozenset(
    {
        "calvin",  # Dell iDRAC, user root
        "ADMIN",  # Supermicro before 2020, user ADMIN
        "PASSW0RD",  # Lenovo XCC, user USERID
        "0penBmc",  # OpenBMC, user root
        "admin",  # AMI MegaRAC, ASRock Rack
        "password",  # Gigabyte, user admin
        "cmb9.admin",  # Tyan, user root
        "superuser",  # AMI MegaRAC, user sysadmin
        "Administrator",
        "root",
    }
)
"""HPE iLO and newer Supermicro boards have a unique password on a label."""
