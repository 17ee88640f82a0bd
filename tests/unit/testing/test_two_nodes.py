"""Options of the gpu suite."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from slipway.errors import UsageError
from slipway.testing import two_nodes
from slipway.testing.two_nodes import TwoNodes


def parse(*words: str) -> TwoNodes:
    parser = argparse.ArgumentParser()
    two_nodes.add_arguments(parser)
    return two_nodes.of(parser.parse_args(words))


def test_the_tests_get_what_the_command_line_says() -> None:
    wanted = parse(
        "--fabric", "efa", "--require", "efa,cuda", "--nodes", "kubectl exec -i a --,local", "--tier", "full"
    )
    assert wanted.nodes == ("kubectl exec -i a --", "local")
    assert TwoNodes.read(wanted.as_environment()) == wanted
    assert TwoNodes.read({}) == parse() == TwoNodes()
    assert [two_nodes.prefix(node) for node in wanted.nodes] == [("kubectl", "exec", "-i", "a", "--"), ()]


@pytest.mark.parametrize("words", [("--require", "infiniband"), ("--nodes", "a"), ("--nodes", "a,b,c")])
def test_wrong_usage(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        parse(*words)


def test_what_is_missing_is_not_run_and_required_is_a_failure() -> None:
    assert TwoNodes().verdict_on_missing("efa") == (False, "not run: no EFA device")
    assert TwoNodes().verdict_on_missing("cuda") == (False, "not run: no GPU")
    assert TwoNodes(require=("efa",)).verdict_on_missing("efa") == (True, "required and not there: no EFA device")
    assert TwoNodes(fabric="efa").verdict_on_missing("efa")[0]
    assert not TwoNodes(require=("efa",)).verdict_on_missing("cuda")[0]


def test_auto_is_what_the_machine_has(tmp_path: Path) -> None:
    assert [TwoNodes().wanted_fabric(there) for there in (True, False)] == ["efa", "tcp"]
    assert [TwoNodes().wanted_device(there) for there in (True, False)] == ["cuda", "cpu"]
    assert TwoNodes(fabric="tcp").wanted_fabric(True) == "tcp"
    assert not two_nodes.efa_here(tmp_path)
    assert not two_nodes.gpu_here(tmp_path)
    driver = tmp_path / "drivers/efa"
    driver.mkdir(parents=True)
    (tmp_path / "uverbs0/device").mkdir(parents=True)
    (tmp_path / "uverbs0/device/driver").symlink_to(driver)
    (tmp_path / "nvidia0").touch()
    assert two_nodes.efa_here(tmp_path)
    assert two_nodes.gpu_here(tmp_path)
