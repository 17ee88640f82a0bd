#!/bin/bash
# Compiles libfabric and a few of its test programs from the source tarball. Runs in a sandbox without a network, as its
# root; everything it needs lies in the current folder (/build, so that no other path gets into the bytes):
#
#   libfabric.tar.xz    the source tarball           stubs/*.c    stand-ins for CUDA, where the image has no GPU
#   out/                what becomes the layer       JOBS         compilers to run at once; the bytes don't depend on it
#
# PREFIX is where Amazon's EFA installer puts its libfabric too: the same path in every variant of the image.
set -euo pipefail

PREFIX=/opt/amazon/efa
STUBS=/opt/slipway/cuda-stubs
OUT=$PWD/out

say() { echo "slipway: $*" >&2; }

unpack() {
    say "unpack"
    mkdir -p source objects "$OUT"
    tar --extract --file libfabric.tar.xz --directory source --strip-components 1 --no-same-owner
}

# autogen.sh wants to be called where it is; configure fails when an enabled provider can't be built.
configure() {
    say "autogen"
    (cd source && ./autogen.sh)
    say "configure"
    (cd objects && ../source/configure \
        --prefix="$PREFIX" --disable-static --disable-dependency-tracking --enable-only \
        --enable-efa --enable-tcp --enable-shm --enable-sockets --with-uring=no)
}

library() {
    say "compile libfabric"
    make -C objects -j "$JOBS"
    make -C objects install DESTDIR="$OUT"
    # libtool's own files would make everything that is linked with libfabric link with libibverbs too.
    find "$OUT" -name '*.la' -delete
    rm -r "$OUT$PREFIX/share/man"
}

programs() {
    say "compile fabtests"
    make -f fabtests.mk -j "$JOBS" OUT="$OUT" PREFIX="$PREFIX"
}

# A stub's first line names its file: /* libcuda.so.1: … */. CUDA's runtime has its file's name as symbol version.
stubs() {
    local source file
    for source in stubs/*.c; do
        [ -e "$source" ] || continue
        file=$(sed -n '1s,^/\* \([^ :]*\):.*,\1,p' "$source")
        say "compile $file"
        mkdir -p "$OUT$STUBS"
        case $file in
            libcudart.so.*) echo "$file { global: cuda*; local: *; };" ;;
            *) echo "{ global: cu*; local: *; };" ;;
        esac >version.map
        gcc -O2 -Wall -Wextra -Werror -fPIC -shared -nostdlib -Wl,-soname,"$file" -Wl,--version-script=version.map \
            "$source" -o "$OUT$STUBS/$file"
    done
}

finish() {
    say "strip"
    find "$OUT" -type f \( -name '*.so.*' -o -path '*/bin/*' \) -exec strip --strip-unneeded {} +
    install -D -m 644 source/COPYING "$OUT$PREFIX/share/doc/libfabric/COPYING"
    install -D -m 644 source/fabtests/COPYING "$OUT$PREFIX/share/doc/fabtests/COPYING"
}

unpack
configure
library
programs
stubs
finish
