"""Start, watch and stop the processes of the stack, so that stopping leaves none.

Rules this module keeps:

1. supervisord runs the programs (``supervisord.conf``); this module talks to it over its Unix socket.
2. Whatever was started is written down as pid and start time, with the session they share, before it is needed:
   when supervisord itself was killed, its children live on, and only the record tells them from other processes.
3. A process is ours when pid *and* start time match the record, or it descends from one that does, or it is in the
   session supervisord opened, began after it, and that session's leader is gone or ours. Never because of its name.
4. Stopping ends with a look: what is still there is sent SIGTERM, then SIGKILL, and a survivor is an error.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
import xmlrpc.client
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from supervisor.xmlrpc import SupervisorTransport  # type: ignore[import-untyped]

from environment import HOST, Layout, Ports, StackError

CONFIG = Path(__file__).with_name("supervisord.conf")
SOCKET_BYTES = 90  # 107 is the limit; supervisord binds `<path>.<pid>` first
CLOCK_SLACK = 1.0  # seconds two readings of one process's start time may differ
STOP_SECONDS = 120.0  # more than the longest stopwaitsecs of each step of supervisord.conf together
FORCE_SECONDS = 6.0  # between SIGTERM and SIGKILL, and after it
BOOT_SLACK = 60.0  # seconds a corrected clock may move the time of the boot
LOG_LINES = 15


def port_taken(port: int) -> bool:
    """Whether something listens on `port`, or nothing may."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        if probe.connect_ex((HOST, port)) == 0:
            return True
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False


def request(port: int, path: str, body: object = None, token: str = "", seconds: float = 5) -> tuple[int, Any]:
    """One HTTP request to loopback, past any proxy: status (0 when nothing answers in time) and the JSON, if it is any."""
    connection = http.client.HTTPConnection(HOST, port, timeout=seconds)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    try:
        payload = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, payload, headers)
        answer = connection.getresponse()
        text = answer.read()
    except (OSError, http.client.HTTPException):
        return 0, None
    finally:
        connection.close()
    try:
        return answer.status, json.loads(text)
    except ValueError:
        return answer.status, None


def socket_path(layout: Layout) -> Path:
    """Where supervisord listens: in the home, or in a short private folder when that path is too long for a socket."""
    wanted = layout.stack / "supervisor.sock"
    if len(os.fsencode(wanted)) <= SOCKET_BYTES:
        return wanted
    name = hashlib.sha256(os.fsencode(layout.home)).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"corpus-guard-{os.getuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    seen = folder.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid() or seen.st_mode & 0o077:
        raise StackError(
            f"{folder}: expected a folder of ours, closed to others; got {seen.st_mode:o} of uid {seen.st_uid}."
        )
    return folder / "supervisor.sock"


class Processes:
    """The processes of one home."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.record_file = layout.stack / "processes.json"
        self._log_starts: dict[Path, int] = {}

    # --- supervisord -------------------------------------------------------------------------------------------------

    def call(self, method: str, *arguments: object) -> Any:
        """One call of supervisord's API.

        Raises:
            OSError, http.client.HTTPException: nothing answers.
            xmlrpc.client.Fault: it answers no.
        """
        transport = SupervisorTransport(None, None, f"unix://{socket_path(self.layout)}")
        try:
            server = xmlrpc.client.ServerProxy(f"http://{HOST}", transport=transport)
            return getattr(server.supervisor, method)(*arguments)
        finally:
            transport.close()

    def running(self) -> bool:
        """Whether supervisord answers."""
        try:
            return bool(self.call("getState")["statename"] == "RUNNING")
        except (OSError, http.client.HTTPException, xmlrpc.client.Fault):
            return False

    def states(self) -> dict[str, dict[str, Any]]:
        """Program -> what supervisord knows of it; empty when it does not run."""
        return {info["name"]: info for info in self.call("getAllProcessInfo")} if self.running() else {}

    def launch(self, env: Mapping[str, str], ports: Ports) -> None:
        """Start supervisord in a session of its own; it starts no program yet."""
        told = {
            **env,
            **{ports.variable(name): str(getattr(ports, name)) for name in ("airflow", "chroma", "mlflow", "postgres")},
            "CORPUS_GUARD_STACK_PROJECT": str(self.layout.project),
            "CORPUS_GUARD_STACK_PYTHON": sys.executable,
            "CORPUS_GUARD_STACK_SOCKET": str(socket_path(self.layout)),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', os.defpath)}",
            "NO_COLOR": "1",  # these lines go to files
            "PYTHONUNBUFFERED": "1",
        }
        log = self.layout.logs / "supervisord.out"
        with log.open("wb") as out:
            started = subprocess.Popen(
                [sys.executable, "-m", "supervisor.supervisord", "-c", str(CONFIG)],
                env=told,
                cwd=self.layout.home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.record(started.pid)
        self.wait("supervisord", self.running, 20, lambda: started.poll() is None, log)

    def start(self, program: str) -> None:
        """Ask for a program; nothing where it runs."""
        if self.states().get(program, {}).get("statename") in {"RUNNING", "STARTING"}:
            return
        log = self.layout.logs / f"{program}.log"
        self._log_starts[log] = log.stat().st_size if log.is_file() else 0
        group = "airflow" if program in AIRFLOW else program
        try:
            self.call("startProcess", f"{group}:{program}", False)
        except xmlrpc.client.Fault as fault:
            raise StackError(f"{program}: supervisord does not start it: {fault.faultString}") from fault

    def wait_for(self, program: str, ready: Callable[[], bool], seconds: float) -> None:
        """Return once `ready`; raise with the end of its log when the program dies, restarts, or takes too long."""
        first = self.states()[program]["pid"]

        def settled() -> bool:
            return ready() and self.states().get(program, {}).get("statename") == "RUNNING"

        def alive() -> bool:
            info = self.states().get(program, {})
            return info.get("statename") in {"STARTING", "RUNNING"} and info["pid"] in {first, first or info["pid"]}

        self.wait(program, settled, seconds, alive, self.layout.logs / f"{program}.log")
        self.record()

    def wait(self, what: str, ready: Callable[[], bool], seconds: float, alive: Callable[[], bool], log: Path) -> None:
        """Poll `ready`, giving up at once when `alive` says no."""
        deadline = time.monotonic() + seconds
        while not (ready() and alive()):
            died = not alive()
            if died or time.monotonic() > deadline:
                said = (
                    log.read_bytes()[self._log_starts.get(log, 0) :].decode(errors="replace") if log.is_file() else ""
                )
                lines = said.splitlines()[-LOG_LINES:]
                problem = "stopped while starting" if died else f"not healthy after {seconds:.0f} s"
                raise StackError(f"{what}: {problem}. The end of {log}:\n" + "\n".join(f"  {line}" for line in lines))
            time.sleep(0.3)

    # --- the record --------------------------------------------------------------------------------------------------

    def record(self, leader: int | None = None) -> None:
        """Write down every process there is now; `leader` begins a new record."""
        known = {} if leader else self._read()
        leader = leader or known.get("leader", [0])[0]
        known_alive = {pid: began for pid, began in known.get("processes", {}).items() if _same(int(pid), began)}
        seen = {str(one.pid): began for one in _family([leader]) if (began := _began(one))}
        began = known.get("leader", [leader, seen.get(str(leader), time.time())])[1]
        content = {"boot": psutil.boot_time(), "leader": [leader, began], "processes": {**known_alive, **seen}}
        beside = self.record_file.with_suffix(".new")
        beside.write_text(json.dumps(content))
        beside.replace(self.record_file)

    def left(self) -> list[psutil.Process]:
        """Every process of this stack that exists now, by the rules above."""
        known = self._read()
        if not known:
            return []
        leader, began = known["leader"]
        recorded = [int(pid) for pid, started in known["processes"].items() if _same(int(pid), started)]
        session = []
        if not psutil.pid_exists(leader) or _same(leader, began):
            session = [one.pid for one in psutil.process_iter() if _in_session(one, leader, began)]
        return _family([*recorded, *session])

    def _read(self) -> dict[str, Any]:
        """The record; empty when there is none of this boot (pids begin again with every boot)."""
        try:
            known = dict(json.loads(self.record_file.read_text()))
        except FileNotFoundError:
            return {}
        return known if abs(known["boot"] - psutil.boot_time()) < BOOT_SLACK else {}

    # --- stopping ----------------------------------------------------------------------------------------------------

    def stop(self) -> int:
        """Stop everything; return how many processes had to be stopped past supervisord (0 on a clean stop).

        Raises:
            StackError: a process survived SIGKILL.
        """
        if self.running():
            self.record()  # what tasks started since: when supervisord leaves, they would have no parent to be found by
            with suppress(OSError, http.client.HTTPException, xmlrpc.client.Fault):  # the look below decides
                self.call("shutdown")
            deadline = time.monotonic() + STOP_SECONDS
            leader, began = self._read()["leader"]
            while _same(leader, began) and time.monotonic() < deadline:
                time.sleep(0.2)
        strays = self.left()
        for force in (False, True):
            for one in self.left():
                _signal(one, force)
            psutil.wait_procs(self.left(), FORCE_SECONDS)
        if survivors := self.left():
            raise StackError(
                f"processes {[one.pid for one in survivors]}: still there after SIGKILL. Look at them with ps."
            )
        for leftover in (self.record_file, socket_path(self.layout), self.layout.stack / "supervisord.pid"):
            leftover.unlink(missing_ok=True)
        if (folder := socket_path(self.layout).parent) != self.layout.stack:
            folder.rmdir()
        return len(strays)


AIRFLOW = ("api-server", "scheduler", "dag-processor", "triggerer")


def _same(pid: int, started: float) -> bool:
    try:
        process = psutil.Process(pid)
        return abs(_began(process) - started) < CLOCK_SLACK and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _began(process: psutil.Process) -> float:
    """Start time in seconds since the epoch; 0 when it is gone."""
    try:
        return float(process.create_time())
    except psutil.Error:
        return 0.0


def _family(pids: list[int]) -> list[psutil.Process]:
    """The processes and all their descendants, without zombies (nothing is left of one but its exit code)."""
    found: dict[int, psutil.Process] = {}
    for pid in pids:
        try:
            process = psutil.Process(pid)
            for one in (process, *process.children(recursive=True)):
                if one.status() != psutil.STATUS_ZOMBIE:
                    found[one.pid] = one
        except psutil.Error:
            continue
    return list(found.values())


def _in_session(process: psutil.Process, session: int, began: float) -> bool:
    try:
        return os.getsid(process.pid) == session and process.create_time() > began - CLOCK_SLACK
    except (OSError, psutil.Error):
        return False


def _signal(process: psutil.Process, force: bool) -> None:
    with suppress(psutil.Error):  # it left by itself
        process.kill() if force else process.terminate()
