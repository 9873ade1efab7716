#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# All ranks on this machine, without a launcher, as `torchrun --no-python --nproc-per-node=4 ./run.sh FOLDER` starts them.
# Usage: start.sh RANKS FOLDER [flags of iree-run-module]
set -eu
here=$(dirname "$0")
export WORLD_SIZE=$1 MASTER_ADDR=127.0.0.1 MASTER_PORT="${MASTER_PORT:-29500}"
shift
pids=
rank=0
while [ "$rank" -lt "$WORLD_SIZE" ]; do
  RANK=$rank LOCAL_RANK=$rank "$here/run.sh" "$@" &
  pids="$pids $!"
  rank=$((rank + 1))
done
for pid in $pids; do wait "$pid"; done
echo "all $WORLD_SIZE ranks agree with the whole block"
