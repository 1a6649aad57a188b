#!/bin/bash
# An experiment on SLURM: a job for each arm and seed, of which any number may run at once. Two arms with three seeds:
#   sbatch --array=0-5 --gpus=1 --time=04:00:00 slurm.sh FILE.yaml OUT 3 "baseline synonyms" [more options of truneg]
# Then the tables and the page: truneg experiment FILE.yaml --output OUT
#SBATCH --job-name=truneg --requeue --open-mode=append --signal=USR2@150
file=$1 output=$2 seeds=$3 arms=($4)
shift 4
arm=${arms[SLURM_ARRAY_TASK_ID / seeds]} seed=$((SLURM_ARRAY_TASK_ID % seeds + 1))
srun truneg experiment "$file" --output "$output" "$@" --only "$arm" --set first_seed=$seed seeds=$seed
code=$?
# 75: a signal has stopped it and what was begun is saved, so back to the queue, where it goes on.
[ $code -ne 75 ] || scontrol requeue "$SLURM_JOB_ID"
exit $code
