#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# One rank: the environment has RANK, WORLD_SIZE and MASTER_ADDR, as torchrun sets them, or Open MPI's variables.
# Usage: run.sh FOLDER [flags of iree-run-module]
set -eu
folder=$1
shift
rank=${RANK:-${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:?start this with torchrun, srun or mpirun}}}
inputs=
for index in 0 1 2 3 4 5 6; do inputs="$inputs --input=@$folder/input$rank.$index.npy"; done
# The folder's path must be without blanks.
exec "${IREE_RUN_MODULE:-iree-run-module}" --device=amdgpu_rs://local --module="$folder/block.vmfb" --function=main $inputs \
  --expected_output="@$folder/expected.npy" "$@"
