#!/usr/bin/env bash
# Trains on the devices of one machine: torchrun starts a process for each and ends all where one fails.
# tried: two processes of a CPU (DEVICES=2, gloo), engines ddp and fsdp2.  Not tried: GPUs.
#
#   launch/one-node.sh llama_loss --engine fsdp2 --output_dir runs/eight
#   DEVICES=2 launch/one-node.sh llama_loss --tiny --max_steps 4 --engine ddp --use_cpu --output_dir runs/two
set -euo pipefail

devices=${DEVICES:-$(nvidia-smi --list-gpus | wc -l)}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} # else each process takes every core

# --standalone: a meeting point of its own, on a free port.
exec torchrun --standalone --nproc-per-node "$devices" -m patchgen train "$@"
