"""What a line of somebody's file is about, and no word of it that could be a secret."""

import pytest

from appliance.probe.outline import outline


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("eve ALL=(ALL) NOPASSWD: ALL", "eve ALL=(ALL) NOPASSWD: ALL"),
        ("PasswordAuthentication no", "PasswordAuthentication no"),
        ("*/5 0-6 * * 1,3 root curl -u a:hunter2 https://x/", "*/5 0-6 * * 1,3 root … https://x/…"),
        (
            "deb [arch=amd64 trusted=yes] http://x/ x main",
            "deb [arch=amd64 trusted=yes] http://x/… …",
        ),
        ("Environment=TOKEN=hunter2", "Environment=…"),
        ("net.ipv4.ip_forward = 1", "net.ipv4.ip_forward = 1"),
        *((line, "…") for line in ("hunter2", "hunter2 x", "a:hunter2", "https://u:hunter2@h/")),
        *((line, "…") for line in ("password hunter2", "[hunter2]", "'hunter2'", "12345678")),
        ("", ""),
    ],
)
def test_words_of_known_grammars_are_told_and_no_others(line: str, told: str) -> None:
    assert outline(line) == told
    assert outline(told) == told
