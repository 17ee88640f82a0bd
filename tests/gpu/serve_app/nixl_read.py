"""Two NIXL agents in two processes: `nixl_read.py target FOLDER`, `nixl_read.py reader FOLDER`.

The reader begins to read 24 MB, releases the transfer after two seconds, and prints as JSON what happens to its memory.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from pathlib import Path

import torch
from nixl._api import nixl_agent, nixl_agent_config

SIZE, PART = 24 << 20, 1 << 20
MARK = 7


def agent(name: str) -> nixl_agent:
    made = nixl_agent(name, nixl_agent_config(backends=[]))
    made.create_backend("UCX", {"num_threads": "1"})
    return made


def target(folder: Path) -> None:
    ours = agent("target")
    memory = torch.full((SIZE // 4,), MARK, dtype=torch.int32)
    ours.register_memory([(memory.data_ptr(), SIZE, 0, "")], "DRAM", backends=["UCX"])
    (folder / "new").write_bytes(pickle.dumps((ours.get_agent_metadata(), memory.data_ptr())))
    (folder / "new").rename(folder / "target")
    time.sleep(120)


def reader(folder: Path) -> None:
    ours = agent("reader")
    memory = torch.zeros(SIZE // 4, dtype=torch.int32)
    ours.register_memory([(memory.data_ptr(), SIZE, 0, "")], "DRAM", backends=["UCX"])
    while not (folder / "target").exists():
        time.sleep(0.1)
    metadata, address = pickle.loads((folder / "target").read_bytes())  # noqa: S301 - from the process above
    peer = ours.add_remote_agent(metadata)
    parts = range(0, SIZE, PART)
    here = ours.get_xfer_descs([(memory.data_ptr() + at, PART, 0) for at in parts], "DRAM")
    there = ours.get_xfer_descs([(address + at, PART, 0) for at in parts], "DRAM")
    name = peer.decode() if isinstance(peer, bytes) else peer
    handle = ours.initialize_xfer("READ", here, there, name, b"", backends=["UCX"])
    ours.transfer(handle)
    end = time.monotonic() + 2
    while time.monotonic() < end:
        state = ours.check_xfer_state(handle)
    ours.release_xfer_handle(handle)
    memory.zero_()  # somebody else's by now
    time.sleep(8)
    print(json.dumps({"state": state, "words_after_release": int((memory == MARK).sum())}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    {"target": target, "reader": reader}[sys.argv[1]](Path(sys.argv[2]))
