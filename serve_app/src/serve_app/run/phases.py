"""The lines that tell how far the start is: text, or one JSON object a line."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import dataclass, field
from typing import IO, Any, Literal

Format = Literal["text", "json"]
_MARKED = re.compile(r"^(?:\x1b\[\d+m)?\([^()]*\bpid=\d+[^()]*\)(?:\x1b\[0m)? (\{.*\})\s*$")
"""`(ServeReplica:default:Ingress pid=12) {…}`, coloured or not: how Ray passes a worker's lines on."""


@dataclass
class Reporter:
    """Prints events. Seconds count from `start` (a time.monotonic())."""

    format: Format = "text"
    start: float = field(default_factory=time.monotonic)
    out: IO[str] = field(default_factory=lambda: sys.stderr)

    def event(self, name: str, text: str, **facts: Any) -> None:
        """One line: `serve_app +12.3s ready: …`."""
        seconds = round(time.monotonic() - self.start, 2)
        if self.format == "json":
            moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            line = json.dumps({"time": moment, "event": name, "seconds": seconds, "message": text, **facts})
        else:
            line = f"serve_app +{seconds:.1f}s {name}: {text}"
        self._write(line)

    def foreign(self, line: str) -> None:
        """A line of Ray's or vLLM's: as it is, or wrapped so that a JSON log stays JSON throughout.

        A replica's own JSON line comes with Ray's mark of the process before it, which is taken off.
        """
        if self.format == "json":
            marked = _MARKED.match(line)
            if marked is not None:
                line = marked[1]
            elif not line.startswith("{"):
                line = json.dumps({"event": "log", "message": line})
        self._write(line)

    def _write(self, line: str) -> None:
        try:
            self.out.write(line + "\n")
            self.out.flush()
        except (BrokenPipeError, ValueError):
            pass  # nobody reads any more; serving goes on
