"""Any other command is run as it is given."""

from __future__ import annotations

import signal

import pytest

from tests.container.docker import Docker


def test_arguments_arrive_as_they_are(docker: Docker) -> None:
    words = ["a b", "$HOME", "*", "", "--help", "ü"]
    code = "import sys, json; print(json.dumps(sys.argv[1:]))"
    assert docker.run("python", "-c", code, *words).out == '["a b", "$HOME", "*", "", "--help", "\\u00fc"]\n'


@pytest.mark.parametrize("code", [0, 7, 255])
def test_the_exit_code_is_the_commands(docker: Docker, code: int) -> None:
    assert docker.run("sh", "-c", f"exit {code}", check=False).code == code


def test_input_and_output_are_the_commands(docker: Docker) -> None:
    done = docker.run("sh", "-c", "cat; echo err >&2", data=b"in")
    assert (done.out, done.err) == ("in", "err\n")


def test_a_command_that_is_not_there_is_127(docker: Docker) -> None:
    assert docker.run("no-such-command", check=False).code == 127


def test_without_a_command_it_says_what_it_can_do(docker: Docker) -> None:
    done = docker.run(check=False)
    assert "serve" in done.out + done.err


def test_signals_reach_the_command(docker: Docker) -> None:
    script = 'trap "exit 9" TERM; echo up; while :; do sleep 0.1; done'
    with docker.started("sh", "-c", script) as container:
        container.wait_for_log("up", 30)
        code, seconds = container.signal_and_wait("TERM", 20)
    assert code == 9
    assert seconds < 10


def test_orphans_are_reaped(docker: Docker) -> None:
    """Process 1 has to wait for every orphan, or a replica that forks fills the process table."""
    script = "for i in 1 2 3 4 5; do (sh -c 'sleep 0.1 & exit 0' &) ; done; sleep 1; ps -eo stat= | grep -c Z; true"
    assert docker.run("bash", "-c", script).out.split() == ["0"]


def test_a_command_that_dies_of_a_signal_says_so(docker: Docker) -> None:
    done = docker.run("sh", "-c", "kill -KILL $$", check=False)
    assert done.code == 128 + signal.SIGKILL
