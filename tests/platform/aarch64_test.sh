#!/usr/bin/env bash
# aarch64: cross-built, and run by QEMU.
source "$WEFT_SOURCE_DIR/tests/platform/common.sh"
wants aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
wants qemu-aarch64 qemu-user
build aarch64-linux-gnu-g++ -O1 -static
qemu-aarch64 "$out/program"
