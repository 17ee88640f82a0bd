"""Where other people's programs run while a build is made: own namespaces, no network, nothing left behind.

`isolation` says what this machine allows, `running` starts a job and takes what it writes, `inside` is the first
thing that runs within, `place` finds the room it works in, `unpack` makes a root file system of .debs in seconds.
"""
