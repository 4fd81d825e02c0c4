"""Rules over limits: each belongs to a check there is, and says where its number comes from."""

from collections.abc import Collection, Iterator, Mapping

from appliance.config.finding import Finding
from appliance.config.rules.base import nearest
from appliance.config.schema import Checked
from appliance.models.profile import Limit, Profile
from appliance.models.site import Site


def limits(
    checked: Checked[Site] | Checked[Profile],
    given: Mapping[str, Limit],
    check_ids: Collection[str] | None,
) -> Iterator[Finding]:
    """A limit's id is a check's, or a check's with a qualifier behind a dot."""
    for name, limit in given.items():
        if check_ids is not None and not any(
            name == i or name.startswith(i + ".") for i in check_ids
        ):
            area = [i for i in sorted(check_ids) if i.split(".")[0] == name.split(".")[0]]
            remedy = nearest(name, area or sorted(check_ids), "checks", cutoff=0.8)
            yield checked.finding(("limits", name), "is the id of no check", remedy)
        if not limit.source.strip():
            remedy = "say where the number comes from, so that a reader of the report can judge it"
            yield checked.finding(("limits", name, "source"), "is empty", remedy)
        if limit.value is None:
            yield checked.finding(
                ("limits", name, "value"), "has no value", "give a bound, or take the limit out"
            )
