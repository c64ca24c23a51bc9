#!/bin/bash
# One model per class as a Slurm array, and the merge of its shards:
#
#     array=$(sbatch --parsable --array=1-10 slurm_array.sh)
#     sbatch --dependency=afterok:$array slurm_array.sh merge
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

# An array that does not begin at 1, or has gaps, is counted from its least index
first=${SLURM_ARRAY_TASK_MIN:-1}
place=$((SLURM_ARRAY_TASK_ID - first + 1))
shard=$place/$SLURM_ARRAY_TASK_COUNT
output=$folder/shard-$place.h5

# srun (where there is one) passes signals on; without --resume's file a run begins afresh
run=$(command -v srun || true)
$run herd fit-rbm "$data" --per-class --epochs 5 --shard "$shard" \
    --checkpoint "$folder/shard-$place.state" --resume -o "$output"
code=$?

# 75: the time is up and the state is saved, or another task holds it
if [ $code -eq 75 ] && [ -n "${SLURM_JOB_ID:-}" ]; then
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
    exit 0
fi
exit $code
