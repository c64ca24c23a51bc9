#!/bin/bash
# One model per class as an array of shards, and the merge that waits for them:
#
#     array=$(sbatch --parsable --array=1-10 slurm_array.sh)
#     sbatch --dependency=afterok:$array --kill-on-invalid-dep=yes slurm_array.sh merge
#
# One task again:  SHARDS=10 sbatch --array=3 slurm_array.sh
#
#SBATCH --job-name=classes
#SBATCH --cpus-per-task=4
#SBATCH --mem=4G
#SBATCH --time=02:00:00
#SBATCH --signal=USR1@60
#SBATCH --requeue
#SBATCH --open-mode=append

set -u
data=${DATA:-digits.h5}
folder=${FOLDER:-classes}
mkdir -p "$folder"

if [ "${1:-}" = merge ]; then
    exec herd merge "$folder"/shard-*.h5 -o "$folder/whole.h5"
fi

task=$SLURM_ARRAY_TASK_ID
run=${SLURM_JOB_ID:+$(command -v srun)}                       # within a job: it passes the signal on
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}           # which Slurm 22.05 and later do not pass on

$run herd fit-rbm "$data" --per-class --epochs 5 --shard "$task/${SHARDS:-$SLURM_ARRAY_TASK_COUNT}" \
    --checkpoint "$folder/shard-$task.state" --resume -o "$folder/shard-$task.h5"
code=$?

if [ $code -eq 75 ] && [ -n "${SLURM_JOB_ID:-}" ]; then       # the time is up, and the state is saved
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$task"
fi
exit $code
