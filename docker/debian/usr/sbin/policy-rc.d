#!/bin/sh
# Packages installed in a FROM must not start services: nothing runs there that could supervise them.
# 101: action forbidden, invoke-rc.d(8)
exit 101
