"""Programs and files of the system that the driver needs, and the Debian package that brings each.

What making a layer takes stands with the layer (slipway.debian.layer.TOOLS, slipway.fabric.layer.TOOLS).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tool:
    """Something that must be on the machine.

    name: a program's name, or the absolute path of a file
    package: what brings it on Debian and Ubuntu
    why: what it is for, for messages
    """

    name: str
    package: str
    why: str


UNPRIVILEGED = (
    Tool("newuidmap", "uidmap", "it lets a user who is not root make a Debian tree with its owners"),
    Tool("newgidmap", "uidmap", "it lets a user who is not root make a Debian tree with its owners"),
)
"""What assembling takes besides when the user is not root."""

ENGINE = (
    Tool("dockerd", "docker.io", "container tests run the image in a real engine"),
    Tool("docker", "docker.io", "containers are started and inspected through its command line"),
)
"""What the container tests take. slipway.engine.install knows which Debian release to take them from."""

BY_COMMAND = {tool.name: tool for tool in (*UNPRIVILEGED, *ENGINE)}
