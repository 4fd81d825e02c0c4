"""What is masked because it looks like a secret, and what stays readable."""

import ast
import sys
from pathlib import Path

import pytest

import appliance.support
from appliance.support.shapes import masked

SOURCES = [p for p in Path(appliance.support.__file__).parent.glob("*.py") if p.name != "bundle.py"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("StoragePass=hunt,er2 Foo=1", "StoragePass=*** Foo=1"),
        ("AccountingStoragePass   = hunter2", "AccountingStoragePass   = ***"),
        ('"password": "a b, c", "user": "u"', '"password": ***, "user": "u"'),
        (r"{\"token\":\"abc\",\"user\":\"u\"}", r"{\"token\":***,\"user\":\"u\"}"),
        ("mysql --password hunter2 --user root", "mysql --password *** --user root"),
        ("DB_PASSWORD:   hunter2", "DB_PASSWORD:   ***"),
        ("aws_secret_access_key = abc/def", "aws_secret_access_key = ***"),
        ("get https://user:pa:ss@host/x", "get https://***@host/x"),
        ("Authorization: Bearer abcdefghijk.lmn", "Authorization: ***"),
        ("curl with bearer abcdefghijk", "curl with bearer ***"),
        ("join abcdef.0123456789abcdef now", "join abcdef.*** now"),
        ("root:$6$salt$hashhashhash:19000", "root:***:19000"),
        ("https://hooks.slack.com/services/T0/B0/xyz", "https://hooks.slack.com/services/***"),
        ("key q83vASNFZ4mrze8BI0VniavN7wEjRWeJq83v end", "key *** end"),
        (
            "a\n-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\nb",
            "a\n***\nb",
        ),
        ("x -----BEGIN PRIVATE KEY-----\nabc\ndef", "x ***"),
        (
            r'{"k":"-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----","a":1}',
            '{"k":"***","a":1}',
        ),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
            "DEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\n"
            f"{'abcdefgh' * 8}\n{'abcdefgh' * 8}\nab==\n-----END RSA PRIVATE KEY-----\nb",
            "***\nb",
        ),
        (
            f"t h p[1]: -----BEGIN EC PRIVATE KEY-----\nt h p[1]: Proc-Type: 4,ENCRYPTED\nt h p[1]: {'abcdefgh' * 8}\n"
            "t h p[1]: ab==\nt h p[1]: -----END EC PRIVATE KEY-----\nb",
            "t h p[1]: ***\nb",
        ),
    ],
)
def test_a_secret_is_masked(text: str, said: str) -> None:
    assert masked(text) == said


@pytest.mark.parametrize(
    "text",
    [
        "Accepted password for root from 10.0.0.1 port 22",
        "PermitEmptyPasswords yes",
        "passed=3 failed=0 bypass: on",
        "AuthType=auth/munge AuthInfo=(null)",
        "GPU-8f3c2e10-1a2b-3c4d-5e6f-7a8b9c0d1e2f",
        "/var/lib/kubelet/pods/1234/volumes/kubernetes.io~projected/kube-api-access-7f9dx",
        "SHA256:Xn4k2OlQ0dZbG7hQyV3pGm1uE9tR5sW8aJcFiLoKdNe",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "NVRM: Xid (PCI:0000:4e:00): 95, pid=1234, name=python3",
        "SlurmctldParameters=enable_configless",
        "KubeletHasNoDiskPressure",
        "the driver cannot reach it: DeviceGetHandleByIndex_v2: GPU is lost",
        "far below the 300 s a munge credential lives",
        "/usr/share/zoneinfo/Etc/UTC-GMT",
        "Speculative Store Bypass: Mitigation",
        "NVRM: GPUDirectRDMAOverNVLinkIsEnabled",
    ],
)
def test_what_support_needs_stays(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize(
    "ends", ["", "t h sshd[1]: Invalid user -----END PRIVATE KEY----- from h\n"]
)
def test_who_begins_a_key_in_a_log_hides_none_of_the_lines_that_follow(ends: str) -> None:
    begins = "t h sshd[1]: Invalid user -----BEGIN PRIVATE KEY----- from h"
    lines = "t h kernel: NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.\n" * 3
    assert masked(f"{begins}\n{lines}{ends}") == f"t h sshd[1]: Invalid user ***\n{lines}{ends}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_program_is_python_3_8_of_the_standard_library(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 8))):
        named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            named = [node.module or ""]
        for name in named:
            ours = name.startswith(("appliance.probe", "appliance.support"))
            assert ours or name.split(".")[0] in sys.stdlib_module_names, name


@pytest.mark.parametrize(
    "text",
    [
        "COMMAND=/usr/bin/sshpass -p hunter2-x ssh bmc",
        "COMMAND=/usr/bin/curl -s -u root:hunter2-x https://bmc/",
        "COMMAND=/usr/bin/curl --user=root:hunter2-x https://bmc/",
        "COMMAND=/usr/bin/mysqldump -u slurm -phunter2-x acct",
        "<password>hunter2-x</password>",
        "GET /login?user=a&next=password%3Dhunter2-x",
    ],
)
def test_passwords_of_command_lines_and_markup_are_masked(text: str) -> None:
    assert "hunter2" not in masked(text)
