#!/bin/sh
# Packages installed in a FROM must not start services: nothing runs there that could supervise them.
# 101: action forbidden, https://people.debian.org/~hmh/invokerc.d-policyrc.d-specification.txt
exit 101
