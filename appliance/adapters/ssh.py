"""The adapter for hosts: SSH with pinned host keys, at most one connection per host, failures as causes."""

import logging
import select
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import paramiko  # noqa: TID251 - this module is the door

from appliance.adapters import open_files
from appliance.adapters.known_hosts import KnownHosts, UnreadableKey
from appliance.adapters.process import Completed
from appliance.adapters.remote import Endpoint, known_hosts_name
from appliance.adapters.ssh_limits import BoundedTransport
from appliance.adapters.user_key import UserKeys
from appliance.errors import AnotherKey, ConnectionFailed, DeadlineExceeded
from appliance.text import one_line, shortened

# paramiko logs tracebacks of its own thread for every unreachable host; the caller gets the reason as an error.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

PIECE = 1 << 16
KEPT = 64
"""Idle connections that stay open for the next command; each costs a thread, a descriptor, and some processor time."""
LONGEST_ANSWER = 16 << 20
"""Bytes. Facts with a fabric of 4000 cables are below 1 MiB, a part of an etcd backup 6 MiB; 32 hosts are read at a time."""


class _Pinned(paramiko.MissingHostKeyPolicy):
    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        raise _Unpinned


class _Unpinned(paramiko.SSHException):
    """The host has a key, and none is pinned for it."""


class _Connection:
    """``users``: commands running over it; ``used``: whether a command ever ran."""

    def __init__(self, client: paramiko.SSHClient) -> None:
        transport = client.get_transport()
        assert transport is not None
        # As created by _connect; its stubs know only paramiko's own type.
        bounded: Any = transport
        self.client, self.transport, self.users = client, bounded, 1
        self.used = False


class SshRemote:
    """Remote over paramiko. Thread-safe; close it when done.

    Of the idle connections, those used last stay open; a host whose connection was closed is connected again.
    Once ``cancelled`` returns true, running commands are abandoned; later ones, for cleaning up, run normally.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        connect_timeout: float = 6.0,
        banner_timeout: float = 10.0,
        login_timeout: float = 30.0,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._endpoints = {e.host: e for e in endpoints}
        self._pinned = {e.known_hosts: KnownHosts(e.known_hosts) for e in endpoints}
        self._keys = UserKeys()
        self._timeouts = (connect_timeout, banner_timeout)
        self._login_timeout = login_timeout
        self._cancelled = cancelled
        self._guard = threading.Lock()
        self._connections: dict[str, _Connection] = {}
        self._locks = {e.host: threading.Lock() for e in endpoints}

    def __enter__(self) -> "SshRemote":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        with self._guard:
            connections = list(self._connections.values())
            self._connections.clear()
        for connection in connections:
            connection.client.close()

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        """See Remote.run. With ``become`` the program runs under ``sudo -n``."""
        endpoint = self._endpoints[host]
        words = ["sudo", "-n", "--", *argv] if endpoint.become else list(argv)
        is_late = self._cancelled()
        with self._connected(endpoint) as connection:
            channel = self._channel(endpoint, connection)
            try:
                _start(channel, words, timeout, host)
                unwanted = (lambda: False) if is_late else self._cancelled
                return _converse(channel, tuple(argv), input, timeout, host, unwanted)
            except (paramiko.SSHException, OSError, EOFError) as error:
                open_files.check(error)
                self._drop(host)
                why = connection.transport.get_exception() or error
                raise ConnectionFailed(
                    f"connection lost while running {argv[0]}: {_words(why)}",
                    "check that the host is up, and run the same command again",
                    host,
                ) from error
            finally:
                # It sends a message to the host, which may be gone.
                with suppress(paramiko.SSHException, OSError, EOFError):
                    channel.close()

    def leave(self, host: str) -> None:
        """See Reachable.leave. A connection with a running command stays open."""
        with self._guard:
            connection = self._connections.get(host)
            if connection is None or connection.users:
                return
            del self._connections[host]
        connection.client.close()

    def reach(self, host: str) -> None:
        """Opens a new connection and closes it; raises ConnectionFailed with the diagnosis."""
        self._drop(host)
        self._connect(self._endpoints[host]).close()

    def _connect(self, endpoint: Endpoint) -> paramiko.SSHClient:
        return _connect(endpoint, self._pinned[endpoint.known_hosts], self._keys, *self._timeouts)

    @contextmanager
    def _connected(self, endpoint: Endpoint) -> Iterator[_Connection]:
        """The host's connection, opened if there is none."""
        with self._locks[endpoint.host]:
            connection = self._reused(endpoint.host)
            if connection is None:
                connection = _Connection(self._connect(endpoint))
                with self._guard:
                    self._connections[endpoint.host] = connection
        try:
            yield connection
        finally:
            self._give_back(endpoint.host, connection)

    def _reused(self, host: str) -> _Connection | None:
        with self._guard:
            connection = self._connections.get(host)
            if connection and connection.transport.is_active():
                connection.users += 1
                return connection
        self._drop(host)
        return None

    def _give_back(self, host: str, connection: _Connection) -> None:
        """Closes the least recently used ones if too many are idle."""
        with self._guard:
            connection.users -= 1
            if self._connections.get(host) is connection:
                self._connections[host] = self._connections.pop(host)
            idle = [name for name, other in self._connections.items() if not other.users]
            surplus = [self._connections.pop(name) for name in idle[: max(0, len(idle) - KEPT)]]
        for other in surplus:
            other.client.close()

    def _channel(self, endpoint: Endpoint, connection: _Connection) -> paramiko.Channel:
        # sshd answers the first request after PAM has admitted the user: on a busy host pam_systemd alone takes seconds.
        seconds = self._timeouts[1] if connection.used else self._login_timeout
        connection.transport.allow(connection.users)
        try:
            channel: paramiko.Channel = connection.transport.open_session(timeout=seconds)
            connection.used = True
            return channel
        except (paramiko.SSHException, OSError, EOFError) as error:
            open_files.check(error)
            self._drop(endpoint.host)
            raise ConnectionFailed(
                "no longer answers on its connection",
                "the host hangs or was powered off; check its console",
                endpoint.host,
            ) from error

    def _drop(self, host: str) -> None:
        with self._guard:
            connection = self._connections.pop(host, None)
        if connection:
            connection.client.close()


def host_key_fingerprint(address: str, port: int, timeout: float = 6.0) -> tuple[str, str, str]:
    """The current key of a host, not yet trusted: (type, base64, "SHA256:...")."""
    with _dial(address, port, timeout) as sock:
        transport = BoundedTransport(sock)
        try:
            transport.start_client(timeout=timeout)
            key = transport.get_remote_server_key()
        except (paramiko.SSHException, OSError, EOFError) as error:
            open_files.check(error)
            raise ConnectionFailed(
                f"does not speak SSH on port {port}: {_words(error)}",
                "check what listens on that port there, or correct access.port",
            ) from error
        finally:
            transport.close()
    return key.get_name(), key.get_base64(), key.fingerprint


def _dial(address: str, port: int, timeout: float) -> socket.socket:
    try:
        sock = socket.create_connection((address, port), timeout=timeout)
    except ConnectionRefusedError as error:
        raise ConnectionFailed(
            f"refuses connections on port {port}", "start sshd there, or correct access.port"
        ) from error
    except (TimeoutError, OSError) as error:
        open_files.check(error)
        raise ConnectionFailed(
            f"does not answer on port {port} ({error.strerror or 'timed out'})",
            "power the host on and check cable, address and firewall",
        ) from error
    # Like ssh: otherwise each small message of SSH would wait 40 ms for the acknowledgement of the previous one (RFC 896).
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return sock


def _connect(
    endpoint: Endpoint, pinned: KnownHosts, keys: UserKeys, connect: float, banner: float
) -> paramiko.SSHClient:
    client = paramiko.SSHClient()
    name = known_hosts_name(endpoint.address, endpoint.port)
    for key in _pinned(endpoint, pinned):
        client.get_host_keys().add(name, key.get_name(), key)
    client.set_missing_host_key_policy(_Pinned())
    user_key = _user_key(endpoint, keys)
    factory: Any = BoundedTransport
    try:
        sock = _dial(endpoint.address, endpoint.port, connect)
    except ConnectionFailed as error:
        raise ConnectionFailed(error.message, error.hint, endpoint.host) from error
    try:
        client.connect(
            endpoint.address,
            port=endpoint.port,
            username=endpoint.user,
            pkey=user_key,
            allow_agent=user_key is None,
            look_for_keys=user_key is None,
            banner_timeout=banner,
            auth_timeout=banner,
            timeout=connect,
            sock=sock,
            transport_factory=factory,
        )
    except (paramiko.SSHException, OSError, EOFError) as error:
        transport = client.get_transport()
        greeted = transport is not None and bool(transport.remote_version)
        client.close()
        sock.close()
        open_files.check(error)
        raise _refusal(endpoint, error, greeted=greeted) from error
    return client


def _user_key(endpoint: Endpoint, keys: UserKeys) -> paramiko.PKey | None:
    if endpoint.private_key is None:
        return None
    try:
        return keys.of(endpoint.private_key)
    except ConnectionFailed as error:
        raise ConnectionFailed(error.message, error.hint, endpoint.host) from error
    except OSError as error:
        open_files.check(error)
        raise ConnectionFailed(
            f"{endpoint.private_key}: {error.strerror}",
            "correct access.private_key, or owner and mode of the file",
            endpoint.host,
        ) from error


def _pinned(endpoint: Endpoint, known: KnownHosts) -> Sequence[paramiko.PKey]:
    try:
        return known.keys(known_hosts_name(endpoint.address, endpoint.port))
    except OSError as error:
        open_files.check(error)
        raise ConnectionFailed(
            f"{endpoint.known_hosts}: {error.strerror}",
            "pin the host keys: appliance trust",
            endpoint.host,
        ) from error
    except UnreadableKey as error:
        raise ConnectionFailed(
            f"{endpoint.known_hosts}: {error}",
            "correct or remove that line: names, type and key, separated by one space, without a marker such as @revoked",
            endpoint.host,
        ) from error


def _refusal(endpoint: Endpoint, error: Exception, *, greeted: bool = True) -> ConnectionFailed:
    """Return the error with its remedy. ``greeted``: sshd sent its version, so it is not the whole host that hangs."""
    name = endpoint.host
    match error:
        case paramiko.BadHostKeyException() if (
            error.key.get_name() != error.expected_key.get_name()
        ):
            shown, pinned = _kind(error.key), _kind(error.expected_key)
            return AnotherKey(
                f"shows an {shown} host key, but an {pinned} key is pinned",
                f"on its console check that sshd still reads the {pinned} key (owner and mode of "
                f"/etc/ssh/ssh_host_{pinned}_key, sshd -T); if {name} was reinstalled: appliance trust --hosts {name}; "
                "otherwise, treat it as an attack",
                name,
            )
        case paramiko.BadHostKeyException():
            return AnotherKey(
                f"host key changed: pinned {error.expected_key.fingerprint}, the host shows {error.key.fingerprint}",
                f"if {name} was reinstalled, pin its new key: appliance trust --hosts {name}; otherwise, treat it as an attack",
                name,
            )
        case _Unpinned():
            return ConnectionFailed(
                "has no pinned host key",
                "compare and pin it: appliance trust",
                name,
            )
        case paramiko.ssh_exception.IncompatiblePeer():
            return ConnectionFailed(
                f"its sshd and this program have no algorithm in common: {_words(error)}",
                f"sshd -T on {name} shows its algorithms; enable one of these: "
                "curve25519-sha256@libssh.org, aes128-ctr or aes256-gcm@openssh.com, hmac-sha2-256",
                name,
            )
        case paramiko.AuthenticationException():
            return ConnectionFailed(
                f"refuses {endpoint.user} with the key {endpoint.private_key or 'of the agent'}",
                "add the public key to authorized_keys there, or correct access.private_key; if the key worked before, journalctl -u ssh on "
                "the host's console shows the reason: an expired account, PAM (/etc/pam.d), AllowUsers",
                name,
            )
        case _ if isinstance(error.__context__ or error, EOFError | ConnectionResetError):
            return ConnectionFailed(
                f"accepts connections, but sshd closes them at once ({_words(error)})",
                "try again in a minute: it may limit logins; if it persists, on its console: sshd -t and journalctl -u ssh show the reason; "
                "for host keys that others can read: chmod 0600 /etc/ssh/ssh_host_*_key",
                name,
            )
        case _ if greeted and "No existing session" in str(error):
            return ConnectionFailed(
                f"accepts connections, but its SSH stops in the key exchange ({_words(error)})",
                "try again in a minute: it may be busy; if it persists, large packets are lost: ping -c1 -s 1400 to it gets no "
                "answer, with -s 100 it does; correct the MTU on the way, or on its console: nft list ruleset shows a firewall that drops them",
                name,
            )
        case _:
            return ConnectionFailed(
                f"accepts connections, but SSH does not answer ({_words(error)})",
                "try again in a minute: it may be busy, or limit logins; if it persists, check its console, and reset the host "
                "if the console hangs, too",
                name,
            )


def _words(error: BaseException) -> str:
    """The text of an error, which may contain the host's own words."""
    return shortened(one_line(str(error))) or type(error).__name__


def _start(channel: paramiko.Channel, words: Sequence[str], timeout: float, host: str) -> None:
    """Requests the program. Channel.exec_command waits for the host's confirmation without a limit."""
    request = paramiko.Message()
    request.add_byte(paramiko.common.cMSG_CHANNEL_REQUEST)
    request.add_int(channel.remote_chanid)
    request.add_string("exec")
    request.add_boolean(True)
    request.add_string(shlex.join(words))
    inner: Any = channel
    inner._event_pending()
    inner.transport._send_user_message(request)
    if not inner.event.wait(timeout):
        raise DeadlineExceeded(
            f"{words[0]} did not start within {timeout:g} s",
            "the host hangs or is overloaded",
            host,
        )
    inner._wait_for_event()


def _send(channel: paramiko.Channel, data: bytes, deadline: float) -> None:
    """Sends all of it, or as much as the host accepts before the deadline: a plain send would restart the timeout for each piece."""
    left = memoryview(data)
    while left and (seconds := deadline - time.monotonic()) > 0:
        channel.settimeout(seconds)
        sent = channel.send(left[:PIECE].tobytes())
        if not sent:
            return
        left = left[sent:]


def _kind(key: paramiko.PKey) -> str:
    """The name in OpenSSH's file of such a key: ed25519, ecdsa, rsa."""
    return key.get_name().removeprefix("ssh-").partition("-")[0]


def _wait(channel: paramiko.Channel, news: select.poll) -> None:
    """Waits for data, or for the exit code; a twentieth of a second at most."""
    if channel.eof_received and not (channel.recv_ready() or channel.recv_stderr_ready()):
        # From here on poll always reports data.
        channel.status_event.wait(0.05)
    else:
        news.poll(50)


def _is_over(channel: paramiko.Channel) -> bool:
    """Whether everything was read and the exit status has arrived. Raises SSHException if neither will come."""
    if channel.recv_ready() or channel.recv_stderr_ready():
        return False
    # A closed channel claims to have an exit status even if none arrived.
    if channel.closed and not channel.eof_received and channel.exit_status < 0:
        raise paramiko.SSHException("the connection was closed")
    return bool(channel.closed or (channel.exit_status_ready() and channel.eof_received))


def _converse(
    channel: paramiko.Channel,
    argv: tuple[str, ...],
    data: bytes | None,
    timeout: float,
    host: str,
    unwanted: Callable[[], bool],
) -> Completed:
    deadline = time.monotonic() + timeout
    with suppress(OSError):
        _send(channel, data or b"", deadline)
        channel.shutdown_write()
    out, err = bytearray(), bytearray()
    # Not select(2), which does not support descriptors above 1023.
    news = select.poll()
    news.register(channel, select.POLLIN)
    while True:
        # One piece at a time: the deadline also applies to a host that never stops writing.
        if channel.recv_ready():
            out += channel.recv(PIECE)
        if channel.recv_stderr_ready():
            err += channel.recv_stderr(PIECE)
        if max(len(out), len(err)) > LONGEST_ANSWER:
            raise ConnectionFailed(
                f"{argv[0]} wrote more than {LONGEST_ANSWER >> 20} MiB",
                "check the host: a healthy host never writes that much",
                host,
            )
        if _is_over(channel):
            break
        if unwanted():
            raise ConnectionFailed(f"{argv[0]} was interrupted", "run the same command again", host)
        if time.monotonic() > deadline:
            raise DeadlineExceeded(
                f"{argv[0]} did not end within {timeout:g} s",
                "the host hangs or is overloaded",
                host,
            )
        _wait(channel, news)
    return Completed(
        argv,
        channel.recv_exit_status(),
        out.decode(errors="replace"),
        err.decode(errors="replace"),
    )
